"""What is left of validation outputs in a model file: all that curves and operating points need."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from cosmo.classifier.combinations import GatedMixture
from cosmo.gates import Gate
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import Smoothing

__all__ = ["RecordedOutputs"]


@dataclass(frozen=True, eq=False)
class RecordedOutputs:
    """A few numbers per validation sample, in place of both experts' probabilities of all classes.

    Parameters
    ----------
    n_seen, n_unseen : int
        Classes of the validation stage.
    target : array of int, shape (n_samples,)
        True class as a column of `[seen | unseen]`.
    seen_choice, unseen_choice : array of int, shape (n_samples,)
        Column of each expert's best class.
    best_seen, best_unseen : array of shape (n_samples,)
        Each expert's largest probability, as the smoothing in use compares them.
    gate_score : array of shape (n_samples,)

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])
    >>> record = RecordedOutputs.of(model.validation_outputs_, model.combination_)
    >>> area = record.asked_by(model.combination_).curve(record).area
    >>> area == model.validation_curve_.area
    True
    """

    n_seen: int
    n_unseen: int
    target: NDArray[np.integer[Any]]
    seen_choice: NDArray[np.integer[Any]]
    unseen_choice: NDArray[np.integer[Any]]
    best_seen: NDArray[Any]
    best_unseen: NDArray[Any]
    gate_score: NDArray[np.float64]

    def __post_init__(self) -> None:
        shape = np.shape(self.target)
        for name in ("seen_choice", "unseen_choice", "best_seen", "best_unseen", "gate_score"):
            if np.shape(getattr(self, name)) != shape or len(shape) != 1:
                raise ValueError(f"{name} must have one number per sample")
        for name, end in (
            ("target", self.n_seen + self.n_unseen),
            ("seen_choice", self.n_seen),
            ("unseen_choice", self.n_unseen),
        ):
            values = np.asarray(getattr(self, name))
            if values.dtype.kind not in "iu" or (values.size and not 0 <= values.min() <= values.max() < end):
                raise ValueError(f"{name} must be columns from 0 to {end - 1}")

    @classmethod
    def of(cls, outputs: ExpertOutputs | RecordedOutputs, mixture: GatedMixture) -> RecordedOutputs:
        """Return the record of labelled outputs, for a fitted mixture; a record stays as it is."""
        if isinstance(outputs, RecordedOutputs):
            return outputs
        seen, unseen = outputs.best(mixture.smoothing)
        # Under adaptive smoothing these are the experts' own numbers, of single precision.
        kind = np.float32 if mixture.smoothing == "adaptive" else np.float64
        return cls(
            outputs.n_seen,
            outputs.n_unseen,
            outputs.labels.astype(np.int32),
            outputs.seen_choice.astype(np.int32),
            outputs.unseen_choice.astype(np.int32),
            seen.astype(kind),
            unseen.astype(kind),
            mixture.gate_.score(outputs),
        )

    def __len__(self) -> int:
        return len(self.target)

    @property
    def labels(self) -> NDArray[np.integer[Any]]:
        """True classes, as `ExpertOutputs` names them."""
        return self.target

    @property
    def is_seen(self) -> NDArray[np.bool_]:
        """Whether each sample's true class is seen."""
        return self.target < self.n_seen

    @cached_property
    def gain(self) -> NDArray[np.float64]:
        """What a right answer on each sample adds to its accuracy."""
        rows = np.bincount(self.target, minlength=self.n_seen + self.n_unseen)
        return 1 / (rows[self.target] * np.where(self.is_seen, self.n_seen, self.n_unseen).astype(np.float64))

    def best(self, smoothing: Smoothing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both experts' largest probabilities."""
        return self.best_seen.astype(np.float64), self.best_unseen.astype(np.float64)

    def asked_by(self, mixture: GatedMixture) -> GatedMixture:
        """Return a copy of a mixture that takes the gate's scores from the record."""
        reader = copy(mixture)
        reader.gate_ = _OnRecord()
        return reader


class _OnRecord(Gate):
    """A gate whose scores are known."""

    def fit(self, *outputs: ExpertOutputs) -> Self:
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        return cast(RecordedOutputs, outputs).gate_score
