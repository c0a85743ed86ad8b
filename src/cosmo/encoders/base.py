"""Base class of encoders."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cosmo._core import require
from cosmo.data.dataset import ItemError


class Encoder(ABC):
    """Base class of encoders: features of texts or images.

    `read` decodes one item, in a thread; `encode_batch` encodes decoded items. Features of an item must
    not depend on the rest of its batch.

    Attributes
    ----------
    name : str
        ``make_encoder(encoder.name)`` returns the same encoder.
    kind : {"text", "images"}
    n_features : int
    identity : str
        Fingerprint of weights and preprocessing.
    describes : bool
        Whether `encode_descriptions` embeds texts in the space of the samples.
    batch_size : int
        Number of decoded items in memory.

    Examples
    --------
    >>> class Letters(Encoder):
    ...     name, kind, n_features, identity, describes = "letters", "text", 26, "letters-1", True
    ...     def content(self, item):
    ...         return item.encode()
    ...     def read(self, item):
    ...         return np.array([item.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"])
    ...     def encode_batch(self, batch):
    ...         return np.array(batch, dtype=np.float32)
    >>> Letters().encode(["Abba", "cab"])[:, :3]
    array([[2., 2., 0.],
           [1., 1., 1.]], dtype=float32)
    """

    kind: ClassVar[Literal["text", "images"]]
    describes: bool = False
    batch_size: int = 32
    name: str
    n_features: int
    identity: str

    @abstractmethod
    def content(self, item: Any) -> bytes:
        """Return the bytes that the features depend on, or raise ItemError."""

    @abstractmethod
    def read(self, item: Any) -> Any:
        """Return an item decoded for `encode_batch`, or raise ItemError."""

    @abstractmethod
    def encode_batch(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the features of decoded items, shape (n_items, n_features)."""

    def loaded(self) -> Encoder:
        """Return the encoder with its weights in memory."""
        return self

    def encode(self, items: Iterable[Any]) -> NDArray[np.float32]:
        """Return features of items, shape (n_items, n_features); `extract` has a cache for many items."""
        if isinstance(items, str | bytes):
            raise TypeError(f"items must be a sequence of {self.kind}, not one; put it into a list")
        remaining, parts = iter(items), [np.empty((0, self.n_features), dtype=np.float32)]
        while batch := [self.read(item) for item in islice(remaining, self.batch_size)]:
            parts.append(self.encode_batch(batch))
        return np.concatenate(parts)

    def encode_descriptions(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return texts in the space of the samples, shape (n_texts, n_features), if `describes`."""
        raise ValueError(
            f"{self.name} encodes {self.kind} only, not descriptions in words: describe classes by numbers, "
            "or use an encoder of both, such as open_clip:NAME/PRETRAINED"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def encode_classes(encoder: Encoder, texts: Sequence[str], side_by_side: int = 1) -> NDArray[np.float32]:
    """Return descriptions in the space of the samples.

    Lines of a description are sentences. Several are averaged, and scaled to their mean length. If there are
    to be more than one `side_by_side`, a row has that many embeddings, repeated for classes with fewer.
    """
    groups = [[line for line in text.splitlines() if line.strip()] for text in texts]
    if side_by_side > 1:
        if (most := max(map(len, groups))) > side_by_side:
            raise ValueError(f"a class has {most} sentences; the model compares {side_by_side} at most")
        lines = [line for group in groups for line in (group * side_by_side)[:side_by_side]]
        return encoder.encode_descriptions(lines).reshape(len(groups), -1)
    rows = encoder.encode_descriptions([line for group in groups for line in group])
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    counts = np.array([len(group) for group in groups], dtype=np.float32)
    lengths = np.add.reduceat(np.linalg.norm(rows, axis=1), starts) / counts
    means = np.add.reduceat(rows, starts, axis=0) / counts[:, None]
    scales = lengths / np.maximum(np.linalg.norm(means, axis=1), np.finfo(np.float32).tiny)
    return np.where(counts[:, None] > 1, means * scales[:, None], rows[starts])


def check_text(item: Any) -> str:
    """Return an item if it is a non-empty text."""
    if not isinstance(item, str):
        raise ItemError(f"expected a text, got {item!r} ({type(item).__name__})")
    if not item.strip():
        raise ItemError("the text is empty")
    return item


def weights_identity(weights: Mapping[str, Any], *recipe: str | float) -> str:
    """Return a fingerprint of a network's tensors and of the recipe around it."""
    torch = require("torch")
    digest = hashlib.blake2b(repr(recipe).encode(), digest_size=16)
    for name in sorted(weights):
        values = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
        # As bytes, since numpy lacks some of PyTorch's dtypes.
        digest.update(values.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
