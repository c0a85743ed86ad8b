"""Image encoders: pretrained networks without their last layer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmo._core.extras import require
from cosmo.data.images import image_bytes, read_image
from cosmo.encoders._backbones import load_backbone
from cosmo.encoders.base import Encoder, check_text

__all__ = ["ImageEncoder"]


class ImageEncoder(Encoder):
    """Pooled features of a pretrained image network.

    Items are paths of image files, or uint8 arrays (height, width[, 3]). Images are encoded one by one,
    which is not slower on a CPU.

    Parameters
    ----------
    name : str, default="efficientnet-lite0"
        "efficientnet-lite0" has 1280 features and ImageNet weights from an installed package. With their
        packages: "efficientnet-lite1" to "-lite4", "timm:NAME", "torchvision:NAME", and
        "open_clip:NAME/PRETRAINED", which embeds descriptions too.
    weights : path, default=None
        File of weights (safetensors or PyTorch) in place of the published ones.

    Examples
    --------
    >>> encoder = ImageEncoder("efficientnet-lite0")
    >>> encoder.encode([np.zeros((32, 32), dtype=np.uint8)]).shape
    (1, 1280)
    """

    kind = "images"

    def __init__(
        self, name: str = "efficientnet-lite0", *, weights: str | os.PathLike[str] | None = None
    ) -> None:
        self.name = name
        self._backbone = load_backbone(name, None if weights is None else Path(weights))
        self.identity = self._backbone.identity
        self.describes = self._backbone.embed_texts is not None
        size = self._backbone.preprocessing.size
        self.n_features = self._embed(np.zeros((1, 3, size, size), dtype=np.float32)).shape[1]

    def content(self, item: Any) -> bytes:
        """Return the bytes of a file, or of an array."""
        return image_bytes(item)

    def read(self, item: Any) -> NDArray[np.uint8]:
        """Return an image at the input size of the network, shape (size, size, 3)."""
        preprocessing = self._backbone.preprocessing
        return preprocessing.resize(read_image(item, round(preprocessing.size / preprocessing.crop)))

    def encode_batch(self, batch: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return features of decoded images, shape (n_images, n_features)."""
        normalise = self._backbone.preprocessing.normalise
        return np.concatenate([self._embed(normalise([image])) for image in batch])

    def encode_descriptions(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return descriptions in the space of the images, shape (n_texts, n_features)."""
        embed_texts = self._backbone.embed_texts
        if embed_texts is None:
            return super().encode_descriptions(texts)
        with require("torch").inference_mode():
            rows = [embed_texts([check_text(text)]).float().numpy() for text in texts]
        return np.concatenate(rows) if rows else np.empty((0, self.n_features), dtype=np.float32)

    def _embed(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        torch = require("torch")
        with torch.inference_mode():
            # The pixels are in channels-last memory format, the fastest one on a CPU.
            return self._backbone.network(torch.from_numpy(pixels)).float().numpy()
