"""What the seen expert is worth: COSMO + LAGO on CUB with seen experts of graded accuracy.

The paper's seen expert has 72.8 % on test rows of seen classes, on other features. Prints the table of
docs/results/paper-studies.md, from the published predictions of LAGO:

    python benchmarks/seen_accuracy.py DATA
"""

from __future__ import annotations

import argparse
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cosmo._core.cache import Cache
from cosmo.experts import make_seen_expert
from cosmo.paper.runner import Runner, find_inputs
from cosmo.paper.trials import Trial
from cosmo.viz.text import TextTable

THEIRS = 72.8


class SubsampledClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier trained on a share of the rows of each class, at least one."""

    def __init__(self, classifier: Any, share: float) -> None:
        self.classifier = classifier
        self.share = share

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Train on evenly spaced rows of each class."""
        rank = np.empty(len(y), dtype=np.intp)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            rank[rows] = np.arange(len(rows))
        # A row is used where a count in steps of `share` passes a whole number.
        is_used = np.ceil((rank + 1) * self.share) > np.ceil(rank * self.share)
        self.classifier_ = clone(self.classifier).fit(X[is_used], y[is_used])
        self.classes_ = self.classifier_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities of `classes_`."""
        return self.classifier_.predict_proba(X)


class SquareRoot(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Square roots of features; negative ones count as zero."""

    def fit(self, X: NDArray[Any], y: object = None) -> Self:
        """Do nothing."""
        return self

    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the square roots."""
        return np.sqrt(np.maximum(X, 0))


PLAIN = make_seen_expert("logistic-sklearn")
SEEN: dict[str, Any] = {
    "logistic": PLAIN,
    "a third of the rows": SubsampledClassifier(PLAIN, 1 / 3),
    "two thirds of the rows": SubsampledClassifier(PLAIN, 2 / 3),
    "square roots of features": make_pipeline(SquareRoot(), LogisticRegression(C=0.1, max_iter=2000)),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA", help="folder with xlsa17/CUB and predictions/LAGO/CUB")
    parser.add_argument("--cache", default="cosmo-runs/cache", metavar="DIR")
    args = parser.parse_args()
    trial = Trial("CUB", "LAGO", "predictions", "COSMO")
    found = {
        name: Runner(find_inputs(args.data), Cache(args.cache), seen=seen).result(trial)
        for name, seen in SEEN.items()
    }

    def cell(one: dict[str, float], metric: str) -> str:
        interval = (
            f" ({one[metric + '_low']:.1f}–{one[metric + '_high']:.1f})" if metric + "_low" in one else ""
        )
        return f"{one[metric]:.1f}{interval}"

    metrics = {"seen_accuracy": "seen expert", "acc_h": "H", "ausuc": "AUSUC"}
    rows = [[name, *(cell(one, metric) for metric in metrics)] for name, one in found.items()]
    print(TextTable("CUB", ["", *metrics.values()], rows).markdown())
    accuracy = [one["seen_accuracy"] for one in found.values()]
    for metric in ("acc_h", "ausuc"):
        line = np.polynomial.Polynomial.fit(accuracy, [one[metric] for one in found.values()], 1)
        slope = line.convert().coef[1]
        print(
            f"\n{metrics[metric]}: {slope:.2f} per point of the seen expert, {line(THEIRS):.1f} at {THEIRS} %"
        )


if __name__ == "__main__":
    main()
