"""COSMO as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from cosmo._core.cache import Cache
from cosmo._core.parallel import blas_threads
from cosmo._core.validation import (
    Descriptions,
    as_number,
    check_descriptions,
    new_descriptions,
    training_rows,
)
from cosmo.classifier._methods import fit_calibrated, fit_paper
from cosmo.classifier.choice import AUTO, choose
from cosmo.classifier.combinations import SOFTNESSES, GatedMixture, OperatingPoint
from cosmo.classifier.rejection import RejectOption
from cosmo.data.splits import HoldOut, further_folds, hold_out
from cosmo.experts import ESZSL, SimilarityExpert, UnseenExpert, make_seen_expert
from cosmo.experts._linear import TRANSFORMS, transformed
from cosmo.experts.base import as_unseen_expert
from cosmo.experts.pair import ExpertPair
from cosmo.experts.seen import NoSeenExpert
from cosmo.gates import ConfidenceGate, Gate
from cosmo.gates.calibrated import CalibratedGate
from cosmo.mixture.confidences import Temperatures
from cosmo.mixture.outputs import OutputsSummary
from cosmo.mixture.smoothing import Smoothing

METHODS = ("calibrated", "paper")
# Of largest likelihood on texts of CLINC, draw 100 of the classes, among 100 seen ones; 0.03 among 10.
_ZERO_SHOT_TEMPERATURE = 0.04
_DEFAULTS: dict[str, Callable[[], Any]] = {
    "seen": partial(make_seen_expert, "logistic"),
    "unseen": ESZSL,
    "gate": ConfidenceGate,
}


class _Shape:
    """A table in the `repr` of an estimator."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __repr__(self) -> str:
        columns = f" x {self.table.shape[1]}" if hasattr(self.table, "shape") else ""
        return f"<{type(self.table).__name__} of {len(self.table)}{columns}>"


@dataclass(eq=False, repr=False)
class Cosmo(RejectOption, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify samples of seen classes and of classes known by description only.

    Classes in `y` are seen, the other rows of `descriptions` are unseen; there may be none yet, and
    `add_classes` adds them. `fit` holds out some seen classes to
    fit the gate and to choose the operating point, then fits both experts on all rows.

    The default method returns calibrated probabilities, `p(y|S)·p(S)` or `p(y|U)·p(U)`. It holds out classes
    in several rounds, in the proportion of the task, and its operating point is the share of unseen samples.
    The paper's holds out a third of the classes once, smooths the experts' outputs, and chooses threshold and
    softness of the gate for Acc_H.

    Parameters
    ----------
    descriptions : DataFrame of shape (n_classes, n_attributes), or dict from class to vector
        The index holds the class labels. Two column levels mean (group, attribute).
    method : {"calibrated", "paper"}, default="calibrated"
    seen : classifier or "auto", optional
        Any scikit-learn classifier with `predict_proba`, or the best of some, and their mean, on held-out
        rows. By default "auto"; if `unseen` is given, and in the paper's method, a `SoftmaxRegression`.
    unseen : UnseenExpert or "auto", optional
        Or the best of some, and means of them, on held-out classes. By default "auto"; `ESZSL()` if `seen`
        is given, and in the paper's method.
    feature_transform : str, optional
        Of the features, for both experts: "none", "roots", "unit" or "unit roots". By default "none", or
        the best with "auto".
    budget : float, default=60.0
        Seconds of computation, estimated, for the candidates of "auto".
    rounds : int, optional
        Number of hold-out rounds; by default 4 to 6. Experts that are slow to train have the hold-out on
        which their parameters are chosen.
    gate : Gate, default=ConfidenceGate()
        Of the paper's method, as the next three.
    smoothing : {"adaptive", "constant", "none"}, default="adaptive"
    softnesses : sequence of float
        Candidate values of the gate's softness `T = 1/γ`.
    folds : int, default=1
        Number of hold-outs of classes used to fit the gate; if more than 1, every seen class is held out in
        one of them. Parameters and operating point are chosen on the first.
    hold_out : HoldOut, optional
        Rows on which the parameters of the unseen expert are chosen, and the validation stage of the paper's
        method; by default a third of the classes and a quarter of the other rows.
    n_jobs : int, optional
        Number of rounds that run at the same time, as in scikit-learn.
    random_state : int, default=0
        Seed of the hold-outs and rounds.
    cache : path, optional
        Folder for chosen parameters and checkpoints, so that an interrupted fit resumes.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        All described classes in the order of the table: the columns of `predict_proba`.
    seen_classes_, unseen_classes_ : Index
    experts_ : ExpertPair
    combination_ : GatedMixture
        The fitted gate and the operating point.
    choice_ : Choice or None
        What "auto" has chosen, with its leaderboard `choice_.table()`.
    validation_outputs_ : ExpertOutputs or OutputsSummary
        Outputs of experts of the hold-out rounds on held-out samples; of the paper's validation stage, on
        GZSL-Val. A model from a file has the summary.

    References
    ----------
    Atzmon & Chechik, "Adaptive confidence smoothing for generalized zero-shot learning", CVPR 2019.

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

    descriptions: Descriptions | None = None
    _: KW_ONLY
    method: Literal["calibrated", "paper"] = "calibrated"
    seen: Any = None
    unseen: UnseenExpert | Literal["auto"] | None = None
    feature_transform: str | None = None
    budget: float = 60.0
    rounds: int | None = None
    gate: Gate | None = None
    smoothing: Smoothing = "adaptive"
    softnesses: Sequence[float] = SOFTNESSES
    hold_out: HoldOut | None = None
    folds: int = 1
    n_jobs: int | None = None
    random_state: int | None = 0
    cache: str | Path | None = None

    def fit(self, X: ArrayLike, y: Iterable[Hashable]) -> Self:
        """Fit experts and gate, and choose the point of best Acc_H on held-out data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : labels of seen classes, length n_samples

        Returns
        -------
        Cosmo
        """
        self._check_method()
        seen, unseen, gate = (self._part(name) for name in _DEFAULTS)
        features, labels, table = training_rows(self, X, y, self.descriptions)
        held = self.hold_out if self.hold_out is not None else hold_out(labels, seed=self.random_state)
        held.check(labels)
        if self.seen is None and self.unseen is None and self.method == "calibrated":
            seen = unseen = AUTO
        cache = None if self.cache is None else Cache(self.cache)
        transform, choice = self.feature_transform or "none", None
        if not isinstance(unseen, str):
            unseen = as_unseen_expert(unseen)
        with config_context(assume_finite=True), blas_threads(features.size):
            if isinstance(seen, str) or isinstance(unseen, str):
                known = table.loc[labels.unique()]
                given = {"seen": seen, "unseen": unseen, "transform": self.feature_transform}
                transform, seen, unseen, choice = choose(
                    features, labels, known, held, **given, budget=self.budget, cache=cache
                )
            features = transformed(features, transform)
            if self.method == "paper":
                mixture = GatedMixture(gate, smoothing=self.smoothing, softnesses=self.softnesses)
                holds = [held, *further_folds(labels, held, self.folds, seed=self.random_state)]
                fitted = fit_paper(mixture, seen, unseen, features, labels, table, holds, cache=cache)
            else:
                options = {"n_rounds": self.rounds, "n_jobs": self.n_jobs, "seed": self.random_state}
                fitted = fit_calibrated(seen, unseen, features, labels, table, held, cache=cache, **options)
        pair, self.combination_, self.validation_outputs_ = fitted
        self.experts_, self.choice_ = replace(pair, transform=transform), choice
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of experts and gate, such as `seen__C`, where these are the default."""
        for name in {key.partition("__")[0] for key in params if "__" in key} & _DEFAULTS.keys():
            setattr(self, name, self._part(name))
        return super().set_params(**params)

    def _part(self, name: str) -> Any:
        part = getattr(self, name)
        return _DEFAULTS[name]() if part is None else part

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        shown = self
        if isinstance(self.descriptions, pd.DataFrame | Mapping):
            shown = copy(self)
            shown.descriptions = _Shape(self.descriptions)  # type: ignore[assignment]
        return str(BaseEstimator.__repr__(shown, N_CHAR_MAX))

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to one file, for `cosmo.load` and the commands; see `Model.save`."""
        from cosmo import Model

        names = getattr(self, "feature_names_in_", None)
        Model(self, feature_names=None if names is None else list(names)).save(path)

    def _check_method(self) -> None:
        for name, value in (("seen", self.seen), ("unseen", self.unseen)):
            if isinstance(value, str) and value != "auto":
                raise ValueError(f"{name} must be an expert or 'auto', got {value!r}")
        if self.feature_transform is not None and self.feature_transform not in TRANSFORMS:
            raise ValueError(
                f"feature_transform must be one of {', '.join(TRANSFORMS)}; got {self.feature_transform!r}"
            )
        if not as_number(self.budget, name="budget") >= 0:
            raise ValueError(f"budget must be at least 0 seconds, got {self.budget}")
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        if self.method == "paper":
            if self.rounds is not None:
                raise ValueError("rounds belong to the calibrated method; the paper's has folds")
        elif (self.gate, self.folds, self.smoothing, *self.softnesses) != (None, 1, "adaptive", *SOFTNESSES):
            raise ValueError(
                "gate, smoothing, softnesses and folds are choices of the paper: add method='paper'"
            )

    def add_classes(self, descriptions: Descriptions) -> Self:
        """Add unseen classes by their descriptions, without training.

        Parameters
        ----------
        descriptions : DataFrame or dict
            One row per new class, with the attributes of the table that the model was fitted with.
        """
        check_is_fitted(self, "experts_")
        new = new_descriptions(descriptions, self.experts_.descriptions)
        before = self.experts_.share_shift
        self.experts_ = self.experts_.with_classes(new)
        if not self.experts_.n_trained:  # All classes have the same share.
            threshold = self.operating_point_.threshold
            self.combination_.set_point(threshold=threshold + before - self.experts_.share_shift)
        return self


def fit_zero_shot(cosmo: Cosmo, n_features: int | None = None) -> Cosmo:
    """Complete a classifier without samples: the nearest description, in the space of an encoder of both."""
    assert cosmo.descriptions is not None, "encoded by the caller"
    table = check_descriptions(cosmo.descriptions)
    width = n_features or table.shape[1]
    if not isinstance(cosmo.unseen, SimilarityExpert | str | None):
        raise ValueError(f"without samples, the unseen expert is similarity, not {cosmo.unseen!r}")
    prompts = getattr(cosmo.unseen, "prompts", "average")
    expert = SimilarityExpert(0.0, 0.0, temperature=_ZERO_SHOT_TEMPERATURE, prompts=prompts)
    expert.columns_, expert.decided_, expert.others_ = table.columns, expert.get_params(), None
    expert.sample_mean_ = expert.description_mean_ = np.zeros(width, dtype=np.float32)
    expert.whitener_, expert.step_ = np.eye(width, dtype=np.float32), np.zeros((width, width), np.float32)
    mixture = GatedMixture(CalibratedGate(), smoothing="none", softnesses=(1.0,))
    mixture.gate_, mixture.operating_point_ = CalibratedGate(), OperatingPoint(0.0)
    gate: CalibratedGate = mixture.gate_
    # Without inputs: what speaks for "seen" is learned from samples only.
    gate.mean_ = gate.spread_ = gate.weights_ = np.zeros(0)
    gate.bias_ = gate.bias_error_ = 0.0
    temperatures = Temperatures(1.0, _ZERO_SHOT_TEMPERATURE, _ZERO_SHOT_TEMPERATURE)
    seen = pd.Index([], dtype=table.index.dtype)
    cosmo.experts_ = ExpertPair(NoSeenExpert(), expert, table, seen, temperatures=temperatures)
    codes, numbers = np.zeros(0, dtype=np.int32), np.zeros(0)
    cosmo.validation_outputs_ = OutputsSummary(0, 0, codes, codes, codes, numbers, numbers, numbers)
    cosmo.combination_, cosmo.choice_, cosmo.n_features_in_ = mixture, None, width
    return cosmo
