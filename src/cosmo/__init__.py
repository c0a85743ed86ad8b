"""COSMO: generalized zero-shot learning by adaptive confidence smoothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Loaded on first use, so that `cosmo --help` does not wait for scikit-learn.
_PUBLIC = {
    "Cosmo": "cosmo.classifier",
    "ConfidenceGate": "cosmo.gates",
    "DAP": "cosmo.experts",
    "ESZSL": "cosmo.experts",
    "GZSLDataset": "cosmo.data",
    "LAGO": "cosmo.experts",
    "MaxSoftmaxGate": "cosmo.gates",
    "Model": "cosmo.model",
    "Protocol": "cosmo.protocol",
    "SeenUnseenCurve": "cosmo.curve",
    "SimilarityExpert": "cosmo.experts",
    "Split": "cosmo.data",
    "fit_model": "cosmo.model",
}

__all__ = [*_PUBLIC, "load"]

if TYPE_CHECKING:
    from cosmo.classifier import Cosmo
    from cosmo.curve import SeenUnseenCurve
    from cosmo.data import GZSLDataset, Split
    from cosmo.experts import DAP, ESZSL, LAGO, SimilarityExpert
    from cosmo.gates import ConfidenceGate, MaxSoftmaxGate
    from cosmo.model import Model, fit_model
    from cosmo.protocol import Protocol


def load(path: str | Path) -> Model:
    """Return the model of a file that `Model.save` or `cosmo fit` wrote; nothing in it is executed."""
    from cosmo.model import Model

    return Model.load(path)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'cosmo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
