"""Both experts of one stage, fitted on the same rows and asked the same questions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from cosmo._core.cache import Cache
from cosmo._core.validation import encode_labels
from cosmo.data.splits import HoldOut
from cosmo.experts._observer import Observer
from cosmo.experts._outliers import DetectsNovelty
from cosmo.experts._products import ExactProduct
from cosmo.experts.base import UnseenExpert
from cosmo.experts.logistic import SoftmaxRegression
from cosmo.experts.selection import select
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.probabilities import soften_parts

__all__ = ["ExpertPair", "fit_seen_expert"]

_ABREAST = 8  # numbers in a register


def fit_seen_expert(seen: BaseEstimator, X: NDArray[np.float32], codes: NDArray[np.intp]) -> Any:
    """Fit a copy of a scikit-learn classifier; its labels are ranks of the classes in `codes`."""
    if not hasattr(seen, "predict_proba"):
        raise TypeError(f"the seen expert must have predict_proba; {type(seen).__name__} has none")
    classes, ranks = np.unique(codes, return_inverse=True)
    # A single class leaves a classifier nothing to tell apart; its probability is one.
    classifier = clone(seen) if len(classes) > 1 else DummyClassifier(strategy="prior")
    fitted = classifier.fit(X, ranks)
    if not np.array_equal(fitted.classes_, np.arange(len(classes))):
        raise ValueError(
            f"the seen expert {type(seen).__name__} gives its classes in another order (classes_) than "
            "scikit-learn's; sort them, and the columns of predict_proba"
        )
    return fitted


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
    """

    seen: Any
    unseen: UnseenExpert
    descriptions: pd.DataFrame
    seen_classes: pd.Index
    observer: Observer | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what makes the pair; what answers need besides is computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def select(
        cls,
        seen: BaseEstimator,
        unseen: UnseenExpert,
        X: NDArray[np.float32],
        y: Iterable[Hashable],
        descriptions: pd.DataFrame,
        held: HoldOut,
        *,
        observer: Observer | None = None,
        cache: Cache | None = None,
    ) -> ExpertPair:
        """Return the experts of the validation stage: fitted on Seen-Train, parameters decided.

        Parameters
        ----------
        X, y
            All training rows.
        descriptions : DataFrame
            A row for every class in `y`; classes without training rows may not take part.
        held : HoldOut
        observer : Observer, optional
            Not fitted yet.
        cache : Cache, optional
            Where choices are kept, see `select`.
        """
        codes = encode_labels(y, descriptions.index, name="y")
        chosen = select(unseen, X, descriptions.index[codes], descriptions, held, cache=cache)
        X_train, train_codes = X[held.seen_train], codes[held.seen_train]
        fitted = fit_seen_expert(seen, X_train, train_codes)
        return cls(
            fitted,
            chosen,
            descriptions,
            descriptions.index[np.unique(train_codes)],
            None if observer is None else observer.fit(fitted, X_train, train_codes),
        )

    def refit(
        self,
        seen: BaseEstimator,
        X: NDArray[np.float32],
        y: Iterable[Hashable],
        descriptions: pd.DataFrame,
        *,
        observer: Observer | None = None,
    ) -> ExpertPair:
        """Return the experts of the test stage: fitted on all training rows, choices kept.

        `descriptions` has the unseen classes too; `observer` is a new one.
        """
        codes = encode_labels(y, descriptions.index, name="y")
        fitted = fit_seen_expert(seen, X, codes)
        return ExpertPair(
            fitted,
            clone(self.unseen).fit(X, descriptions.index[codes], descriptions),
            descriptions,
            descriptions.index[np.unique(codes)],
            None if observer is None else observer.fit(fitted, X, codes),
        )

    @cached_property
    def unseen_classes(self) -> pd.Index:
        """Described classes that had no samples, in the order of the table."""
        return self.descriptions.index[~self.descriptions.index.isin(self.seen_classes)]

    @cached_property
    def classes(self) -> pd.Index:
        """All classes, seen ones first: the columns of what both say."""
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
        return self.unseen.class_weights(self._table)

    @property
    def linear(self) -> bool:
        """Whether each expert is a soft-max of `X @ W + b`, and nobody else is asked."""
        return self._both_weights is not None

    @cached_property
    def _both_weights(self) -> NDArray[np.float32] | None:
        """Weights of both experts side by side, if both are linear: one product reads the rows once.

        Those of the unseen expert are divided by its temperature. Empty columns fill up what processors work
        on at a time.
        """
        seen, unseen = self.seen, self.unseen
        plain = type(seen) in (LogisticRegression, SoftmaxRegression) and len(seen.classes_) > 2
        alone = self.observer is None and not isinstance(unseen, DetectsNovelty)
        if not (plain and alone) or unseen.native or self._class_weights is None:
            return None
        cold = self._class_weights / np.float32(unseen.decided_["temperature"])
        columns = [seen.coef_.T.astype(np.float32, copy=False), cold]
        return np.hstack([np.pad(some, ((0, 0), (0, -some.shape[1] % _ABREAST))) for some in columns])

    @cached_property
    def _both(self) -> tuple[slice, slice, NDArray[np.float32]]:
        """Columns of the seen and of the unseen expert in their product, and what makes it logits."""
        n_seen = len(self.seen_classes)
        first = n_seen + -n_seen % _ABREAST
        seen, joint = slice(0, n_seen), slice(first, first + len(self.classes))
        shift = np.zeros(joint.stop + -joint.stop % _ABREAST, dtype=np.float32)
        shift[seen] = self.seen.intercept_
        return seen, joint, shift

    @cached_property
    def _exact_product(self) -> ExactProduct:
        return ExactProduct(cast("NDArray[np.float32]", self._both_weights))

    def _ask_both(
        self, X: NDArray[np.float32], *, exact: bool, left_out: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Return the probabilities of linear experts, but for the first joint ones, and joint logits."""
        seen, joint, shift = self._both
        weights = cast("NDArray[np.float32]", self._both_weights)
        product = self._exact_product(X) if exact else X @ weights
        proba, joint_proba = soften_parts(product, shift, (seen, 0), (joint, left_out))
        return proba, joint_proba, product[:, joint]

    def outputs(self, X: NDArray[np.float32], y: Iterable[Hashable] | None = None) -> ExpertOutputs:
        """Return what both experts say about `X`, which is finite; with `y`, labelled.

        Of a row, linear experts say the same to the last bit, whatever the other rows are.
        """
        target = None if y is None else encode_labels(y, self.classes, name="y")
        if target is not None and len(target) != len(X):
            raise ValueError(f"X has {len(X)} rows but y has {len(target)} labels; give one label per row")
        if self.linear:
            seen, joint, logits = self._ask_both(X, exact=True, left_out=0)
            scores = logits * np.float32(self.unseen.decided_["temperature"])
        else:
            with config_context(assume_finite=True):
                seen = self.seen.predict_proba(X).astype(np.float32, copy=False)
            weights = self._class_weights
            scores = self.unseen.scores(X, self._table) if weights is None else X @ weights
            joint = self.unseen.probabilities(scores)
        return ExpertOutputs.from_joint(
            seen,
            joint,
            self.seen_classes,
            self.unseen_classes,
            # As in the paper, calibrated stacking works on probabilities where they are the method's own.
            scores=None if self.unseen.native else scores,
            novelty=self.unseen.novelty(X) if isinstance(self.unseen, DetectsNovelty) else None,
            evidence=None if self.observer is None else self.observer.evidence(X),
            target=target,
        )

    def answers(self, X: NDArray[np.float32], *, exact: bool) -> ExpertOutputs:
        """Return what a prediction needs of `outputs`.

        Without `exact`, linear experts take half the time, but round otherwise in another batch.

        Raises
        ------
        FloatingPointError
            If the experts are linear and what they say is not finite. Others must be asked about finite rows.
        """
        if not self.linear:
            return self.outputs(X)
        seen, unseen, _ = self._ask_both(X, exact=exact, left_out=len(self.seen_classes))
        # A soft-max is NaN in all columns of a row or in none; nothing else can be wrong with it.
        if np.isnan(seen[:, 0].sum() + unseen[:, 0].sum()):
            raise FloatingPointError("the experts' scores are not finite")
        return ExpertOutputs.trusted(
            seen_classes=self.seen_classes,
            unseen_classes=self.unseen_classes,
            seen=seen,
            unseen=unseen,
        )

    def with_classes(self, descriptions: pd.DataFrame) -> ExpertPair:
        """Return the same experts with more unseen classes."""
        return replace(self, descriptions=pd.concat([self.descriptions, descriptions]))
