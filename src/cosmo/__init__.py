"""COSMO: generalized zero-shot learning by adaptive confidence smoothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Loaded on first use, so that `cosmo --help` does not wait for scikit-learn.
_PUBLIC = {
    "Cosmo": "cosmo.classifier._cosmo",
    "ConfidenceGate": "cosmo.gates",
    "DAP": "cosmo.experts",
    "ESZSL": "cosmo.experts",
    "GZSLDataset": "cosmo.data",
    "LAGO": "cosmo.experts",
    "MaxSoftmaxGate": "cosmo.gates",
    "Model": "cosmo.io.model",
    "Protocol": "cosmo.data.splits",
    "SeenUnseenCurve": "cosmo.mixture.curve",
    "SimilarityExpert": "cosmo.experts",
    "Split": "cosmo.data",
    "fit_model": "cosmo.io.model",
}

__all__ = [*_PUBLIC, "load"]

if TYPE_CHECKING:
    from cosmo.classifier._cosmo import Cosmo
    from cosmo.data import GZSLDataset, Split
    from cosmo.data.splits import Protocol
    from cosmo.experts import DAP, ESZSL, LAGO, SimilarityExpert
    from cosmo.gates import ConfidenceGate, MaxSoftmaxGate
    from cosmo.io.model import Model, fit_model
    from cosmo.mixture.curve import SeenUnseenCurve


def load(path: str | Path) -> Model:
    """Return the model of a file that `Model.save` or `cosmo fit` wrote; nothing in it is executed."""
    from cosmo.io.model import Model

    return Model.load(path)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'cosmo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
