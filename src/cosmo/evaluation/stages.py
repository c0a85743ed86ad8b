"""Experts trained for both stages of the protocol, each at most once: what they say is kept on disk.

Every way of combining experts starts from here, so a table of many methods trains the seen expert once,
and a run that was stopped goes on with what it had.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, clone

from cosmo._core.cache import Cache, code_of, fingerprint
from cosmo._core.validation import encode_labels
from cosmo.data import GZSLDataset
from cosmo.data.splits import Protocol, further_folds
from cosmo.experts import UnseenExpert, select
from cosmo.experts._outliers import DetectsNovelty
from cosmo.experts.pair import ExpertPair, fit_seen_expert
from cosmo.gates import Gate
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["Spoken", "Stages"]


@dataclass(frozen=True, eq=False)
class Spoken:
    """What one expert says about GZSL-Val (trained on Seen-Train) and test (trained on everything).

    Parameters
    ----------
    validation, test : array of shape (n_samples, n_classes)
        Probabilities over the seen classes, or an unseen expert's scores over `[seen | unseen]`.
    cpu_seconds : float
        For choosing parameters and training, in both stages.
    decided : dict
        Parameters of an unseen expert that were chosen or given.
    novelty : pair of arrays of shape (n_samples,), optional
        On validation and on test, of an unseen expert that detects novelty.
    """

    validation: NDArray[np.float32]
    test: NDArray[np.float32]
    cpu_seconds: float
    decided: dict[str, Any]
    novelty: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


class Stages:
    """Trains experts on a data set, for the validation stage and for the test stage.

    Parameters
    ----------
    dataset : GZSLDataset
    cache : Cache
    seed : int
        Draws the validation split.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.experts import ESZSL, make_seen_expert
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stages = Stages(data, Cache(folder))
    ...     seen, unseen = stages.seen(make_seen_expert("logistic")), stages.unseen(ESZSL())
    >>> validation, test = stages.outputs(seen, unseen, ESZSL())
    >>> len(test) == len(data.split.test_seen) + len(data.split.test_unseen)
    True
    """

    def __init__(self, dataset: GZSLDataset, cache: Cache, *, seed: int = 0) -> None:
        self.dataset = dataset
        self.cache = cache
        self.seed = seed

    @cached_property
    def _data(self) -> str:
        """Fingerprint of the samples and of who is trained on which."""
        split = Protocol(self.dataset, seed=self.seed).hold_out
        data = self.dataset
        return fingerprint(data.features, data.codes, data.classes, data.split, split, code_of(type(self)))

    def seen(self, expert: BaseEstimator) -> Spoken:
        """Return what a scikit-learn classifier says."""

        def train() -> dict[str, Any]:
            protocol = Protocol(self.dataset, seed=self.seed)
            X, y, _ = protocol.training()
            held = protocol.training_hold_out()
            codes = encode_labels(y, self.dataset.classes)
            start = time.process_time()
            first = fit_seen_expert(expert, X[held.seen_train], codes[held.seen_train])
            second = fit_seen_expert(expert, X, codes)
            cpu_seconds = time.process_time() - start
            return {
                "validation": first.predict_proba(X[held.gzsl_val]).astype(np.float32),
                "test": second.predict_proba(protocol.open_test().X).astype(np.float32),
                "cpu_seconds": cpu_seconds,
                "decided": "{}",
            }

        with config_context(assume_finite=True):
            return _spoken(self.cache.arrays("seen", self.key(expert), train))

    def unseen(self, expert: UnseenExpert) -> Spoken:
        """Return what an unseen expert says; its open parameters are decided on Unseen-Val."""
        table = self.dataset.descriptions

        def train() -> dict[str, Any]:
            protocol = Protocol(self.dataset, seed=self.seed)
            X, y, _ = protocol.training()
            held = protocol.training_hold_out()
            start = time.process_time()
            first = select(expert, X, y, table.loc[self.dataset.seen_classes], held, cache=self.cache)
            second = clone(first).fit(X, y, table)
            cpu_seconds = time.process_time() - start
            (_, val_classes), (_, test_classes) = self._classes
            X_val, X_test = X[held.gzsl_val], protocol.open_test().X
            said = {
                "validation": first.scores(X_val, table.loc[val_classes]),
                "test": second.scores(X_test, table.loc[test_classes]),
                "cpu_seconds": cpu_seconds,
                "decided": json.dumps(first.decided_),
            }
            if isinstance(first, DetectsNovelty) and isinstance(second, DetectsNovelty):
                said |= {"val_novelty": first.novelty(X_val), "test_novelty": second.novelty(X_test)}
            return said

        return _spoken(self.cache.arrays("unseen", self.key(expert), train))

    def evidence(
        self, seen: BaseEstimator, gates: Sequence[Gate]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]] | None]:
        """Return what each gate's observer sees on GZSL-Val and on test; None for gates without one."""
        protocol = Protocol(self.dataset, seed=self.seed)
        X, y, _ = protocol.training()
        held = protocol.training_hold_out()
        codes = encode_labels(y, self.dataset.classes)
        X_test = protocol.open_test().X

        @cache
        def fitted(last: bool) -> Any:
            """Return the seen expert of the test stage, or of the validation stage."""
            rows = slice(None) if last else held.seen_train
            return fit_seen_expert(seen, X[rows], codes[rows])

        def look(gate: Gate) -> dict[str, NDArray[Any]]:
            def evidence(last: bool, rows: Any, asked: NDArray[np.float32]) -> NDArray[np.float64]:
                observer = gate.observer()
                assert observer is not None
                return observer.fit(fitted(last), X[rows], codes[rows]).evidence(asked)

            return {
                "validation": evidence(False, held.seen_train, X[held.gzsl_val]),
                "test": evidence(True, slice(None), X_test),
            }

        found: list[tuple[NDArray[np.float64], NDArray[np.float64]] | None] = []
        for gate in gates:
            if gate.observer() is None:
                found.append(None)
                continue
            key = fingerprint(self._data, seen, gate)
            arrays = self.cache.arrays("evidence", key, lambda gate=gate: look(gate))  # type: ignore[misc]
            found.append((arrays["validation"], arrays["test"]))
        return found

    def further(
        self, seen: BaseEstimator, unseen: UnseenExpert, gates: Sequence[Gate], folds: int
    ) -> list[list[ExpertOutputs]]:
        """Return what both experts say in further hold-outs, as each gate needs it: labelled, one per fold.

        With the hold-out of the validation stage there are `folds`, and every seen class plays unseen once.

        Parameters
        ----------
        unseen : UnseenExpert
            Its open parameters are those decided at the validation stage.
        """
        protocol = Protocol(self.dataset, seed=self.seed)
        X, y, _ = protocol.training()
        table = self.dataset.descriptions.loc[self.dataset.seen_classes]
        codes = encode_labels(y, table.index)
        expert = clone(unseen).set_params(**self.unseen(unseen).decided)
        hold_outs = further_folds(y, protocol.training_hold_out(), folds, seed=self.seed)

        @cache
        def pair(k: int) -> ExpertPair:
            rows = hold_outs[k].seen_train
            fitted = fit_seen_expert(seen, X[rows], codes[rows])
            known = table.index[np.unique(codes[rows])]
            return ExpertPair(fitted, clone(expert).fit(X[rows], y[rows], table), table, known)

        def listen(k: int, gate: Gate) -> dict[str, NDArray[Any]]:
            train, asked = hold_outs[k].seen_train, hold_outs[k].gzsl_val
            both, observer = pair(k), gate.observer()
            said = both.outputs(X[asked], y[asked])
            arrays = {"seen": said.seen, "unseen": said.unseen, "target": said.labels}
            if observer is not None:
                arrays["evidence"] = observer.fit(both.seen, X[train], codes[train]).evidence(X[asked])
            return arrays

        def outputs(k: int, gate: Gate) -> ExpertOutputs:
            held = hold_outs[k]
            key = fingerprint(self._data, table, seen, expert, held, gate if gate.observer() else None)
            with config_context(assume_finite=True):
                said = self.cache.arrays("fold", key, lambda: listen(k, gate))
            known, unmet = (
                table.index[np.unique(codes[rows])] for rows in (held.seen_train, held.unseen_val)
            )
            return ExpertOutputs(
                known,
                unmet,
                said["seen"],
                said["unseen"],
                evidence=said.get("evidence"),
                target=said["target"],
            )

        return [[outputs(k, gate) for k in range(len(hold_outs))] for gate in gates]

    def kept(self, expert: BaseEstimator) -> bool:
        """Tell whether an expert, seen or unseen, was trained before."""
        return self.cache.has("unseen" if isinstance(expert, UnseenExpert) else "seen", self.key(expert))

    def key(self, expert: BaseEstimator) -> str:
        """Return the name under which an expert is kept."""
        if isinstance(expert, UnseenExpert):
            return fingerprint(self._data, self.dataset.descriptions, expert)
        return fingerprint(self._data, expert)

    @cached_property
    def _classes(self) -> tuple[tuple[pd.Index, pd.Index], tuple[pd.Index, pd.Index]]:
        """Seen classes, and all classes with the seen ones first, of the validation and the test stage."""
        data = self.dataset
        held = Protocol(data, seed=self.seed).hold_out
        known = [data.classes[np.unique(data.codes[rows])] for rows in (held.seen_train, held.unseen_val)]
        return (known[0], known[0].append(known[1])), (
            data.seen_classes,
            data.seen_classes.append(data.unseen_classes),
        )

    def outputs(
        self, said: Spoken, guessed: Spoken, expert: UnseenExpert
    ) -> tuple[ExpertOutputs, ExpertOutputs]:
        """Return what both experts say, labelled: on GZSL-Val, where choices are made, and on test.

        Parameters
        ----------
        said, guessed : Spoken
            Of the seen and of the unseen expert.
        expert : UnseenExpert
            The latter.
        """
        expert = clone(expert)
        expert.decided_ = guessed.decided
        protocol = Protocol(self.dataset, seed=self.seed)
        labels = protocol.samples(protocol.hold_out.gzsl_val).y, protocol.open_test().y
        proba, scores = (said.validation, said.test), (guessed.validation, guessed.test)
        validation, test = (
            ExpertOutputs.from_joint(
                own,
                expert.probabilities(joint),
                known,
                classes[len(known) :],
                # As in the paper, calibrated stacking works on probabilities where they are the method's own.
                scores=None if expert.native else joint,
                novelty=novelty,
                target=encode_labels(y, classes),
            )
            for (known, classes), own, joint, novelty, y in zip(
                self._classes, proba, scores, guessed.novelty or (None, None), labels, strict=True
            )
        )
        return validation, test


def _spoken(arrays: dict[str, NDArray[Any]]) -> Spoken:
    return Spoken(
        arrays["validation"],
        arrays["test"],
        float(arrays["cpu_seconds"]),
        json.loads(str(arrays["decided"])),
        (arrays["val_novelty"], arrays["test_novelty"]) if "val_novelty" in arrays else None,
    )
