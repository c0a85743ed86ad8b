"""Generative experts: features synthesised from descriptions, and a classifier trained on them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cosmo._core.cache import fingerprint
from cosmo._core.validation import check_features
from cosmo.experts._network import NetworkExpert, Side, Weights, torch
from cosmo.experts.base import COUNT, POSITIVE, Array, Codes, check_rule
from cosmo.experts.seen import SoftmaxRegression
from cosmo.mixture.curve import SeenUnseenCurve

if TYPE_CHECKING:
    from torch import Generator, Tensor

_CLASSIFIERS = 4  # classifiers in memory, one per set of classes
_ROWS = 4096  # rows scaled at once when predicting
_LENGTH = np.float32(0.25)  # length of a description, relative to that of a vector of ones
_MADE = 2  # synthetic rows of a class, relative to the mean number of rows of a seen class
_RENEWAL = 0.01  # weight of the current step in the running mean of weights


@dataclass(eq=False, repr=False)
class GenerativeExpert(NetworkExpert):
    """Base class of generators of features, with a linear soft-max classifier trained on them.

    The generator learns from seen classes, in turn with an *opponent*. Synthetic rows of other classes, made
    from their descriptions, replace samples. For a set of classes, the classifier is trained on real rows of
    those that had samples and on synthetic rows of the others; its log-probabilities are the
    scores. The last few classifiers stay in memory. A class has samples if its description is the same as in
    training.

    The classifier is the optimum of a penalised soft-max regression, so that it is about as accurate as a
    seen expert on seen classes. Its intercepts are shifted to prior odds `balance` of all classes without
    samples against all others; else the odds, and with them the operating point, would depend on the numbers
    of classes and rows.

    Each feature is scaled to [0, 1] by its range in training; the mean of the seen classes is subtracted from
    every description, and each is scaled to a quarter of the length of a vector of ones. Rows are synthesised
    by the running mean of the generator's weights over about the last hundred steps, because adversarial
    training oscillates.

    Subclasses define the initial weights (`_networks`), with names that begin with "G." for the generator and
    "D." for its opponent, the losses of both (`_loss`, `_opponent_loss`), and `_generate`.

    Parameters
    ----------
    epochs : int or None, default=None
        Each of 50 steps of the generator, however many samples there are: on CUB, a generator that is chosen
        on 3,000 rows is overfitted by as many passes over 7,000. None stops early on held-out classes, see
        `NetworkExpert`.
    balance : float or None, default=None
        Prior odds of classes without samples against those with samples. Larger values move decisions towards
        classes without samples. The publications' numbers of rows imply 0.6 to 4.3, on CUB 2.1. None chooses
        them on held-out classes, for the best Acc_H.
    hidden, learning_rate, batch_size, seed, checkpoints
        See `NetworkExpert`.
    """

    native: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (8, 16, 24, 32, 48, 64)}
    patience: ClassVar[int] = 2
    presets: ClassVar[dict[str, dict[str, Any]]] = {"fast": {}}
    ranges: ClassVar[dict[str, str]] = NetworkExpert.ranges | {"balance": POSITIVE}
    betas: ClassVar[tuple[float, float]] = (0.5, 0.999)
    epoch_steps: ClassVar[int | None] = 50

    # Not parameters of generative experts.
    weight_decay: ClassVar[float] = 0.0  # type: ignore[misc]
    temperature: ClassVar[None] = None  # type: ignore[misc]

    balance: float | None = None
    hidden: int = 256
    batch_size: int = 64

    @abstractmethod
    def _networks(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        """Return the initial weights of both sides; `rows_` is set."""

    @abstractmethod
    def _generate(self, weights: Weights, noise: Tensor, A: Tensor) -> Tensor:
        """Return scaled features, one row for each row of `noise` and of the descriptions A."""

    @abstractmethod
    def _noise_size(self, n_attributes: int) -> int:
        """Return the length of the generator's noise."""

    @abstractmethod
    def _opponent_loss(self, w: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        """Return the opponent's loss on a mini-batch."""

    def _draw(self, weights: Weights, A: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return noise and a row synthesised from it for each of the descriptions A."""
        noise = torch.randn(len(A), self._noise_size(A.shape[1]), generator=generator)
        return noise, self._generate(weights, noise, A)

    def _opponent(self) -> tuple[int, float]:
        """Return the opponent's steps per step of the generator, and its learning rate."""
        return 1, self.learning_rate

    def choices(self) -> list[str]:
        """Return the names of parameters that may be None."""
        return [*self.grid, "balance"]

    def _decide_last(self, X: Array, target: Codes, table: pd.DataFrame, n_seen: int) -> None:
        if self.balance is None:
            scores = self.scores(X, table)
            seen, unseen = scores[:, :n_seen], scores[:, n_seen:]
            choice = seen.argmax(axis=1), n_seen + unseen.argmax(axis=1)
            gain = 1 / np.bincount(target, minlength=scores.shape[1])[target]
            gain /= np.where(target < n_seen, n_seen, len(table) - n_seen)
            curve = SeenUnseenCurve(
                seen.max(axis=1) - unseen.max(axis=1), *(gain * (one == target) for one in choice)
            )
            self._decide(balance=float(np.exp(np.clip(curve.best().threshold, -9, 9))))

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return log-probabilities among the classes of `descriptions`, shape (n_samples, n_classes)."""
        X = check_features(X, name="X", columns=self._width())
        attributes = self.attributes(descriptions)
        classifier = self._classifier(attributes)
        A = torch.from_numpy(self._signatures(attributes))
        return self._in_chunks(X, _ROWS, lambda rows: self._score(classifier, rows, A))

    def synthesize(self, descriptions: pd.DataFrame, n: int, *, seed: int = 0) -> Array:
        """Return `n` synthetic rows of each described class, with labels `descriptions.index.repeat(n)`."""
        check_rule(COUNT, n=n)
        rows: Array = self._synthesize(self.attributes(descriptions), n, seed).numpy()
        rows *= self.spread_
        rows += self.low_
        return rows

    def _synthesize(self, attributes: Array, n: int, seed: int) -> Tensor:
        """Return scaled features, class after class."""
        A = torch.from_numpy(self._signatures(attributes))
        weights = {name: torch.from_numpy(value) for name, value in _means(self.weights_).items()}
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(n, self._noise_size(A.shape[1]), generator=generator)
        with torch.no_grad():
            return torch.cat([self._generate(weights, noise, a.expand(n, -1)) for a in A])

    def _classifier(self, attributes: Array) -> Weights:
        """Return the classifier of these classes, trained at the first call."""
        key = fingerprint(attributes)
        classifier = self.classifiers_.pop(key, None) or self._train_classifier(attributes)
        self.classifiers_[key] = classifier
        if len(self.classifiers_) > _CLASSIFIERS:
            del self.classifiers_[next(iter(self.classifiers_))]
        return classifier

    def _train_classifier(self, attributes: Array) -> Weights:
        # For each class, the rows of training classes with the same description.
        rows = [
            np.flatnonzero((self.descriptions_ == description).all(axis=1)[self.codes_])
            for description in attributes
        ]
        sizes = np.array([len(of_class) for of_class in rows])
        new = np.flatnonzero(sizes == 0)
        n_made = math.ceil(_MADE * len(self.codes_) / len(self.descriptions_))
        X, codes = self.rows_[np.concatenate(rows)], np.repeat(np.arange(len(rows)), sizes)
        if len(new):
            X = np.concatenate([X, self._synthesize(attributes[new], n_made, self.seed).numpy()])
            codes = np.concatenate([codes, np.repeat(new, n_made)])
        W, b = fit_classifier(X, codes)
        is_new = torch.zeros(len(rows))
        if 0 < len(new) < len(rows):
            is_new[new] = 1
            b[new] += math.log(sizes.sum() / (len(new) * n_made))  # from the odds of the rows to even ones
        return {"W": W, "b": b, "new": is_new}

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        """Return the log-probabilities of a classifier with these weights."""
        logits = X @ weights["W"] + weights["b"]
        if "new" in weights:  # In older files the intercepts have the odds.
            logits += math.log(self.balance or self.decided_["balance"] or 1) * weights["new"]
        return logits.log_softmax(dim=1)

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        super()._fit(X, codes, attributes, **decided)
        self.classifiers_: dict[str, Weights] = {}

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        for candidate in super()._candidates(X, codes, table):
            candidate.classifiers_ = {}
            yield candidate

    def _learn_scales(self, X: Array, attributes: Array) -> None:
        self.low_ = X.min(axis=0)
        spread = X.max(axis=0) - self.low_
        self.spread_ = np.where(spread > 0, spread, np.float32(1))
        self.attribute_mean_ = attributes.mean(axis=0)
        self.descriptions_ = attributes

    def _width(self) -> int:
        return len(self.low_)

    def _features(self, X: Array) -> Array:
        return (X - self.low_) / self.spread_

    def _signatures(self, attributes: Array) -> Array:
        return super()._signatures(attributes) * _LENGTH

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        self.rows_, self.codes_ = X, codes
        return X, codes

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        weights = self._networks(n_features, n_attributes, generator)
        means = {f"mean {name}": tensor.clone() for name, tensor in weights.items() if name.startswith("G.")}
        return weights | means

    def _sides(self) -> dict[str, Side]:
        steps, rate = self._opponent()
        return {
            "opponent's loss": Side("D.", self._opponent_loss, rate, steps),
            "generator's loss": Side("G.", self._loss, self.learning_rate, 1),
        }

    def _renew(self, weights: Weights) -> None:
        with torch.no_grad():
            for name, mean in _means(weights).items():
                mean.lerp_(weights[name], _RENEWAL)


def _means(weights: dict[str, Any]) -> dict[str, Any]:
    """Return the running means of the generator's weights, by the names of the weights."""
    return {n.removeprefix("mean "): value for n, value in weights.items() if n.startswith("mean ")}


def fit_classifier(X: Array, codes: Codes, *, C: float = 0.3) -> tuple[Tensor, Tensor]:
    """Return weights and biases of the soft-max classifier `X W + b` of all classes in `codes`."""
    n_classes = int(codes.max()) + 1
    if n_classes == 1:
        return torch.zeros(X.shape[1], 1), torch.zeros(1)
    model = SoftmaxRegression(C=C).fit(X, codes)
    W, b = model.coef_.T, model.intercept_
    if n_classes == 2:  # scikit-learn has one column, of the second class
        W, b = np.pad(W, ((0, 0), (1, 0))), np.pad(b, (1, 0))
    return torch.from_numpy(W.copy()), torch.from_numpy(b.astype(np.float32))
