"""Gates: the probability that a sample is of a seen class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cosmo._core import lazy

if TYPE_CHECKING:
    from cosmo.gates.base import Gate
    from cosmo.gates.baselines import MaxSoftmaxGate, NoveltyGate
    from cosmo.gates.confidence import ConfidenceGate, EvidenceGate
    from cosmo.gates.leave_out import LeaveOutGate
    from cosmo.gates.odin import OdinGate

GATES = {
    "confidence": "confidence-based gate, K = 5, T = 3 (the paper's)",
    "confidence-auto": "confidence-based gate, K and T chosen by AUC on Gating-Val",
    "confidence-seen": "confidence-based gate that reads the seen expert only",
    "max-softmax": "largest probability of the seen expert",
    "max-softmax-3": "the same at temperature 3",
    "odin": "largest probability after a perturbation, ε and T chosen by AUC on Gating-Val",
    "leave-out": "ensemble of classifiers, each trained to be uncertain about some of the classes",
    "evidence": "confidences, entropies, margins, energy and distances in feature space",
    "novelty": "the unseen expert's own novelty detection (CMT)",
}

# Modules are imported on first use.
_MODULES = {
    "Gate": "base",
    "MaxSoftmaxGate": "baselines",
    "NoveltyGate": "baselines",
    "ConfidenceGate": "confidence",
    "EvidenceGate": "confidence",
    "LeaveOutGate": "leave_out",
    "OdinGate": "odin",
}
__getattr__, __dir__ = lazy(__name__, _MODULES)
__all__ = [*_MODULES, "GATES", "make_gate"]
_ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "confidence": ("ConfidenceGate", {}),
    "confidence-auto": ("ConfidenceGate", {"k": None, "temperatures": None}),
    "confidence-seen": ("ConfidenceGate", {"use_unseen": False}),
    "max-softmax": ("MaxSoftmaxGate", {}),
    "max-softmax-3": ("MaxSoftmaxGate", {"temperature": 3.0}),
    "odin": ("OdinGate", {}),
    "leave-out": ("LeaveOutGate", {}),
    "evidence": ("EvidenceGate", {}),
    "novelty": ("NoveltyGate", {}),
}


def make_gate(name: str) -> Gate:
    """Return a new gate by its name in `GATES`.

    An unknown name raises `ValueError`.

    Examples
    --------
    >>> make_gate("max-softmax")
    MaxSoftmaxGate()
    """
    if name not in GATES:
        raise ValueError(f"unknown gate {name!r}; choose from {', '.join(GATES)}")
    kind, arguments = _ARGUMENTS[name]
    return __getattr__(kind)(**arguments)
