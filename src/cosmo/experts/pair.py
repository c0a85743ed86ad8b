"""A seen and an unseen expert fitted on the same rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier

from cosmo._core.validation import encode_labels
from cosmo.experts._linear import transformed
from cosmo.experts.base import Observer, UnseenExpert
from cosmo.experts.seen import SoftmaxRegression
from cosmo.mixture.confidences import Temperatures, calibrated, support, with_samples
from cosmo.mixture.outputs import ExpertOutputs, stacking
from cosmo.mixture.smoothing import soften

_TINY = float(np.finfo(np.float32).tiny)


def fit_seen_expert(seen: BaseEstimator, X: NDArray[np.float32], codes: NDArray[np.intp]) -> Any:
    """Fit a copy of a scikit-learn classifier; its labels are ranks of the classes in `codes`."""
    if not hasattr(seen, "predict_proba"):
        raise TypeError(f"the seen expert must have predict_proba; {type(seen).__name__} has none")
    classes, ranks = np.unique(codes, return_inverse=True)
    # Many classifiers refuse a single class; its probability is one.
    classifier = clone(seen) if len(classes) > 1 else DummyClassifier(strategy="prior")
    fitted = classifier.fit(X, ranks)
    if not np.array_equal(fitted.classes_, np.arange(len(classes))):
        raise ValueError(
            f"classes_ of the seen expert {type(seen).__name__} are not sorted; sort them and the columns of "
            "predict_proba"
        )
    return fitted


def seen_logits(seen: Any, X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return logits of a fitted seen expert, or its log-probabilities if it has none for every class."""
    with config_context(assume_finite=True):
        if isinstance(seen, SoftmaxRegression) and len(seen.coef_) > 1:
            logits = seen.decision_function(X)
        else:
            logits = np.log(np.maximum(seen.predict_proba(X), _TINY))
    return np.asarray(logits, dtype=np.float32)


def squared_distance(X: NDArray[np.float32], centre: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the squared distance of each row to a point."""
    return np.einsum("ij,ij->i", X - centre, X - centre, dtype=np.float64)


class Corrections(NamedTuple):
    """What was learned from samples after the training: one column, or number, for each seen class.

    `X @ weights + biases` is added to the logarithm of the class's mass. The biases contain `prior`, the
    log-odds of "unseen" when the class became seen. `samples` counts the samples of each class.
    """

    weights: NDArray[np.float32]
    biases: NDArray[np.float64]
    prior: NDArray[np.float64]
    samples: NDArray[np.int64]

    def change(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the change of the logarithm of each seen class's mass, shape (n_samples, n_seen)."""
        used = np.flatnonzero(self.samples)
        change = np.zeros((len(X), len(self.samples)))
        change[:, used] = X @ self.weights[:, used] + self.biases[used]
        return change


@dataclass(frozen=True, eq=False)
class ExpertPair:
    """A fitted seen expert and a fitted unseen expert.

    Parameters
    ----------
    seen : classifier
        Its labels are positions in `seen_classes`.
    unseen : UnseenExpert
    descriptions : DataFrame
        One row per class, seen and unseen.
    seen_classes : Index
    observer : Observer, optional
        Fitted on the same rows; fills `ExpertOutputs.evidence`.
    temperatures : Temperatures, optional
        Of the calibrated method: outputs are then `p(y|S)` and `p(y|U)`, and their evidence is the inputs of
        `CalibratedGate`. Without them outputs are those of the paper, `p(y|S)` and `p(y,U)`.
    n_promoted : int, default=0
        How many of the last seen classes were unseen in the training: neither expert is trained on them.
    gate : CalibratedGate, optional
        Of the calibrated method, if there are corrections.
    transform : str, default="none"
        Of features; see `TRANSFORMS`. The experts were fitted on transformed rows.
    centre : array of shape (n_features,), optional
        Mean of the training rows, for `support`.
    corrections : Corrections, optional
        What was learned from samples after the training.
    update : UnseenExpert, optional
        Its scores of the classes that have not been learned since are added to those of `unseen`.
    """

    seen: Any
    unseen: UnseenExpert
    descriptions: pd.DataFrame
    seen_classes: pd.Index
    observer: Observer | None = None
    temperatures: Temperatures | None = None
    n_promoted: int = 0
    gate: Any = None
    transform: str = "none"
    centre: NDArray[np.float32] | None = None
    corrections: Corrections | None = None
    update: UnseenExpert | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached properties."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def fit(
        cls,
        seen: BaseEstimator,
        unseen: UnseenExpert,
        X: NDArray[np.float32],
        y: pd.Index,
        descriptions: pd.DataFrame,
        *,
        observer: Observer | None = None,
        refit: bool = True,
    ) -> ExpertPair:
        """Return both experts fitted on the rows; the parameters of `unseen` are kept.

        Without `refit`, `unseen` was fitted on these rows before, as by `UnseenExpert.select`.
        """
        if refit:
            unseen = clone(unseen).fit(X, y, descriptions)
        codes = encode_labels(y, descriptions.index, name="y")
        fitted = fit_seen_expert(seen, X, codes)
        if observer is not None:
            observer.fit(getattr(fitted, "classifier_", fitted), X, codes)
        return cls(fitted, unseen, descriptions, descriptions.index[np.unique(codes)], observer)

    @property
    def n_trained(self) -> int:
        """Number of classes in the training: the first ones of the seen classes."""
        return len(self.seen_classes) - self.n_promoted

    def check_trained(self, consequence: str) -> None:
        """Raise if the model was made from descriptions only; `consequence` says what it lacks then."""
        if not self.n_trained:
            raise ValueError(
                f"the model was fitted on descriptions without samples, so that {consequence}; fit it again "
                "with labelled samples of at least four classes"
            )

    @property
    def share_shift(self) -> float:
        """Log-odds of the share of classes without a training, minus those of classes that are unseen now."""
        if self.corrections is None or self.temperatures is None:
            return 0.0
        n_unseen = max(1, len(self.unseen_classes))
        if not self.n_trained:
            return float(np.log(self.n_promoted / n_unseen))
        n_others = self.n_promoted + n_unseen
        promoted = np.exp(self.corrections.prior[self.n_trained :]).sum() / n_others
        return float(np.log(n_others / n_unseen) + np.log1p(promoted))

    @cached_property
    def unseen_classes(self) -> pd.Index:
        """Described classes without samples, in the order of the table."""
        return self.descriptions.index[~self.descriptions.index.isin(self.seen_classes)]

    @cached_property
    def classes(self) -> pd.Index:
        """All classes, seen ones first: the columns of the outputs."""
        return self.seen_classes.append(self.unseen_classes)

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The column of each class, in the order of the table."""
        return self.classes.get_indexer(self.descriptions.index)

    @cached_property
    def _table(self) -> pd.DataFrame:
        return self.descriptions.iloc[self.descriptions.index.get_indexer(self.classes)]

    @cached_property
    def _class_weights(self) -> NDArray[np.float32] | None:
        table = np.asfortranarray(self._table.to_numpy())
        weights = self.unseen.class_weights(table)
        change = None if self.update is None else self.update.class_weights(table)
        return weights if weights is None or change is None else weights + self._others * change

    @cached_property
    def _class_biases(self) -> NDArray[np.float32]:
        biases = self.unseen.class_biases(self._table.to_numpy())
        if self.update is None:
            return biases
        return biases + self._others * self.update.class_biases(self._table.to_numpy())

    @cached_property
    def _others(self) -> NDArray[np.float32]:
        """1 for each class in `classes`, but 0 for those that were learned since the training."""
        others = np.ones(len(self.classes), np.float32)
        others[self.n_trained : len(self.seen_classes)] = 0
        return others

    @cached_property
    def _weights(self) -> NDArray[np.float32] | None:
        """Weights of two linear experts side by side: one product reads the rows once."""
        if self._class_weights is None or not isinstance(self.seen, SoftmaxRegression):
            return None
        if len(self.seen.coef_) != self.n_trained:  # Two classes share one row.
            return None
        return np.hstack([self.seen.coef_.T, self._class_weights], dtype=np.float32)

    @cached_property
    def _biases(self) -> NDArray[np.float32]:
        return np.concatenate([self.seen.intercept_, self._class_biases], dtype=np.float32)

    @property
    def linear(self) -> bool:
        """Whether the unseen expert's scores are `X @ W`, which propagates NaN and infinity."""
        return self._class_weights is not None

    def _predict(self, X: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return probabilities of the seen expert and scores of the unseen expert for all classes.

        With temperatures, logits of the seen expert.
        """
        calibrated = self.temperatures is not None
        if self._weights is not None:
            product, n_seen = X @ self._weights, self.n_trained
            product += self._biases
            logits, scores = product[:, :n_seen], product[:, n_seen:]
            return logits if calibrated else soften(logits, 1.0), scores
        weights = self._class_weights
        with config_context(assume_finite=True):
            if weights is None:
                scores = self.unseen.scores(X, self._table)
                if self.update is not None:
                    scores = scores + self._others * self.update.scores(X, self._table)
            else:
                scores = X @ weights + self._class_biases
            if calibrated:
                return seen_logits(self.seen, X), scores
            return self.seen.predict_proba(X).astype(np.float32, copy=False), scores

    def _parts(
        self, X: NDArray[np.float32], seen: NDArray[Any], scores: NDArray[np.float32]
    ) -> dict[str, Any]:
        """Return classes, probabilities and evidence from what `_predict` returned."""
        evidence = None if self.observer is None else self.observer.evidence(X)
        if not self.n_promoted and not len(self.unseen_classes):  # There are no classes to choose between.
            seen = seen if self.temperatures is None else soften(seen, self.temperatures.seen)
            unseen = seen[:, :0]
            if self.corrections is not None:
                seen, *_ = with_samples(seen, unseen, np.zeros(len(X)), self.corrections.change(X))
        elif not self.n_trained and self.temperatures is not None:  # All classes by description.
            unseen = soften(scores, self.temperatures.unseen)
            if self.corrections is not None:
                even, change = np.zeros(len(X)), self.corrections.change(X)
                seen, unseen, shift = with_samples(seen, unseen, even, change)
                evidence = (shift + self.share_shift)[:, None]
        elif self.temperatures is not None:
            seen, unseen, evidence = calibrated(seen, scores, self.temperatures)
            if self.corrections is not None:
                odds, change = -self.gate.score_of(evidence), self.corrections.change(X)
                seen, unseen, shift = with_samples(seen, unseen, odds, change)
                evidence = np.column_stack([evidence, shift + self.share_shift])
        else:
            joint = self.unseen.probabilities(scores)
            if self.corrections is not None:
                odds = -np.log(np.maximum(joint[:, : self.n_trained].sum(axis=1), _TINY))
                change = self.corrections.change(X)
                seen, *_ = with_samples(seen, joint[:, self.n_trained :], odds, change)
            unseen = joint[:, len(self.seen_classes) :]
        return {
            "seen_classes": self.seen_classes,
            "unseen_classes": self.unseen_classes,
            "seen": seen,
            "unseen": unseen,
            "novelty": self.unseen.novelty(X) if self.unseen.detects_novelty else None,
            "evidence": evidence,
        }

    def outputs(self, X: NDArray[np.float32], y: Iterable[Hashable] | None = None) -> ExpertOutputs:
        """Return the outputs of both experts for finite features `X`; with `y`, labelled."""
        target = None if y is None else encode_labels(y, self.classes, name="y")
        if target is not None and len(target) != len(X):
            raise ValueError(f"X has {len(X)} rows but y has {len(target)} labels; give one label per row")
        X = transformed(X, self.transform)
        seen, scores = self._predict(X)
        if not (len(self.seen_classes) and len(self.unseen_classes)):
            return ExpertOutputs._from_validated(**self._parts(X, seen, scores), target=target)
        # As in the paper, calibrated stacking works on probabilities where they are the method's own.
        compared = self.unseen.probabilities(scores) if self.unseen.native else scores
        return ExpertOutputs(
            **self._parts(X, seen, scores), **stacking(compared, len(self.seen_classes)), target=target
        )

    @np.errstate(over="ignore", invalid="ignore")
    def predictions(self, X: NDArray[np.float32]) -> ExpertOutputs:
        """Return `outputs` without validation and without the parts that only stacking needs.

        Raises
        ------
        ValueError
            If an expert's probabilities are not finite.
        """
        X = transformed(X, self.transform)
        parts = self._parts(X, *self._predict(X))
        # A soft-max is NaN in all columns of a row or in none.
        if not np.isfinite(parts["seen"][:, :1].sum() + parts["unseen"][:, :1].sum()):
            raise ValueError("the experts' scores are not finite: the features are too large")
        return ExpertOutputs._from_validated(**parts)

    def support(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return how far both experts support any class; see `cosmo.mixture.confidences.support`."""
        if self.temperatures is None or self.centre is None:
            raise ValueError("these experts have no temperatures and centre")
        X = transformed(X, self.transform)
        logits, scores = self._predict(X)
        unseen = scores[:, self.n_trained :]
        if self.corrections is not None:
            learned = (self.corrections.change(X) - self.corrections.prior)[:, self.n_trained :]
            unseen = unseen.copy()
            unseen[:, : self.n_promoted] += self.temperatures.gate * learned
        return support(logits, unseen, squared_distance(X, self.centre), self.temperatures)

    def with_classes(self, descriptions: pd.DataFrame) -> ExpertPair:
        """Return the same experts with more unseen classes."""
        return replace(self, descriptions=pd.concat([self.descriptions, descriptions]))
