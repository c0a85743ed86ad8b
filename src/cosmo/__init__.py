"""COSMO: generalized zero-shot learning by adaptive confidence smoothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosmo._core import lazy

__version__ = "0.1.0"

# Loaded on first use, so that `cosmo --help` does not wait for scikit-learn.
_PUBLIC = {
    "Cosmo": "classifier._cosmo",
    "ConfidenceGate": "gates",
    "DAP": "experts",
    "ESZSL": "experts",
    "GZSLDataset": "data",
    "LAGO": "experts",
    "MaxSoftmaxGate": "gates",
    "Model": "io.model",
    "Protocol": "data.splits",
    "SeenUnseenCurve": "mixture.curve",
    "SimilarityExpert": "experts",
    "Split": "data",
    "discover": "io.discover",
    "export_onnx": "io.onnx_file",
    "fit_model": "io.model",
    "load": "io.model",
}
__getattr__, __dir__ = lazy(__name__, _PUBLIC)

__all__ = [*_PUBLIC]

if TYPE_CHECKING:
    from cosmo.classifier._cosmo import Cosmo
    from cosmo.data import GZSLDataset, Split
    from cosmo.data.splits import Protocol
    from cosmo.experts import DAP, ESZSL, LAGO, SimilarityExpert
    from cosmo.gates import ConfidenceGate, MaxSoftmaxGate
    from cosmo.io.discover import discover
    from cosmo.io.model import Model, fit_model, load
    from cosmo.io.onnx_file import export_onnx
    from cosmo.mixture.curve import SeenUnseenCurve
