"""Learning from samples after the training: corrections of classes, and the exemplar buffer.

The model as it is gives every class a logarithm of its probability mass. For classes with new samples a
linear function of the features is added to it, fitted as a multinomial regression on the new samples and the
exemplar buffer, in which the masses of the model are offsets. Its penalty is relative to the number of
samples, so that few samples leave a class nearly as its description has it. From enough samples an unseen
expert with a closed form learns about all other classes, too; with fewer, these keep theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone

from cosmo.classifier.combinations import GatedMixture
from cosmo.experts._linear import class_sums, transformed
from cosmo.experts.class_means import average_prompts
from cosmo.experts.composed import EnsembleExpert
from cosmo.experts.pair import Corrections, ExpertPair

# Chosen on other draws of CLINC and glyphs (100) and on training classes of CUB, among 3 to 30: larger ones
# lower the accuracy of some classes with one sample, smaller ones learn less from twenty.
_VARIANCE = 5.0  # of a correction's logarithm, times the number of samples, for a row of average spread
_BIAS_VARIANCE = 1.0  # the same for the bias
_PAPER_RATIO = 3.0  # chosen on glyphs; its operating point is no share of samples
_STEPS = 60
# Chosen on other draws of glyphs (100 to 105) and on training classes of CUB: if the share moves
# faster, some classes are below their accuracy by description; if it moves less, other classes are.
_HALF = 16.0  # samples after which a class's share has moved half of the way to a trained class's
_CERTAIN = 2.0  # weight of exemplars at its end: they are training rows, of which the seen expert is too sure
_ENOUGH = 5  # samples of a class from which the unseen expert learns, at first with half the weight
_MOST = 2000  # exemplars of trained classes from which it learns
_LIKELY = 5000  # rows of classes without samples, where no class was trained
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class ExemplarBuffer:
    """Exemplar buffer: a few training rows of each seen class, and the latest of those learned since.

    `rows` are in half precision where that is precise enough; `codes` are positions among the seen classes;
    `counts` has the number of training rows of each class, `per_class` the largest number that is kept.
    """

    rows: NDArray[Any]
    codes: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]
    per_class: int

    def __post_init__(self) -> None:
        matrix = self.rows.ndim == 2 and self.rows.dtype.kind == "f" and self.counts.ndim == 1
        if not matrix or self.codes.shape != (len(self.rows),):
            raise ValueError("an exemplar buffer needs rows of numbers, a code for each, and class counts")
        if set(np.unique(self.codes)) != set(range(len(self.counts))):
            raise ValueError(f"an exemplar buffer needs rows of each of its {len(self.counts)} classes")

    @classmethod
    def draw(cls, X: NDArray[Any], codes: NDArray[np.integer[Any]], per_class: int) -> ExemplarBuffer:
        """Draw at most `per_class` rows of each class, with a fixed seed."""
        order = np.random.default_rng(0).permutation(len(codes))
        drawn = order[_rank(codes[order]) < per_class]
        drawn = drawn[np.argsort(codes[drawn], kind="stable")]
        return cls(_compress(X[drawn]), codes[drawn], np.bincount(codes), per_class)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Number of training rows that each row represents."""
        return (self.counts / np.bincount(self.codes))[self.codes]

    def with_rows(self, X: NDArray[Any], codes: NDArray[np.integer[Any]]) -> ExemplarBuffer:
        """Return the buffer with more rows, maybe of more classes."""
        counts = np.bincount(codes, minlength=len(self.counts))
        counts[: len(self.counts)] += self.counts
        rows = _compress(np.concatenate([self.rows.astype(np.float32), X]))
        return ExemplarBuffer(rows, np.append(self.codes, codes), counts, self.per_class)

    def latest(self, most: int = 100) -> ExemplarBuffer:
        """Return the buffer with the latest rows of each class only."""
        kept = _rank(self.codes[::-1])[::-1] < max(most, self.per_class)
        return replace(self, rows=self.rows[kept], codes=self.codes[kept])


def _rank(codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return how many rows of the same class precede each row."""
    rank: NDArray[Any] = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    return rank


def _compress(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows in half precision if that changes them little, else in single precision."""
    with np.errstate(over="ignore"):
        half = rows.astype(np.float16)
    precise = np.abs(half - rows).max(initial=0) <= 1e-3 * np.abs(rows).max(initial=0)
    return half if precise else rows.astype(np.float32)


def learn(
    experts: ExpertPair, mixture: GatedMixture, X: NDArray[np.float32], y: pd.Index, exemplars: ExemplarBuffer
) -> tuple[ExpertPair, ExemplarBuffer]:
    """Return experts and buffer after more samples, and set the operating point of `mixture`.

    Unseen classes of `y` become seen. Of the samples that are expected, those of a learned class had a share
    by the operating point. In the regression, this share moves to that of a trained class with the number
    of samples; the operating point becomes the share of the classes that are still unseen. The gate stays.
    Where no class was trained, the classes without samples have their descriptions instead; see
    `_likely_rows`.
    """
    start, columns = _start(experts, mixture, y, X.shape[1])
    corrections, n_trained = start.corrections, start.n_trained
    assert corrections is not None, "set in _start"
    buffer = exemplars.with_rows(X, start.seen_classes.get_indexer(y))
    start = replace(start, update=_update(start, buffer))
    rows, codes = buffer.rows.astype(np.float32), buffer.codes
    if not n_trained:
        rows, codes = _likely_rows(start, rows, codes, buffer.per_class)
    outputs = start.predictions(rows)
    masses = np.log(np.maximum(outputs.seen.astype(np.float64), _TINY))
    ratio = _PAPER_RATIO  # of the samples of trained classes to those of one other class
    if start.temperatures is not None:
        threshold = mixture.operating_point_.threshold + experts.share_shift
        n_others = start.n_promoted + len(start.unseen_classes)
        ratio = min(n_trained, (n_others or n_trained) * float(np.exp(-threshold)))
        if n_trained and columns[-1] >= n_trained:
            samples = corrections.samples[columns[columns >= n_trained]]
            moved = float(np.mean(samples / (samples + _HALF)))
            ratio = ratio ** (1 - moved) * (_CERTAIN * n_trained) ** moved
        mixture.set_point(threshold=threshold - start.share_shift)
        if len(start.unseen_classes):
            odds = mixture.operating_point_.threshold - mixture.gate_.score(outputs)
            masses = np.column_stack([masses, odds])
    counts = np.bincount(codes)
    shares = np.where(np.arange(len(counts)) < n_trained, ratio / max(1, n_trained), 1.0)
    rows, trained = transformed(rows, start.transform), codes < n_trained
    if n_trained:
        centre, scale = _spread(rows[trained], codes[trained])
    else:
        table = start.descriptions.to_numpy(np.float32).reshape(-1, rows.shape[1])
        centre, scale = _spread(table, np.zeros(len(table), dtype=np.intp))
    others = logsumexp(np.delete(masses, columns, axis=1), axis=1)
    W, b = _fit(
        (rows - centre) / scale,
        np.column_stack([np.maximum(others, np.log(_TINY)), masses[:, columns]]),
        1 + pd.Index(columns).get_indexer(pd.Index(codes)),
        (shares / counts)[codes],
        corrections.samples[columns].astype(np.float64),
    )
    corrections.weights[:, columns] = W / scale
    corrections.biases[columns] += b - centre @ W / scale
    return start, buffer.latest()


def _update(start: ExpertPair, buffer: ExemplarBuffer) -> EnsembleExpert | None:
    """Return the change of the unseen expert's scores by classes that have enough samples.

    It is the difference of two experts, fitted on exemplars with and without these classes, so that what the
    exemplars lack of the training rows cancels out.
    """
    n_trained, codes, n = start.n_trained, buffer.codes, np.bincount(buffer.codes)
    enough = np.flatnonzero((n >= _ENOUGH) & (np.arange(len(n)) >= n_trained))
    if not (len(enough) and n_trained > 1 and start.temperatures and start.unseen.closed_form):
        return None
    trained = (codes < n_trained) & (_rank(codes) < max(2, _MOST // n_trained))
    fits = []
    for used in (trained | np.isin(codes, enough), trained):
        rows = transformed(buffer.rows[used].astype(np.float32), start.transform)
        fits.append(clone(start.unseen).fit(rows, start.seen_classes[codes[used]], start.descriptions))
    weight = float(np.mean(n[enough] ** 2 / (n[enough] ** 2 + _ENOUGH**2)))
    return EnsembleExpert.sum(fits, [weight, -weight])


def _start(
    experts: ExpertPair, mixture: GatedMixture, y: pd.Index, n_features: int
) -> tuple[ExpertPair, NDArray[np.intp]]:
    """Return experts with all classes of `y` seen and uncorrected, and the columns of these classes."""
    new = y[~y.isin(experts.seen_classes)].unique()
    n_before, n_seen = len(experts.seen_classes), len(experts.seen_classes) + len(new)
    fields = [np.zeros((n_features, n_seen), np.float32), *np.zeros((2, n_seen)), np.zeros(n_seen, np.int64)]
    if experts.corrections is not None:
        for field, known in zip(fields, experts.corrections, strict=True):
            field[..., :n_before] = known
    corrections = Corrections(*fields)
    calibrated = experts.temperatures is not None
    if calibrated:
        corrections.prior[n_before:] = mixture.operating_point_.threshold + experts.share_shift
    start = replace(
        experts,
        seen_classes=experts.seen_classes.append(new),
        n_promoted=experts.n_promoted + len(new),
        gate=mixture.gate_ if calibrated else None,
        corrections=corrections,
    )
    codes = start.seen_classes.get_indexer(y)
    columns = np.unique(codes)
    corrections.weights[:, columns] = 0
    corrections.biases[columns] = corrections.prior[columns]
    corrections.samples[:] += np.bincount(codes, minlength=n_seen)
    return start, columns


def _likely_rows(
    start: ExpertPair, rows: NDArray[np.float32], codes: NDArray[Any], per_class: int
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the rows, and likely ones of each class without samples.

    They are its description, moved by steps from other descriptions to samples of their classes.
    """
    n_seen, table = len(start.seen_classes), start.descriptions.loc[start.classes].to_numpy(np.float32)
    table = average_prompts(table, rows.shape[1])
    others, steps = table[n_seen:], rows - table[codes]
    n = min(per_class, 1 + _LIKELY // max(1, len(others)))
    drawn = np.random.default_rng(0).integers(len(steps), size=(len(others), n))
    likely = (others[:, None] + steps[drawn]).reshape(-1, rows.shape[1])
    return np.concatenate([rows, likely]), np.append(codes, np.repeat(np.arange(n_seen, len(table)), n))


def _spread(rows: NDArray[np.float32], codes: NDArray[Any]) -> tuple[NDArray[np.float32], float]:
    """Return the mean of the class means, and the root of the mean squared distance to a class mean."""
    means = class_sums(rows, codes, codes.max() + 1) / np.bincount(codes)[:, None].astype(np.float32)
    for centres in (means[codes], means.mean(axis=0)):  # The second, if there is one row per class.
        squared = np.einsum("ij,ij->", rows - centres, rows - centres, dtype=np.float64) / len(rows)
        if squared > 0:
            break
    return means.mean(axis=0), float(np.sqrt(squared)) or 1.0


def _fit(
    rows: NDArray[np.float32],
    masses: NDArray[np.float64],
    target: NDArray[np.intp],
    weights: NDArray[np.float64],
    samples: NDArray[np.float64],
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return weights and biases that, added to all columns of `masses` but the first, fit `target` best."""
    n_features, n = rows.shape[1], masses.shape[1] - 1
    ends, truth = n_features * n, np.eye(n + 1)[target]
    penalty, bias_penalty = 1 / (_VARIANCE * samples), 1 / (_BIAS_VARIANCE * samples)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        W, b = flat[:ends].reshape(n_features, n), flat[ends:]
        logits = masses.copy()
        logits[:, 1:] += rows @ W.astype(np.float32) + b
        logits -= logsumexp(logits, axis=1, keepdims=True)
        value = -weights @ (logits * truth).sum(axis=1) + (penalty * W**2 / 2).sum()
        slope = ((np.exp(logits) - truth) * weights[:, None])[:, 1:]
        slopes = rows.T @ slope.astype(np.float32) + penalty * W
        return value + bias_penalty @ b**2 / 2, np.append(slopes, slope.sum(axis=0) + bias_penalty * b)

    found = minimize(loss, np.zeros(ends + n), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}).x
    return found[:ends].reshape(n_features, n).astype(np.float32), found[ends:]
