"""Steps of a prediction: expert outputs, gate, smoothing and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo.classifier.combinations import GatedMixture
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import smooth


@dataclass(frozen=True, eq=False)
class Explanation:
    """Every quantity from the experts to the prediction, for some samples.

    `seen` and `unseen` are the experts' own outputs, `p(y,S)` and `p(y,U)`; `p(y|S)` and `p(y|U)` in the
    calibrated method. `gate_score` is larger for samples that look seen; `p_unseen` is the gate's `p(U)` at
    the operating point. `smoothed_seen` and `smoothed_unseen` are the experts after smoothing, `p'(y|S)` and
    `p'(y|U)`; in the calibrated method they are `seen` and `unseen`, and the result is the product of expert
    and gate. `proba` is the result, normalised, columns `[seen | unseen]`.

    Examples
    --------
    >>> one = Explanation(pd.Index(["a"]), pd.Index(["z"]), np.array([[1.0]]), np.array([[0.4]]),
    ...                   np.array([0.7]), np.array([0.25]), np.array([[1.25]]), np.array([[1.15]]),
    ...                   np.array([[0.77, 0.23]]))
    >>> print(one)
    gate score 0.700, p(unseen) 0.250 -> 'a' (seen)
       domain  expert  smoothed  result
    a    seen   1.000     1.250   0.770
    z  unseen   0.400     1.150   0.230
    """

    seen_classes: pd.Index
    unseen_classes: pd.Index
    seen: NDArray[Any]
    unseen: NDArray[Any]
    gate_score: NDArray[np.float64]
    p_unseen: NDArray[np.float64]
    smoothed_seen: NDArray[Any]
    smoothed_unseen: NDArray[Any]
    proba: NDArray[Any]

    def __len__(self) -> int:
        return len(self.proba)

    @property
    def classes(self) -> pd.Index:
        """All classes, seen ones first."""
        return self.seen_classes.append(self.unseen_classes)

    @property
    def prediction(self) -> pd.Index:
        """The predicted class of each sample."""
        return self.classes[self.proba.argmax(axis=1)]

    def table(self, sample: int = 0) -> pd.DataFrame:
        """Return one sample's classes, best first: domain, expert, smoothed (if it is), result."""
        frame = pd.DataFrame(
            {
                "domain": ["seen"] * len(self.seen_classes) + ["unseen"] * len(self.unseen_classes),
                "expert": np.concatenate([self.seen[sample], self.unseen[sample]]),
                "smoothed": np.concatenate([self.smoothed_seen[sample], self.smoothed_unseen[sample]]),
                "result": self.proba[sample],
            },
            index=self.classes,
        )
        if self.smoothed_seen is self.seen:
            frame = frame.drop(columns="smoothed")
        return frame.sort_values("result", ascending=False, kind="stable")

    def __str__(self) -> str:
        def show(sample: int) -> str:
            table = self.table(sample)
            best = table.index[0]
            best = best.item() if isinstance(best, np.generic) else best  # 3, not np.int64(3)
            head = (
                f"gate score {self.gate_score[sample]:.3f}, p(unseen) {self.p_unseen[sample]:.3f} "
                f"-> {best!r} ({table['domain'].iloc[0]})"
            )
            return f"{head}\n{table.head(6).to_string(float_format='{:.3f}'.format)}"

        shown = [show(sample) for sample in range(min(len(self), 5))]
        if len(self) > len(shown):
            shown.append(f"... and {len(self) - len(shown)} more samples")
        return "\n\n".join(shown)


def explain(mixture: GatedMixture, outputs: ExpertOutputs) -> Explanation:
    """Return every step of a fitted mixture for the outputs of both experts.

    Examples
    --------
    >>> from cosmo.classifier.combinations import OperatingPoint
    >>> from cosmo.gates import MaxSoftmaxGate
    >>> mixture = GatedMixture(smoothing="adaptive")
    >>> mixture.gate_, mixture.operating_point_ = MaxSoftmaxGate(), OperatingPoint(0.9, 0.1)
    >>> out = ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), np.array([[0.6, 0.4]]), np.array([[0.7]]))
    >>> explain(mixture, out).prediction[0]
    'z'
    """
    belief = mixture.belief(outputs)
    weight = mixture.operating_point_.prior_weight
    scores = mixture.scores(outputs)
    smoothed = outputs.seen, outputs.unseen
    if not mixture.gate_.log_odds and outputs.n_unseen:
        smoothed = (
            smooth(outputs.seen, 1 - belief, mixture.smoothing, weight),
            smooth(outputs.unseen, belief, mixture.smoothing, weight),
        )
    return Explanation(
        seen_classes=outputs.seen_classes,
        unseen_classes=outputs.unseen_classes,
        seen=outputs.seen,
        unseen=outputs.unseen,
        gate_score=mixture.gate_score(outputs),
        p_unseen=belief,
        smoothed_seen=smoothed[0],
        smoothed_unseen=smoothed[1],
        proba=scores / scores.sum(axis=1, keepdims=True),
    )
