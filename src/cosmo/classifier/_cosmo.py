"""`Cosmo`: the whole method as a scikit-learn classifier.

Atzmon & Chechik, "Adaptive confidence smoothing for generalized zero-shot learning", CVPR 2019.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cosmo._core.cache import Cache
from cosmo._core.validation import (
    as_class_index,
    as_number,
    check_descriptions,
    check_features,
    encode_labels,
)
from cosmo.classifier._inference import Inference
from cosmo.classifier._summary import RecordedOutputs
from cosmo.classifier.combinations import SOFTNESSES, GatedMixture, OperatingPoint
from cosmo.classifier.explain import Explanation, explain
from cosmo.data.splits import HoldOut, further_folds, hold_out
from cosmo.experts import ESZSL, ExpertPair, UnseenExpert, make_seen_expert
from cosmo.gates import ConfidenceGate, Gate
from cosmo.metrics.accuracy import GZSLScores, harmonic_mean, per_class_accuracy
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import Smoothing

__all__ = ["Cosmo"]

logger = logging.getLogger(__name__)


class Cosmo(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify samples of classes with examples and of classes with only a description.

    Classes in `y` are seen, the other rows of `descriptions` are unseen. `fit` lets some seen classes
    play unseen to train the gate and to choose the operating point, then trains both experts on
    everything. Its steps are announced on the logger "cosmo".

    Parameters
    ----------
    descriptions : DataFrame of shape (n_classes, n_attributes), or dict from class to vector
        Index = class label. Two column levels mean (group, attribute).
    seen : classifier, default=SoftmaxRegression(tol=1e-4)
        Any scikit-learn classifier with `predict_proba`.
    unseen : UnseenExpert, default ESZSL()
    gate : Gate, default ConfidenceGate()
    smoothing : {"adaptive", "constant", "none"}
    softnesses : sequence of float
        Values of the gate's softness `T = 1/γ` to choose from.
    hold_out : HoldOut, optional
        Rows of `X` for the validation stage. Default: a third of the classes and a quarter of the rows
        of the others, at random.
    folds : int
        How many times classes are held out to train the gate: 1, or so many that every seen class plays
        unseen once. The validation stage is trained that often; choices are made on the first.
    random_state : int
        Draws the default hold-out, and the other folds.
    cache : path, optional
        Folder in which the unseen expert's choice of parameters and its unfinished training are kept, so
        that a fit which was interrupted goes on.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        All described classes in the order of the table: the columns of `predict_proba`.
    seen_classes_, unseen_classes_ : Index
    experts_ : ExpertPair
    combination_ : GatedMixture
        The fitted gate and the operating point.
    validation_outputs_ : ExpertOutputs
        What the validation-stage experts said about GZSL-Val; of a model from a file, `RecordedOutputs`.

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train, test = data.split.trainval, data.split.test_unseen
    >>> model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])
    >>> bool(model.score(data.features[test], data.labels[test]) > 1 / 40)
    True
    """

    def __init__(
        self,
        descriptions: pd.DataFrame | Mapping[Hashable, Sequence[float]] | None = None,
        *,
        seen: Any = None,
        unseen: UnseenExpert | None = None,
        gate: Gate | None = None,
        smoothing: Smoothing = "adaptive",
        softnesses: Sequence[float] = SOFTNESSES,
        hold_out: HoldOut | None = None,
        folds: int = 1,
        random_state: int | None = 0,
        cache: str | Path | None = None,
    ) -> None:
        self.descriptions = descriptions
        self.seen = seen
        self.unseen = unseen
        self.gate = gate
        self.smoothing = smoothing
        self.softnesses = softnesses
        self.hold_out = hold_out
        self.folds = folds
        self.random_state = random_state
        self.cache = cache

    def fit(self, X: ArrayLike, y: Iterable[Hashable]) -> Self:
        """Train experts and gate, and choose the operating point of best Acc_H on held-out data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : labels of seen classes, length n_samples
        """
        features, labels, table = self._check_fit(X, y)
        held = self.hold_out if self.hold_out is not None else hold_out(labels, seed=self.random_state)
        held.check(labels)
        further = further_folds(labels, held, self.folds, seed=self.random_state)
        seen = self.seen if self.seen is not None else make_seen_expert("logistic")
        unseen = self.unseen if self.unseen is not None else ESZSL()
        gate = self.gate if self.gate is not None else ConfidenceGate()
        with config_context(assume_finite=True):
            logger.info(
                "validation stage: fitting %s and %s on %d rows",
                type(seen).__name__,
                type(unseen).__name__,
                len(held.seen_train),
            )
            # Only classes with samples: the unseen ones may not influence any choice.
            known = table.iloc[np.unique(encode_labels(labels, table.index))]
            cache = None if self.cache is None else Cache(self.cache)
            validation = ExpertPair.select(
                seen, unseen, features, labels, known, held, observer=gate.observer(), cache=cache
            )
            outputs = validation.outputs(features[held.gzsl_val], labels[held.gzsl_val])
            others = []
            for k, fold in enumerate(further, start=2):
                logger.info("validation stage %d of %d, for the gate", k, self.folds)
                again = validation.refit(
                    seen,
                    features[fold.seen_train],
                    labels[fold.seen_train],
                    known,
                    observer=gate.observer(),
                )
                others.append(again.outputs(features[fold.gzsl_val], labels[fold.gzsl_val]))
            logger.info("fitting the gate and choosing the operating point on %d held-out rows", len(outputs))
            self.combination_ = GatedMixture(
                gate,
                smoothing=self.smoothing,
                softnesses=self.softnesses,
            ).fit(outputs, *others)
            self.validation_outputs_ = outputs
            decided = ", ".join(f"{name} {value:.3g}" for name, value in validation.unseen.decided_.items())
            logger.info("test stage: fitting both again, on all %d rows (%s)", len(features), decided)
            self.experts_ = validation.refit(seen, features, labels, table, observer=gate.observer())
        return self

    def _check_fit(
        self, X: ArrayLike, y: Iterable[Hashable]
    ) -> tuple[NDArray[np.float32], pd.Index, pd.DataFrame]:
        if self.descriptions is None:
            raise ValueError(
                "Cosmo needs descriptions: a DataFrame with one row per class, seen and unseen, or a dict "
                "from class to vector"
            )
        table = check_descriptions(self.descriptions)
        features, labels = self._validated(X, y, table)
        index = as_class_index(labels)
        codes = encode_labels(index, table.index, name="y")
        n_seen = len(np.unique(codes))
        if n_seen < 2:
            raise ValueError(f"y has only one class ({index[0]!r}); COSMO needs at least two seen classes")
        if n_seen == len(table):
            raise ValueError(
                "no unseen class: every described class has samples in y; add a row to the descriptions "
                "for each class to recognise without samples"
            )
        return features, index, table

    def _validated(self, X: ArrayLike, y: Any = None, table: pd.DataFrame | None = None) -> Any:
        """Return input as scikit-learn checks it; what it refuses is said in our words and in its own."""
        try:
            if np.ma.is_masked(X):
                check_features(X, name="X")
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows float32 is taken for infinite
                if table is None:  # asked, not trained
                    return validate_data(self, X, dtype=np.float32, reset=False)
                features, labels = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=2)
            check_classification_targets(labels)
            return features, labels
        except (ValueError, TypeError) as error:
            words = "X cannot be used; give one row of finite numbers per sample, and one label in training"
            kind = TypeError if isinstance(error, TypeError) else ValueError
            try:
                check_features(X, name="X")
                if y is not None and table is not None:
                    kind = ValueError  # of labels, whatever the version of scikit-learn makes of them
                    encode_labels(y, table.index, name="y")
            except (ValueError, TypeError) as own:
                words = str(own)
            raise kind(words if words == str(error) else f"{words} ({error})") from error

    @property
    def classes_(self) -> NDArray[Any]:
        """All described classes, in the order of the table."""
        return self.experts_.descriptions.index.to_numpy()

    @property
    def seen_classes_(self) -> pd.Index:
        """Classes that had samples."""
        return self.experts_.seen_classes

    @property
    def unseen_classes_(self) -> pd.Index:
        """Classes known by description only."""
        return self.experts_.unseen_classes

    @property
    def operating_point_(self) -> OperatingPoint:
        """Threshold and softness in use."""
        return self.combination_.operating_point_

    @property
    def validation_curve_(self) -> SeenUnseenCurve:
        """The exact seen-unseen curve on GZSL-Val at the softness in use."""
        return self._on_validation().curve(self.validation_outputs_)

    def _on_validation(self) -> GatedMixture:
        """Return the combination as `validation_outputs_` can be read by it."""
        outputs: Any = self.validation_outputs_
        recorded = isinstance(outputs, RecordedOutputs)
        return outputs.asked_by(self.combination_) if recorded else self.combination_

    def outputs(self, X: ArrayLike, y: Iterable[Hashable] | None = None) -> ExpertOutputs:
        """Return what both experts say about `X`; with `y`, labelled, for curves and metrics."""
        check_is_fitted(self, "experts_")
        features = self._check_rows(X)
        return Inference(self.experts_, self.combination_).outputs(features, y)

    def _check_rows(self, X: ArrayLike) -> NDArray[np.float32]:
        features: NDArray[np.float32] = self._validated(X)
        return features

    def _rows(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return checked rows; whether those for linear experts are finite, `_inference` will find out."""
        if "experts_" not in vars(self):  # asked for by itself, which is quicker
            check_is_fitted(self, "experts_")
        as_fitted = (
            isinstance(X, np.ndarray)
            and type(X) in (np.ndarray, np.memmap)  # matrices and masked arrays have rules of their own
            and X.dtype == np.float32
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )
        return cast("NDArray[np.float32]", X) if as_fitted and self.experts_.linear else self._check_rows(X)

    @contextmanager
    def _inference(self, features: NDArray[np.float32]) -> Iterator[Inference]:
        """Yield who answers questions about these rows; if they turn out not to be finite, say so."""
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                yield Inference(self.experts_, self.combination_)
            except FloatingPointError as error:
                self._check_rows(features)
                raise ValueError(f"{error}: the features are too large") from error

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample, among seen and unseen classes: the same in any batch."""
        features = self._rows(X)
        with self._inference(features) as inference:
            return self.experts_.classes.to_numpy()[inference.predict(features)]

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the distribution over `classes_` for each sample; its argmax is the prediction.

        With linear experts, as the default ones are, it is the same to the last bit in any batch, and takes
        about twice the time of `predict`.
        """
        features = self._rows(X)
        with self._inference(features) as inference:
            return inference.predict_proba(features, self.experts_.columns)

    def predict_top(
        self, X: ArrayLike, top: int = 3
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
        """Return the most probable classes of each sample, best first, and the gate's belief in "seen".

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        top : int
            How many classes; of fewer classes, all.

        Returns
        -------
        labels, probabilities : arrays of shape (n_samples, top)
        p_seen : array of shape (n_samples,)
        """
        features = self._rows(X)
        classes = self.experts_.classes.to_numpy()
        with self._inference(features) as inference:
            columns, proba, p_seen = inference.predict_top(features, min(top, len(classes)))
        return classes[columns], proba, p_seen

    def score(self, X: ArrayLike, y: Iterable[Hashable]) -> float:
        """Return Acc_H of the classes present in `y`.

        This is the harmonic mean of the per-class accuracies on seen and on unseen classes, or the one
        of the two that `y` allows.
        """
        truth, guess = as_class_index(y), self.predict(X)
        encode_labels(truth, self.experts_.descriptions.index, name="y")
        present = truth.unique()
        is_seen = present.isin(self.seen_classes_)
        parts = [
            per_class_accuracy(truth, guess, classes)
            for classes in (present[is_seen], present[~is_seen])
            if len(classes)
        ]
        return harmonic_mean(*parts) if len(parts) == 2 else parts[0]

    def explain(self, X: ArrayLike) -> Explanation:
        """Return every step between the experts and the answer, for each sample."""
        return explain(self.combination_, self.outputs(X))

    def operate_at(
        self,
        *,
        min_seen: float = 0.0,
        min_unseen: float = 0.0,
        confidence: float | None = None,
        threshold: float | None = None,
        softness: float | None = None,
    ) -> Self:
        """Move along the seen-unseen curve; nothing is trained again.

        Without arguments this is the point of best Acc_H on GZSL-Val, as after `fit`.

        Parameters
        ----------
        min_seen, min_unseen : float
            Smallest acceptable accuracy on seen / unseen classes of GZSL-Val; the best Acc_H that
            keeps them is chosen.
        confidence : float, optional
            How often each floor is to hold on other samples of those classes; else it does on GZSL-Val.
        threshold, softness : float, optional
            Set the point by hand instead. A larger threshold gives more samples to unseen classes.
        """
        check_is_fitted(self, "experts_")
        if threshold is None and softness is None:
            chosen = self._on_validation().operate_at(
                self.validation_outputs_, min_seen=min_seen, min_unseen=min_unseen, confidence=confidence
            )
            self.combination_.operating_point_ = chosen.operating_point_
            self.combination_.validation_point_ = chosen.validation_point_
            return self
        if min_seen or min_unseen or confidence is not None:
            raise ValueError("give either floors or a threshold / softness by hand, not both")
        if softness is not None and not 0 < as_number(softness, name="softness") < np.inf:
            raise ValueError(f"softness must be positive and finite, got {softness}")
        if threshold is not None and not np.isfinite(as_number(threshold, name="threshold")):
            raise ValueError(f"threshold must be finite, got {threshold}")
        current = self.operating_point_
        self.combination_.operating_point_ = current._replace(
            threshold=current.threshold if threshold is None else float(threshold),
            softness=current.softness if softness is None else float(softness),
        )
        return self

    def validation_bounds(self, confidence: float = 0.95) -> GZSLScores:
        """Return what the accuracies are at least on other samples like GZSL-Val: `GatedMixture.bounds`."""
        return self._on_validation().bounds(self.validation_outputs_, confidence)

    def add_classes(self, descriptions: pd.DataFrame | Mapping[Hashable, Sequence[float]]) -> Self:
        """Recognise more unseen classes from now on; nothing is trained again.

        Parameters
        ----------
        descriptions : DataFrame or dict
            One row per new class, with the attributes of the table that the model was fitted with.
        """
        check_is_fitted(self, "experts_")
        known = self.experts_.descriptions
        new = check_descriptions(descriptions)
        if isinstance(descriptions, Mapping) and new.shape[1] == known.shape[1]:
            new.columns = known.columns
        if set(new.columns) != set(known.columns) or new.shape[1] != known.shape[1]:
            raise ValueError(
                f"the new descriptions must have the same {known.shape[1]} attributes as the model's; "
                f"got {new.shape[1]} columns"
            )
        twice = new.index.intersection(known.index)
        if len(twice):
            raise ValueError(f"class {twice[0]!r} exists already")
        self.experts_ = self.experts_.with_classes(new[known.columns])
        return self
