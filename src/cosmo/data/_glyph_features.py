"""`glyph_features`: what a picture of a letter looks like, as a few hundred numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, uniform_filter

__all__ = ["glyph_features"]

_CELLS = 8  # along each side of the picture
_ORIENTATIONS = 8
_SMALLEST = 2 * _CELLS
_CHUNK = 256  # pictures at a time: the gradient maps of all of them would fill hundreds of megabytes
_BLUR = 1 / 40  # of the side; finer gradients are mostly noise
_FLAT = 0.05  # strength of a gradient that counts as none, so that empty cells are not blown up
# Centred and of similar variance, features suit a linear model that does not scale them itself.
_GRADIENT_CENTRE, _PIXEL_SCALE = 0.2, 0.3


def glyph_features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Describe pictures by histograms of gradients and by a reduced copy of the pixels.

    The picture is divided into 8 x 8 overlapping cells whatever its size. A cell counts the
    gradients in 8 directions, relative to the strength of the gradients around it, and adds
    its mean ink. Every picture is described on its own, so that a new one compares with old ones.

    Parameters
    ----------
    images : uint8 array of shape (n_images, height, width) or (height, width)
        Dark letters on light paper; each side at least 16 pixels.

    Returns
    -------
    float32 array of shape (n_images, 576)
        One row per picture; a single picture gives one row.

    Examples
    --------
    >>> import numpy as np
    >>> blank = np.full((32, 32), 255, dtype=np.uint8)
    >>> glyph_features(blank).shape
    (1, 576)
    """
    pictures = np.asarray(images)
    if pictures.ndim == 2:
        pictures = pictures[None]
    if pictures.dtype != np.uint8:
        raise ValueError(f"images must be uint8 (0 is black, 255 is white), got {pictures.dtype}")
    if pictures.ndim != 3 or min(pictures.shape[1:]) < _SMALLEST:
        raise ValueError(
            "images must have shape (n, height, width) or (height, width) with sides of at least "
            f"{_SMALLEST} pixels, got {np.shape(images)}"
        )
    features = np.empty((len(pictures), _CELLS * _CELLS * (_ORIENTATIONS + 1)), dtype=np.float32)
    for start in range(0, len(pictures), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        features[chunk] = _describe(pictures[chunk])
    return features


def _describe(pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the features of a few pictures, shape (n, 576)."""
    n, height, width = pictures.shape
    ink = np.subtract(1, np.divide(pictures, 255, dtype=np.float32), dtype=np.float32)
    rows, columns = _pooling(height), _pooling(width).T
    gradients = rows @ _gradients_by_direction(ink) @ columns
    around = uniform_filter(np.square(gradients).sum(axis=1), size=3, axes=(1, 2), mode="nearest")
    gradients = np.sqrt(gradients / np.sqrt(around + _FLAT**2)[:, None])
    pixels = rows @ ink @ columns
    pixels /= pixels.mean(axis=(1, 2), keepdims=True) + _FLAT
    return np.concatenate(
        [(gradients - _GRADIENT_CENTRE).reshape(n, -1), _PIXEL_SCALE * (pixels - 1).reshape(n, -1)], axis=1
    )


def _gradients_by_direction(ink: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return gradient strengths (n, 8, height, width), each shared between the directions next to its own."""
    _, height, width = ink.shape
    sigma = (_BLUR * height, _BLUR * width)
    # Times the side, the slope of the same letter is the same at every resolution.
    down = gaussian_filter(ink, sigma, order=(1, 0), mode="nearest", axes=(1, 2)) * (height / 32)
    right = gaussian_filter(ink, sigma, order=(0, 1), mode="nearest", axes=(1, 2)) * (width / 32)
    strength = np.hypot(down, right) + np.finfo(np.float32).tiny
    maps = np.empty((len(ink), _ORIENTATIONS, height, width), dtype=np.float32)
    for k, angle in enumerate(2 * np.pi * np.arange(_ORIENTATIONS) / _ORIENTATIONS):
        cosine = np.float32(np.cos(angle)) * right + np.float32(np.sin(angle)) * down
        cosine = np.maximum(cosine, 0) / strength
        np.multiply(strength, np.square(np.square(np.square(cosine))), out=maps[:, k])
    return maps


def _pooling(size: int) -> NDArray[np.float32]:
    """Return weights (8, size) that average pixels into overlapping cells, falling off linearly."""
    cell = size / _CELLS
    centres = (np.arange(_CELLS) + 0.5) * cell
    distance = np.abs(np.arange(size) + 0.5 - centres[:, None]) / cell
    weights = np.maximum(1 - distance, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
