"""The ways in which the paper combines two experts: `WAYS`, among them stacking without a gate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cosmo._core.validation import as_number
from cosmo.classifier.combinations import Combination, GatedMixture, OperatingPoint, Outputs
from cosmo.gates.baselines import MaxSoftmaxGate, NoveltyGate
from cosmo.gates.confidence import ConfidenceGate
from cosmo.mixture.outputs import ExpertOutputs


class CalibratedStacking(Combination):
    """The unseen expert alone, with a constant subtracted from its scores of seen classes.

    Parameters
    ----------
    constant : float, optional
        By default the one of best Acc_H on validation; 0 is the plain expert.

    References
    ----------
    Chao et al., "An empirical study and analysis of generalized zero-shot learning for object recognition
    in the wild", ECCV 2016.

    Examples
    --------
    >>> import pandas as pd
    >>> joint = np.array([[0.7, 0.2, 0.1], [0.5, 0.1, 0.4]])
    >>> out = ExpertOutputs.from_joint(joint[:, :2] / joint[:, :2].sum(1, keepdims=True), joint,
    ...                                pd.Index(["a", "b"]), pd.Index(["z"]), target=np.array([0, 2]))
    >>> CalibratedStacking().fit(out).predict(out), CalibratedStacking(0.0).fit(out).predict(out)
    (array([0, 2]), array([0, 0]))
    """

    def __init__(self, constant: float | None = None) -> None:
        self.constant = constant

    def fit(self, outputs: ExpertOutputs) -> Self:
        """Choose the constant on labelled validation outputs, unless it is given."""
        if self.constant is not None:
            if not np.isfinite(as_number(self.constant, name="constant")):
                raise ValueError(f"constant must be finite, got {self.constant}")
            self.operating_point_ = OperatingPoint(float(self.constant))
            return self
        self.validation_point_ = self.curve(outputs).best()
        self.operating_point_ = OperatingPoint(self.validation_point_.threshold)
        return self

    def flips(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return best seen minus best unseen score."""
        assert isinstance(outputs, ExpertOutputs), "a summary has no scores for stacking"
        return outputs.stacking_margin

    def seen_choice(self, outputs: Outputs) -> NDArray[np.intp]:
        """Return the unseen expert's own best seen class."""
        assert isinstance(outputs, ExpertOutputs), "a summary has no scores for stacking"
        if outputs.stacking_choice is None:
            raise ValueError("these outputs lack the unseen expert's scores on seen classes")
        return outputs.stacking_choice


WAYS: dict[str, Combination] = {
    "alone": CalibratedStacking(0.0),
    "own gate": GatedMixture(NoveltyGate(), smoothing="none", hard=True),
    "CS": CalibratedStacking(),
    "COSMO": GatedMixture(ConfidenceGate()),
    "Independent-Hard": GatedMixture(MaxSoftmaxGate(), smoothing="none", hard=True),
    "Max-Softmax-1": GatedMixture(MaxSoftmaxGate(), smoothing="none"),
    "Max-Softmax-3": GatedMixture(MaxSoftmaxGate(3.0), smoothing="none"),
    "CB-Gating-3 (w/o p^ZS)": GatedMixture(ConfidenceGate(use_unseen=False), smoothing="none"),
    "CB-Gating-1": GatedMixture(ConfidenceGate(temperatures=(1.0,)), smoothing="none"),
    "CB-Gating-3": GatedMixture(ConfidenceGate(), smoothing="none"),
    "Const-Smoothing": GatedMixture(MaxSoftmaxGate(), smoothing="constant"),
    "Adaptive-Smoothing": GatedMixture(MaxSoftmaxGate()),
}
"""Every way in which the paper combines two experts, unfitted."""


def make_way(name: str, **parameters: Any) -> Combination:
    """Return an unfitted copy of a combination in `WAYS`, with some parameters changed.

    Examples
    --------
    >>> make_way("COSMO", smoothing="none")
    GatedMixture(gate=ConfidenceGate(), smoothing='none')
    """
    return clone(WAYS[name]).set_params(**parameters)
