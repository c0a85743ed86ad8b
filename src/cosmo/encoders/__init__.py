"""Encoders: samples that are not numbers become feature rows."""

from __future__ import annotations

import os

from cosmo.encoders.base import Encoder, ItemError
from cosmo.encoders.features import Extraction, ExtractionError, Problem, extract
from cosmo.encoders.images import ImageEncoder
from cosmo.encoders.text import SentenceEncoder

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

#: What there is, by the part of the name before a colon.
ENCODERS: dict[str, type[SentenceEncoder] | type[ImageEncoder]] = {
    "minilm": SentenceEncoder,
    "sentence": SentenceEncoder,
    **{f"efficientnet-lite{size}": ImageEncoder for size in range(5)},
    "timm": ImageEncoder,
    "torchvision": ImageEncoder,
    "open_clip": ImageEncoder,
}


def make_encoder(name: str, *, weights: str | os.PathLike[str] | None = None) -> Encoder:
    """Return an encoder by name.

    Parameters
    ----------
    name : str
        Of texts: "minilm", or "sentence:" and the name or folder of a sentence-transformers model. Of
        pictures: "efficientnet-lite0" (to 4), "timm:NAME", "torchvision:NAME" or
        "open_clip:NAME/PRETRAINED". The two that are named in full need no network.
    weights : path, optional
        Where the weights are, if not where the library of the model keeps them: a folder for texts, a
        file for pictures.

    Examples
    --------
    >>> make_encoder("minilm").n_features
    384
    """
    kind = ENCODERS.get(name.partition(":")[0])
    if kind is None:
        libraries = ("sentence", "timm", "torchvision", "open_clip")
        known = ["minilm", "efficientnet-lite0", *(f"{library}:NAME" for library in libraries)]
        raise ValueError(f"there is no encoder {name!r}; there are {', '.join(known)}")
    return kind(name, weights=weights)
