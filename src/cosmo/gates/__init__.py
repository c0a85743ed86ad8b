"""Gates: is this sample of a class I have examples of?"""

from cosmo.gates.base import Gate
from cosmo.gates.confidence import ConfidenceGate
from cosmo.gates.max_softmax import MaxSoftmaxGate
from cosmo.gates.novelty import NoveltyGate

__all__ = ["GATES", "ConfidenceGate", "Gate", "MaxSoftmaxGate", "NoveltyGate", "make_gate"]

GATES = {
    "confidence": "confidence-based gate, K = 5, T = 3 (the paper's)",
    "confidence-auto": "confidence-based gate, K and T chosen by AUC on Gating-Val",
    "max-softmax": "largest probability of the seen expert",
    "novelty": "the unseen expert's own novelty detection (CMT)",
}


def make_gate(name: str) -> Gate:
    """Return a new gate by its name in `GATES`.

    Examples
    --------
    >>> make_gate("max-softmax")
    MaxSoftmaxGate()
    """
    if name == "confidence":
        return ConfidenceGate()
    if name == "confidence-auto":
        return ConfidenceGate(k=None, temperatures=None)
    if name == "max-softmax":
        return MaxSoftmaxGate()
    if name == "novelty":
        return NoveltyGate()
    raise ValueError(f"unknown gate {name!r}; choose from {', '.join(GATES)}")
