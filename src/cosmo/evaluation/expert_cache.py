"""Experts whose predictions are cached on disk, so that each is trained once for many comparisons."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from cosmo._core.cache import Cache, code_of, fingerprint
from cosmo._core.parallel import Workers, parallel_map
from cosmo._core.validation import encode_labels
from cosmo.classifier._cosmo import Cosmo
from cosmo.classifier.combinations import GatedMixture, Outputs
from cosmo.data.splits import HoldOut, Protocol
from cosmo.experts.base import UnseenExpert
from cosmo.experts.pair import fit_seen_expert
from cosmo.gates.base import Gate
from cosmo.gates.baselines import MaxSoftmaxGate
from cosmo.mixture.outputs import ExpertOutputs

logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class CachedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A seen expert that is fitted only if a prediction is not in the cache."""

    classifier: Any
    cache: Cache

    def fit(self, X: NDArray[np.float32], y: NDArray[np.intp]) -> Self:
        """Store the training rows."""
        self.classes_ = np.unique(y)
        self._rows = X, y
        self._key = fingerprint(self.classifier, X, y)
        return self

    @cached_property
    def classifier_(self) -> Any:
        """The fitted classifier."""
        return clone(self.classifier).fit(*self._rows)

    def predict_proba(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the probabilities of `classes_`."""

        def compute() -> dict[str, NDArray[np.float32]]:
            return {"proba": self.classifier_.predict_proba(X).astype(np.float32)}

        return self.cache.arrays("seen", fingerprint(self._key, X), compute)["proba"]


@dataclass(eq=False, repr=False)
class CachedExpert(UnseenExpert):
    """An unseen expert that is fitted only if a prediction is not in the cache.

    `cpu_seconds` is the CPU time of the choice of parameters.
    """

    expert: UnseenExpert
    cache: Cache
    cpu_seconds: float = 0.0

    native, detects_novelty, slow = (
        property(attrgetter(f"expert.{name}"), doc="That of the expert.")
        for name in ("native", "detects_novelty", "slow")
    )

    def open_parameters(self) -> list[str]:
        """Return those of the expert."""
        return self.expert.open_parameters()

    def select(
        self,
        X: NDArray[np.float32],
        y: Iterable[Hashable],
        descriptions: pd.DataFrame,
        held: HoldOut,
        *,
        cache: Cache | None = None,
    ) -> Self:
        """Return a copy with the expert's open parameters chosen, or read from the cache."""
        key = fingerprint(self.expert, X, encode_labels(y, descriptions.index), descriptions, held)
        last: Self | None = vars(self).get("_selected")
        if last is not None and last._key == key:
            return last
        trained: list[UnseenExpert] = []

        def train() -> UnseenExpert:
            return trained[0] if trained else self.expert.select(X, y, descriptions, held, cache=cache)

        choice = self.cache.read("choice", key)
        if not choice:
            start = time.process_time()
            trained.append(train())
            decided = json.loads(json.dumps(trained[0].decided_, default=float))
            choice = {"decided": decided, "cpu_seconds": time.process_time() - start}
            self.cache.write("choice", key, choice)
        expert = clone(self.expert).set_params(**choice["decided"])
        self._selected = type(self)(expert, self.cache, choice["cpu_seconds"])._prepare(key, train)
        return self._selected

    def fit(
        self, X: ArrayLike, y: Iterable[Hashable], descriptions: pd.DataFrame, *, seed: int | None = 0
    ) -> Self:
        """Store the training rows."""
        key = fingerprint(
            self.expert, np.asarray(X), encode_labels(y, descriptions.index), descriptions, seed
        )
        return self._prepare(key, lambda: clone(self.expert).fit(X, y, descriptions, seed=seed))

    def _prepare(self, key: str, train: Callable[[], UnseenExpert]) -> Self:
        self._key, self._train, self._cpu_seconds = key, train, 0.0
        self.decided_ = {name: getattr(self.expert, name) for name in self.expert.choices()}
        self.cpu_seconds_ = self.cpu_seconds
        return self

    def _fit(self, *args: Any, **decided: Any) -> None:
        """Do nothing; `fit` is lazy."""

    @cached_property
    def expert_(self) -> UnseenExpert:
        """The fitted expert."""
        start = time.process_time()
        expert = self._train()
        self._cpu_seconds = time.process_time() - start
        return expert

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> NDArray[np.float32]:
        """Return the expert's scores, shape (n_samples, n_classes)."""

        def compute() -> dict[str, NDArray[Any]]:
            scores = self.expert_.scores(X, descriptions)
            return {"scores": scores, "cpu_seconds": np.array(self._cpu_seconds)}

        found = self.cache.arrays("unseen", fingerprint(self._key, np.asarray(X), descriptions), compute)
        self.cpu_seconds_ = self.cpu_seconds + float(found["cpu_seconds"])
        return found["scores"]

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the expert's own novelty."""
        key = fingerprint(self._key, np.asarray(X))
        return self.cache.arrays("novelty", key, lambda: {"novelty": self.expert_.novelty(X)})["novelty"]


class ExpertCache:
    """Outputs of experts in both stages of a sealed protocol; each expert is trained once.

    `Cosmo` does the training: the recipe is that of every fit, with cached experts.
    """

    def __init__(self, protocol: Protocol, cache: Cache) -> None:
        self.protocol = protocol
        self.cache = cache
        self._training = protocol.training()
        self._last: tuple[str, Any] = "", None

    @cached_property
    def test_labels(self) -> pd.Index:
        """Labels of the test rows; the first access opens the test set, the only time in a run."""
        return self.protocol.open_test().y

    def fit(
        self, seen: BaseEstimator, unseen: UnseenExpert, *, gate: Gate | None = None, folds: int = 1
    ) -> StageOutputs:
        """Return the outputs of two experts; see `Cosmo` for the parameters."""
        model = self._model(seen, unseen).set_params(
            method="paper",
            gate=MaxSoftmaxGate() if gate is None else gate,
            smoothing="none",
            folds=folds,
        )
        model.fit(self._training.X, self._training.y)
        validation, test = model.validation_outputs_, model.outputs(self.protocol.test_features())
        assert isinstance(validation, ExpertOutputs), "a fitted model has all outputs"
        self.cache.write("trained", self.key(seen, unseen), {"trained": True})
        return StageOutputs(model, validation, test)

    def fit_calibrated(self, seen: BaseEstimator, unseen: UnseenExpert) -> Cosmo:
        """Return a model of the calibrated method with the same experts."""
        return self._model(seen, unseen).fit(self._training.X, self._training.y)

    def tested(self, model: Cosmo) -> tuple[GatedMixture, Outputs, ExpertOutputs]:
        """Return the mixture of a model, its validation outputs and its labelled outputs on test rows."""
        test = model.outputs(self.protocol.test_features(), self.test_labels)
        return model.combination_, model.validation_outputs_, test

    def _model(self, seen: BaseEstimator, unseen: UnseenExpert) -> Cosmo:
        # The last expert is kept: both methods use the one of its choice.
        key = fingerprint(unseen)
        if self._last[0] != key:
            self._last = key, CachedExpert(unseen, self.cache)
        return Cosmo(
            self.protocol.dataset.descriptions,
            seen=CachedClassifier(seen, self.cache),
            unseen=self._last[1],
            hold_out=self.protocol.training_hold_out(),
            random_state=self.protocol.seed,
            cache=self.cache.folder,
        )

    def has(self, seen: BaseEstimator, unseen: UnseenExpert) -> bool:
        """Return whether both experts were trained before."""
        return bool(self.cache.read("trained", self.key(seen, unseen)))

    def key(self, seen: BaseEstimator, unseen: UnseenExpert) -> str:
        """Return the fingerprint of data and experts."""
        return fingerprint(self._data, seen, unseen)

    @cached_property
    def _data(self) -> str:
        data = self.protocol.dataset
        parts = data.features, data.codes, data.descriptions, data.split, self.protocol.hold_out
        return fingerprint(*parts, code_of(type(self)))

    def seen_predictions(self, seen: BaseEstimator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the probabilities of a seen expert alone on GZSL-Val and on test."""
        X, y, _ = self._training
        held = self.protocol.training_hold_out()
        codes, cached = encode_labels(y, self.protocol.dataset.classes), CachedClassifier(seen, self.cache)
        first = fit_seen_expert(cached, X[held.seen_train], codes[held.seen_train])
        second = fit_seen_expert(cached, X, codes)
        return first.predict_proba(X[held.gzsl_val]), second.predict_proba(self.protocol.test_features())


@dataclass(frozen=True, eq=False)
class StageOutputs:
    """A fitted model, its experts' labelled outputs on GZSL-Val, and the unlabelled ones on test rows."""

    model: Cosmo
    validation: ExpertOutputs
    test: ExpertOutputs

    @property
    def cpu_seconds(self) -> float:
        """CPU time of choosing parameters and training the unseen expert in both stages."""
        return float(self.model.experts_.unseen.cpu_seconds_)

    def labelled(self, y: Iterable[Hashable]) -> ExpertOutputs:
        """Return the test outputs with the labels of the opened test set."""
        return replace(self.test, target=encode_labels(y, self.test.classes))


@dataclass(frozen=True, eq=False)
class Training:
    """Two experts to train for both stages, with a name for progress reports."""

    name: str
    experts: ExpertCache
    seen: BaseEstimator
    unseen: UnseenExpert


def train_all(
    trainings: Sequence[Training],
    *,
    workers: Workers | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Train experts in parallel and fill their cache, which is the same for all.

    Equal trainings are done once, cached ones not at all. `report` receives the number of trained experts and
    of all experts. On a cluster, the folder of the cache must be on shared storage.
    """
    unique = {training.experts.key(training.seen, training.unseen): training for training in trainings}
    missing = [one for one in unique.values() if not one.experts.has(one.seen, one.unseen)]
    done = len(unique) - len(missing)
    logger.info("%d of %d experts are cached", done, len(unique))
    report(done, len(unique))
    # A seen expert is trained with the first unseen expert of its data set; the others find it in the cache.
    first: dict[str, Training] = {}
    for training in missing:
        first.setdefault(fingerprint(training.experts._data, training.seen), training)
    rest = [training for training in missing if training not in first.values()]
    for wave in (list(first.values()), rest):
        if not wave:
            continue
        experts = list({id(training.experts): training.experts for training in wave}.values())
        tasks = [(t.name, experts.index(t.experts), t.seen, t.unseen) for t in wave]
        folder = experts[0].cache.folder.resolve()
        common = [ExpertCache(one.protocol, Cache(folder)) for one in experts]
        with closing(parallel_map(_train, tasks, workers=workers, common=common, folder=folder)) as results:
            for name, cpu_seconds in results:
                done += 1
                logger.info("trained %s: %.0f CPU s", name, cpu_seconds)
                report(done, len(unique))


def _train(
    experts: Sequence[ExpertCache], task: tuple[str, int, BaseEstimator, UnseenExpert]
) -> tuple[str, float]:
    name, place, seen, unseen = task
    seconds = experts[place].fit(seen, unseen).cpu_seconds
    experts[place].fit_calibrated(seen, unseen)
    return name, seconds
