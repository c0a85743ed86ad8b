"""The contract of an encoder: texts or pictures in, feature rows out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cosmo._core.extras import require
from cosmo.data.dataset import ItemError

__all__ = ["Encoder", "weights_identity"]


class Encoder(ABC):
    """Turns samples that are not numbers into feature rows.

    An encoder reads one item at a time (`read`, which may fail, and may run in a thread) and encodes
    what it read in batches (`encode_batch`). Features of an item do not depend on the items beside it.

    Attributes
    ----------
    name : str
        How it is asked for: ``make_encoder(encoder.name)`` gives the same one.
    kind : {"text", "images"}
        What it reads.
    n_features : int
        Length of a feature row.
    identity : str
        Fingerprint of weights and preprocessing: equal identities give equal features.
    describes : bool
        Whether texts can be placed in the space of the samples, see `encode_descriptions`.
    batch_size : int
        Items that are held in memory together.

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
        """Return what the features of an item depend on, such as the bytes of a file.

        Raises
        ------
        ItemError
            If there is no such file, or the item is not of the right type.
        """

    @abstractmethod
    def read(self, item: Any) -> Any:
        """Return an item as `encode_batch` takes it.

        Raises
        ------
        ItemError
            If the item cannot be used.
        """

    @abstractmethod
    def encode_batch(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return features of items that were read, shape (n_items, n_features)."""

    def encode(self, items: Iterable[Any]) -> NDArray[np.float32]:
        """Return features of items, shape (n_items, n_features); `cosmo.encoders.extract` does large sets.

        Raises
        ------
        ItemError
            On the first item that cannot be used.
        """
        if isinstance(items, str | bytes):
            raise TypeError(f"items must be a sequence of {self.kind}, not one; put it into a list")
        batches = _batches(items, self.batch_size)
        parts = [self.encode_batch([self.read(item) for item in batch]) for batch in batches]
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), dtype=np.float32)

    def encode_descriptions(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return texts in the space of the samples, shape (n_texts, n_features), if `describes`.

        Raises
        ------
        ValueError
            If this encoder has no place for texts.
        """
        raise ValueError(
            f"{self.name} encodes {self.kind} only and has no place for descriptions in words: describe "
            "classes by numbers, or take an encoder of both, such as open_clip:NAME/PRETRAINED"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def check_text(item: Any) -> str:
    """Return an item if it is a text with something in it."""
    if not isinstance(item, str):
        raise ItemError(f"a text was expected, got {item!r} ({type(item).__name__})")
    if not item.strip():
        raise ItemError("the text is empty")
    return item


def weights_identity(weights: Mapping[str, Any], *recipe: str | float) -> str:
    """Return a fingerprint of a network's tensors by name and of what is done around it.

    Examples
    --------
    >>> torch = __import__("pytest").importorskip("torch")
    >>> weights = {"bias": torch.zeros(3)}
    >>> weights_identity(weights, 224) == weights_identity(weights, 225)
    False
    """
    torch = require("torch")
    digest = hashlib.blake2b(repr(recipe).encode(), digest_size=16)
    for name in sorted(weights):
        values = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
        # As bytes, since numpy does not know all of PyTorch's dtypes.
        digest.update(values.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
