"""Encoders: features of texts and images."""

from __future__ import annotations

import os

from cosmo.data.dataset import ItemError
from cosmo.encoders.base import Encoder
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

#: Class of each encoder, by the part of its name before a colon.
ENCODERS: dict[str, type[SentenceEncoder] | type[ImageEncoder]] = {
    **dict.fromkeys(("minilm", "sentence"), SentenceEncoder),
    **dict.fromkeys((f"efficientnet-lite{size}" for size in range(5)), ImageEncoder),
    **dict.fromkeys(("timm", "torchvision", "open_clip"), ImageEncoder),
}


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
    encoder_class = ENCODERS.get(name.partition(":")[0])
    if encoder_class is None:
        libraries = ("sentence", "timm", "torchvision", "open_clip")
        known = ["minilm", "efficientnet-lite0", *(f"{library}:NAME" for library in libraries)]
        raise ValueError(f"there is no encoder {name!r}; there are {', '.join(known)}")
    return encoder_class(name, weights=weights)
