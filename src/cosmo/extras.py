"""Parts that a light install leaves out, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["MissingExtra", "import_torch"]


class MissingExtra(ImportError):
    """A package that belongs to one of the extras is not installed; the message says how to get it."""


def import_torch() -> Any:
    """Return the module `torch`, or say how to get it."""
    return _extra("torch", "torch", "networks take PyTorch")


def _extra(module: str, extra: str, why: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{why}: pip install 'cosmo-gzsl[{extra}]'") from error
