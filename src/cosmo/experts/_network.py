"""Experts trained by back-propagation: the training loop and its checkpoints.

PyTorch is imported when a network is trained or applied.
"""

from __future__ import annotations

import io
import logging
import math
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from cosmo._core import require
from cosmo._core.cache import fingerprint
from cosmo._core.files import write_atomic
from cosmo._core.validation import check_features
from cosmo.experts.base import COUNT, NOT_NEGATIVE, POSITIVE, Array, Codes, UnseenExpert

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.optim import Optimizer

logger = logging.getLogger(__name__)

Weights = dict[str, "Tensor"]


class _Torch:
    """PyTorch, imported at the first use of an attribute."""

    def __getattr__(self, name: str) -> Any:
        return getattr(require("torch"), name)


torch: Any = _Torch()
_CHUNK = 1 << 23  # hidden values in memory at once when predicting
_SECONDS = 10.0  # between checkpoints, and between messages of progress


class Side(NamedTuple):
    """Weights with a loss of their own."""

    prefix: str  # of their names
    loss: Callable[[Weights, Tensor, Tensor, Tensor, Generator], Tensor]  # as `NetworkExpert._loss`
    rate: float
    steps: int  # on different mini-batches, per step of the others


@dataclass(eq=False, repr=False)
class NetworkExpert(UnseenExpert):
    """Base class of networks that score samples against descriptions, trained by Adam on mini-batches.

    Subclasses define the initial weights, the loss of a mini-batch and the scores as functions of a dict of
    tensors; they are dataclasses whose fields are the parameters. Features are divided by their mean
    absolute value; the mean of the seen classes is subtracted from every description, and each is scaled to
    the length of a vector of ones.

    Parameters
    ----------
    epochs : int or None, default=None
        Passes over the samples. None stops early: training ends if the accuracy on held-out classes has not
        improved for `patience` of the values in `grid`, and the best state is used.
    hidden : int
        Hidden units.
    learning_rate : float
        Step size of Adam.
    weight_decay : float
        Adds `weight_decay · |w|² / 2` to the loss, for the weights that the method decays.
    batch_size : int
    seed : int, default=0
        Seed of initial weights, order of samples and dropout.
    checkpoints : path, optional
        Folder in which training stores its state. An interrupted training is resumed from there, with the
        result of an uninterrupted one; then the files are removed.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.
    """

    needs_torch: ClassVar[bool] = True
    slow: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (2, 4, 6, 8, 12, 16, 24, 32, 48, 64)}
    patience: ClassVar[int] = 3
    standardised: ClassVar[bool] = False  # each feature, rather than dividing all by their mean size
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)  # decay rates of Adam's moments
    epoch_steps: ClassVar[int | None] = None  # mini-batches in an epoch; None for one pass over the samples
    ranges: ClassVar[dict[str, str]] = {
        "epochs": COUNT,
        "hidden": COUNT,
        "batch_size": COUNT,
        "learning_rate": POSITIVE,
        "weight_decay": NOT_NEGATIVE,
    }

    epochs: int | None = None
    _: KW_ONLY
    hidden: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch_size: int = 128
    seed: int = 0
    checkpoints: str | Path | None = None
    temperature: float | None = None

    @abstractmethod
    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        """Return the weights before training."""

    @abstractmethod
    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        """Return the loss of a mini-batch; `codes` are rows of A (n_classes, n_attributes)."""

    @abstractmethod
    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        """Return scores of shape (n_samples, n_classes)."""

    def _decayed(self, weights: Weights) -> list[Tensor]:
        """Return the weights that decay."""
        return list(weights.values())

    def _sides(self) -> dict[str, Side]:
        """Return the parts that are trained in turn, by the names of their losses in messages."""
        return {"loss": Side("", self._loss, self.learning_rate, 1)}

    def _renew(self, weights: Weights) -> None:
        """Update weights that are not trained, after each step."""

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        """Return the rows and codes that mini-batches are drawn from."""
        return X, codes

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        stops = [decided["epochs"]]
        checkpoints = self._checkpoints_of(X, codes, attributes, stops)
        ((_, self.weights_),) = self._train(X, codes, attributes, stops, checkpoints)
        checkpoints.clear()

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        """Train once, and yield the state after each number of epochs in the grid."""
        if self.epochs is not None:
            yield from super()._candidates(X, codes, table)
            return
        trainer, attributes, stops = self._with(table.columns), table.to_numpy(), sorted(self.grid["epochs"])
        checkpoints = trainer._checkpoints_of(X, codes, attributes, stops)
        best, since = -1.0, 0
        for epoch, weights in trainer._train(X, codes, attributes, stops, checkpoints):
            candidate = self._with(table.columns, epochs=epoch)
            learned = {name: value for name, value in vars(trainer).items() if name.endswith("_")}
            candidate.__dict__.update({**learned, "decided_": candidate.decided_, "weights_": weights})
            yield candidate
            accuracy = getattr(candidate, "accuracy_", math.inf)
            best, since = (accuracy, 0) if accuracy > best else (best, since + 1)
            if since == self.patience or best == 1:
                break
        checkpoints.clear()

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the network's scores, shape (n_samples, n_classes)."""
        X = check_features(X, name="X", columns=self._width())
        A = torch.from_numpy(self._signatures(self.attributes(descriptions)))
        weights = {name: torch.from_numpy(value) for name, value in self.weights_.items()}
        step = max(1, _CHUNK // (len(A) * self.hidden))
        return self._in_chunks(X, step, lambda rows: self._score(weights, rows, A))

    def _in_chunks(self, X: Array, step: int, function: Callable[[Tensor], Tensor]) -> Array:
        """Return a function of the scaled features, computed for `step` rows at once."""
        with torch.inference_mode():
            starts = range(0, max(len(X), 1), step)
            chunks = (torch.from_numpy(self._features(X[start : start + step])) for start in starts)
            result: Array = np.concatenate([function(chunk).numpy() for chunk in chunks])
        return result

    def _learn_scales(self, X: Array, attributes: Array) -> None:
        self.mean_: Array | np.float32 = np.float32(0)
        self.scale_: Array | np.float32
        if self.standardised:
            mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
            spread[spread <= 1e-6 * np.abs(mean)] = 1  # a constant feature, up to rounding
            self.mean_, self.scale_ = mean.astype(np.float32), spread.astype(np.float32)
        else:
            self.scale_ = np.float32(np.mean([np.abs(row).mean(dtype=np.float64) for row in X]) or 1)
        self.attribute_mean_ = attributes.mean(axis=0)

    def _width(self) -> int:
        """Return the number of features of the training."""
        return np.size(self.mean_)

    def _features(self, X: Array) -> Array:
        return (X - self.mean_) / self.scale_

    def _signatures(self, attributes: Array) -> Array:
        centred = attributes - self.attribute_mean_
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        return centred * np.float32(np.sqrt(centred.shape[1])) / np.where(length > 0, length, 1)

    def _checkpoints_of(self, X: Array, codes: Codes, attributes: Array, stops: Sequence[int]) -> Checkpoints:
        """Return the checkpoints of a training, whatever its number of epochs."""
        if self.checkpoints is None:
            return Checkpoints(None, "", stops)
        training = clone(self).set_params(epochs=None, **({} if self.native else {"temperature": None}))
        key = fingerprint(training, X, codes, attributes, self.others_)
        return Checkpoints(self.checkpoints, key, stops)

    def _train(
        self, X: Array, codes: Codes, attributes: Array, stops: Sequence[int], checkpoints: Checkpoints
    ) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield the number of epochs done and the weights, at each of `stops`."""
        self._learn_scales(X, attributes)
        rows, labels = (torch.from_numpy(part) for part in self._examples(self._features(X), codes))
        A = torch.from_numpy(self._signatures(attributes))
        weights = self._start(X.shape[1], A.shape[1], torch.Generator().manual_seed(self.seed))
        for tensor in weights.values():
            tensor.requires_grad_()
        optimisers = {name: self._optimiser(side, weights) for name, side in self._sides().items()}
        done, logged = 0, time.monotonic()
        for stop in stops:
            stored = checkpoints.last(done, stop)
            if stored is not None:
                done, state = stored
                for name, optimiser in optimisers.items():
                    optimiser.load_state_dict(state[name])
                with torch.no_grad():
                    for name, tensor in weights.items():
                        tensor.copy_(state["weights"][name])
            while done < stop:
                # Seeded by its number, so that an epoch is the same after an interruption.
                generator = torch.Generator().manual_seed(self.seed * 1_000_003 + done + 1)
                losses = self._epoch(done, rows, labels, A, weights, optimisers, generator)
                done += 1
                checkpoints.save(done, lambda: _state(weights, optimisers))
                if done == stop or time.monotonic() - logged > _SECONDS:
                    shown = ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())
                    logger.info("%s: %d epochs, %s", type(self).__name__, done, shown)
                    logged = time.monotonic()
            yield done, {name: tensor.detach().numpy().copy() for name, tensor in weights.items()}

    def _optimiser(self, side: Side, weights: Weights) -> Optimizer:
        moved = [tensor for name, tensor in weights.items() if name.startswith(side.prefix)]
        return torch.optim.Adam(moved, lr=side.rate, betas=self.betas, fused=True)

    def _epoch(
        self,
        done: int,
        X: Tensor,
        codes: Tensor,
        A: Tensor,
        weights: Weights,
        optimisers: dict[str, Optimizer],
        generator: Generator,
    ) -> dict[str, float]:
        """Train on samples in random order; return the mean losses."""
        sides, n_batches = self._sides(), math.ceil(len(X) / self.batch_size)
        n_steps = self.epoch_steps or n_batches
        history: dict[str, list[float]] = {name: [] for name in sides}

        def order() -> list[Tensor]:
            passes = (torch.randperm(len(X), generator=generator) for _ in range(-(-n_steps // n_batches)))
            return [batch for rows in passes for batch in rows.split(self.batch_size)][:n_steps]

        orders = [order() for _ in range(max(side.steps for side in sides.values()))]
        for batches in zip(*orders, strict=True):
            for name, side in sides.items():
                optimiser = optimisers[name]
                for batch in batches[-side.steps :]:
                    optimiser.zero_grad()
                    loss = side.loss(weights, X[batch], codes[batch], A, generator)
                    history[name].append(float(loss.detach()))
                    if self.weight_decay:
                        decay = sum(tensor.square().sum() for tensor in self._decayed(weights))
                        loss = loss + self.weight_decay / 2 * decay
                    # Gradients of the other side are not needed.
                    loss.backward(inputs=optimiser.param_groups[0]["params"])  # type: ignore[no-untyped-call]
                    optimiser.step()
            self._renew(weights)
        return {name: float(np.mean(values)) for name, values in history.items()}


def _state(weights: Weights, optimisers: dict[str, Optimizer]) -> dict[str, Any]:
    return {"weights": weights, **{name: one.state_dict() for name, one in optimisers.items()}}


def layer(n_in: int, n_out: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return initial weights (n_in, n_out) that keep the variance through a ReLU, and zero biases."""
    return torch.randn(n_in, n_out, generator=generator) * math.sqrt(2 / n_in), torch.zeros(n_out)


def normalise_rows(rows: Tensor) -> Tensor:
    """Return rows scaled to unit length; rows of zeros are unchanged."""
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)


class Checkpoints:
    """States of one training on disk, at `stops` and the last one; without a folder nothing is stored."""

    def __init__(self, folder: str | Path | None, key: str, stops: Collection[int]) -> None:
        self.folder = None if folder is None else Path(folder)
        self.key = key
        self.stops = stops
        self.saved_at = time.monotonic()
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, epoch: int, state: Any) -> None:
        """Store `state()` at stops, else if the last one is older than ten seconds."""
        if self.folder is None or (epoch not in self.stops and time.monotonic() - self.saved_at < _SECONDS):
            return
        content = io.BytesIO()
        torch.save(state(), content)
        write_atomic(self._path(epoch), content.getvalue())
        self.saved_at = time.monotonic()
        for older in self._epochs():
            if older < epoch and older not in self.stops:
                self._path(older).unlink(missing_ok=True)

    def last(self, done: int, limit: int) -> tuple[int, dict[str, Any]] | None:
        """Return the epoch and state of the newest of more than `done` and at most `limit` epochs."""
        for epoch in sorted(self._epochs(), reverse=True):
            if not done < epoch <= limit:
                continue
            path = self._path(epoch)
            try:
                state = torch.load(path, weights_only=True)
            except Exception as error:  # torch raises many types for damaged files
                logger.warning("%s cannot be read (%s); training resumes from an earlier state", path, error)
                continue
            logger.info("resuming from epoch %d of an interrupted training", epoch)
            return epoch, state
        return None

    def clear(self) -> None:
        """Remove the files."""
        for epoch in self._epochs():
            self._path(epoch).unlink(missing_ok=True)

    def _epochs(self) -> list[int]:
        if self.folder is None:
            return []
        names = (path.name for path in self.folder.glob(f"training-{self.key}-*.pt"))
        found = (re.fullmatch(rf"training-{self.key}-(\d+)\.pt", name) for name in names)
        return [int(match[1]) for match in found if match]

    def _path(self, epoch: int) -> Path:
        assert self.folder is not None
        return self.folder / f"training-{self.key}-{epoch}.pt"
