"""Gates: is this sample of a class I have examples of?"""

from collections.abc import Callable

from cosmo.gates.base import Gate
from cosmo.gates.confidence import ConfidenceGate
from cosmo.gates.evidence import EvidenceGate
from cosmo.gates.leave_out import LeaveOutGate
from cosmo.gates.max_softmax import MaxSoftmaxGate
from cosmo.gates.novelty import NoveltyGate
from cosmo.gates.odin import OdinGate

__all__ = [
    "GATES",
    "ConfidenceGate",
    "EvidenceGate",
    "Gate",
    "LeaveOutGate",
    "MaxSoftmaxGate",
    "NoveltyGate",
    "OdinGate",
    "make_gate",
]

GATES = {
    "confidence": "confidence-based gate, K = 5, T = 3 (the paper's)",
    "confidence-auto": "confidence-based gate, K and T chosen by AUC on Gating-Val",
    "confidence-seen": "confidence-based gate that reads the seen expert only",
    "max-softmax": "largest probability of the seen expert",
    "max-softmax-3": "the same at temperature 3",
    "odin": "largest probability after a push, ε and T chosen by AUC on Gating-Val",
    "leave-out": "ensemble of classifiers, each trained to doubt some of the classes",
    "evidence": "confidences, entropies, margins, energy and distances in feature space",
    "novelty": "the unseen expert's own novelty detection (CMT)",
}


def make_gate(name: str) -> Gate:
    """Return a new gate by its name in `GATES`.

    Examples
    --------
    >>> make_gate("max-softmax")
    MaxSoftmaxGate()
    """
    makers: dict[str, Callable[[], Gate]] = {
        "confidence": ConfidenceGate,
        "confidence-auto": lambda: ConfidenceGate(k=None, temperatures=None),
        "confidence-seen": lambda: ConfidenceGate(use_unseen=False),
        "max-softmax": MaxSoftmaxGate,
        "max-softmax-3": lambda: MaxSoftmaxGate(3.0),
        "odin": OdinGate,
        "leave-out": LeaveOutGate,
        "evidence": EvidenceGate,
        "novelty": NoveltyGate,
    }
    if name not in makers:
        raise ValueError(f"unknown gate {name!r}; choose from {', '.join(GATES)}")
    return makers[name]()
