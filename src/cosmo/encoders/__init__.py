"""Encoders: features of texts and images."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosmo.data.dataset import ItemError
    from cosmo.encoders.base import Encoder
    from cosmo.encoders.features import Extraction, ExtractionError, Problem, extract
    from cosmo.encoders.images import ImageEncoder
    from cosmo.encoders.text import SentenceEncoder

    ENCODERS: dict[str, type[SentenceEncoder] | type[ImageEncoder]]

# Modules are imported on first use.
_MODULES = {
    "cosmo.data.dataset": ("ItemError",),
    "cosmo.encoders.base": ("Encoder",),
    "cosmo.encoders.features": ("Extraction", "ExtractionError", "Problem", "extract"),
    "cosmo.encoders.images": ("ImageEncoder",),
    "cosmo.encoders.text": ("SentenceEncoder",),
}

__all__ = [
    "ENCODERS",
    "Encoder",
    "Extraction",
    "ExtractionError",
    "ImageEncoder",
    "ItemError",
    "Problem",
    "SentenceEncoder",
    "extract",
    "make_encoder",
]


def make_encoder(name: str, *, weights: str | os.PathLike[str] | None = None) -> Encoder:
    """Return an encoder by name.

    Parameters
    ----------
    name : str
        For texts: "minilm", or "sentence:" and the name or folder of a sentence-transformers model. For
        images: "efficientnet-lite0" (to 4), "timm:NAME", "torchvision:NAME" or
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
    encoder_class = _encoder_classes().get(name.partition(":")[0])
    if encoder_class is None:
        libraries = ("sentence", "timm", "torchvision", "open_clip")
        known = ["minilm", "efficientnet-lite0", *(f"{library}:NAME" for library in libraries)]
        raise ValueError(f"there is no encoder {name!r}; there are {', '.join(known)}")
    return encoder_class(name, weights=weights)


@cache
def _encoder_classes() -> dict[str, type[SentenceEncoder] | type[ImageEncoder]]:
    """Return the class of each encoder, by the part of its name before a colon (`ENCODERS`)."""
    from cosmo.encoders.images import ImageEncoder
    from cosmo.encoders.text import SentenceEncoder

    images = (*(f"efficientnet-lite{size}" for size in range(5)), "timm", "torchvision", "open_clip")
    return {"minilm": SentenceEncoder, "sentence": SentenceEncoder, **dict.fromkeys(images, ImageEncoder)}


def __getattr__(name: str) -> Any:
    if name == "ENCODERS":
        return _encoder_classes()
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'cosmo.encoders' has no attribute {name!r}")
