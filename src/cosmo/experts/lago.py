"""LAGO: attribute detectors combined by a soft OR within groups and a soft AND between groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import count
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cosmo._core.validation import check_features
from cosmo.experts import _and_or as and_or
from cosmo.experts._and_or import Gates, Loss, Weights
from cosmo.experts._linear import Adam
from cosmo.experts.base import COUNT, NOT_NEGATIVE, POSITIVE, Array, Codes, UnseenExpert

logger = logging.getLogger(__name__)

Variant = Literal["singletons", "semantic-hard", "semantic-soft", "k-soft"]
_CHUNK = 1 << 22  # values of G in memory at once when predicting
_PATIENCE = 3  # values of `epochs` without improvement after which training stops
_GROUPING_BATCH = 8  # factor by which batches for Γ, which has few weights, are larger


# Step, epochs, β, λ; then ψ, ζ, number of groups and step of Γ where it is trained.
_PUBLISHED: dict[str, tuple[Any, ...]] = {
    "CUB singletons": (1e-4, 58, 0, 1e-7),
    "CUB semantic-hard": (1e-4, 55, 1e-6, 1e-4),
    "CUB semantic-soft": (3e-5, 100, 1e-3, 1e-4, 1e-4, 3, None, 0.1),
    "CUB k-soft": (3e-5, 160, 1e-5, 1e-5, None, 1, 30, 1),
    "AWA2 singletons": (3e-6, 38, 1e-5, 1e-5),
    "AWA2 semantic-hard": (3e-6, 55, 0, 1e-5),
    "AWA2 semantic-soft": (3e-6, 63, 1e-3, 1e-3, 1e-4, 1, None, 0.1),
    "AWA2 k-soft": (3e-6, 90, 1e-4, 1e-6, None, 3, 30, 0.01),
    "SUN singletons": (3e-5, 124, 1e-8, 1e-8),
    "SUN semantic-hard": (3e-5, 159, 1e-3, 1e-4),
    "SUN semantic-soft": (1e-4, 130, 1e-4, 1e-4, 0, 3, None, 1),
    # Published with additional supervision of the attributes, which this class lacks.
    "SUN k-soft": (1e-4, 39, 1e-4, 0, None, 10, 40, 0.1),
}


def _preset(name: str, values: tuple[Any, ...]) -> dict[str, Any]:
    """Return parameters from published values, which are for raw ResNet features.

    There a step of size 1 on every weight changes a logit by the sum of the features, 2048 of mean absolute
    value about 0.4. Whitening halves the length of a typical axis: penalties count a quarter.
    """
    scales = {"learning_rate": 2048 * 0.4, "epochs": 1, "weight_decay": 0.25, "class_decay": 0.25}
    scales |= dict.fromkeys(("group_prior", "gain", "n_groups", "group_learning_rate"), 1)
    pairs = zip(scales.items(), values, strict=False)
    scaled = {key: value * scale for (key, scale), value in pairs if value is not None}
    return {"variant": name.split()[1], **scaled}


@dataclass(eq=False, repr=False)
class LAGO(UnseenExpert):
    """Soft OR over the attributes of a group, soft AND over groups.

    An attribute is detected with probability `q_m(x) = σ(w_m·x + b_m)`. A class z has it with
    probability `u_zm`, its description. With Γ_mk the probability that attribute m belongs to group k,

    * a group fits by a soft OR over its attributes, or "none of them":
      `G_zk(x) = Σ_m Γ_mk (u_zm/π_m) q_m(x) + Π_m (1 - u_zm Γ_mk) / Π_m (1 - π_m Γ_mk)`;
    * a class fits by a soft AND over groups: `p(z|x) ∝ Π_k G_zk(x)`.

    The priors π_m are the mean of the descriptions over the classes of the table and all attributes (the
    reference's "uniform" prior), so the score of a class depends on the others in the table. The detectors
    are trained end to end on the cross-entropy over the seen classes.

    Loss, optimiser (Adam) and the alternation of detectors and Γ are the reference's. Three changes make
    training shorter, and more accurate on held-out classes of CUB: features are projected to their leading
    principal axes and partly whitened; biases start where no class is preferred; detectors are averaged over
    the steps. Groups are the distinct names in the first level of the description columns.

    Parameters
    ----------
    variant : {"semantic-soft", "semantic-hard", "singletons", "k-soft"}, default="semantic-soft"
        "singletons": every attribute is a group. "semantic-hard": the groups of the columns.
        "semantic-soft": Γ starts at these groups and is trained. "k-soft": `n_groups` groups are learned;
        the columns need no groups. In the semantic variants the attributes of a group exclude each other:
        values of a class within a group that sum to more than 1 are divided by the sum.
    epochs : int or None, default=None
        Passes over the samples; if Γ is trained, pairs of a pass for the detectors and one for Γ. None stops
        early on held-out classes.
    n_groups : int, default=30
        Number of groups of "k-soft".
    n_components : int, default=512
        Largest number of principal axes of the features.
    learning_rate : float, default=0.5
        Step of Adam, as the largest change of an attribute's logit at an average sample: independent of the
        number and scale of features.
    group_learning_rate : float, default=0.01
        Step of Adam on the logits of Γ.
    weight_decay : float, default=0.0
        β: adds `β(|W|² + |b|²)` to the loss, W for the whitened features.
    class_decay : float, default=2e-4
        λ: adds `λ|W Uᵀ|²`, U the descriptions of the seen classes.
    group_prior : float, default=1e-2
        ψ: adds `ψ|Γ - Γ_semantic|²` ("semantic-soft").
    gain : float, default=5.0
        ζ: Γ is the soft-max of ζ times its logits, which start at 1 inside the semantic group and 0
        outside, or close to 0 for "k-soft".
    batch_size : int, default=64
    seed : int, default=0
        Seed of initial weights and order of samples.

    Notes
    -----
    Descriptions must be probabilities, 0 to 1. A table whose largest value is between 10 and 100 is taken as
    percentages. A class described by zeros acts as a background class: "none of them" fits it in every group.

    References
    ----------
    Atzmon & Chechik, "Probabilistic AND-OR attribute grouping for zero-shot learning", UAI 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> columns = pd.MultiIndex.from_product([["shape", "colour"], range(2)])
    >>> rows = [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]]
    >>> table = pd.DataFrame(rows, index=list("abcd"), columns=columns)
    >>> y = np.repeat(list("abc"), 20)
    >>> X = table.loc[y].to_numpy() + 0.1 * rng.normal(size=(60, 4))
    >>> expert = LAGO("semantic-hard", epochs=50).fit(X, y, table)
    >>> table.index[expert.scores([[0.0, 1.0, 0.0, 1.0]], table).argmax()]
    'd'
    """

    reference: ClassVar[str] = "Atzmon & Chechik, UAI 2018"
    needs: ClassVar[str] = "attributes with the probability that a class has each, in groups"
    native: ClassVar[bool] = True
    as_recorded: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 30, 40)}
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        name: _preset(name, values) for name, values in _PUBLISHED.items()
    }
    ranges: ClassVar[dict[str, str]] = {
        **dict.fromkeys(["epochs", "n_groups", "n_components", "batch_size"], COUNT),
        **dict.fromkeys(["learning_rate", "group_learning_rate", "gain"], POSITIVE),
        **dict.fromkeys(["weight_decay", "class_decay", "group_prior"], NOT_NEGATIVE),
    }

    variant: Variant = "semantic-soft"
    _: KW_ONLY
    epochs: int | None = None
    n_groups: int = 30
    n_components: int = 512
    learning_rate: float = 0.5
    group_learning_rate: float = 0.01
    weight_decay: float = 0.0
    class_decay: float = 2e-4
    group_prior: float = 1e-2
    gain: float = 5.0
    batch_size: int = 64
    seed: int = 0

    def check_suitable(self, table: pd.DataFrame) -> None:
        """Raise `ValueError` unless the table has probabilities and the variant its groups."""
        if self.variant not in get_args(Variant):
            raise ValueError(f"unknown variant {self.variant!r}; choose from {', '.join(get_args(Variant))}")
        values = table.to_numpy()
        # No table of percentages stays below 10, but embeddings do.
        if values.min() < 0 or 1 < values.max() <= 10 or values.max() > 100:
            raise ValueError(
                "LAGO reads descriptions as the probability that a class has an attribute: values must be "
                f"in 0..1 (or percentages in 0..100), got {values.min():g} to {values.max():g}; use another "
                "expert for embeddings of text"
            )
        one_hot = np.count_nonzero(values, axis=1) <= 1
        if not one_hot.any() and np.allclose(np.linalg.norm(values, axis=1), 1, atol=1e-3):
            raise ValueError(
                "LAGO reads descriptions as the probability that a class has an attribute, but every row "
                "is scaled to unit length; use the original table (`original=True` in read_xlsa17, "
                "`--original` in cosmo run)"
            )
        if self.variant.startswith("semantic") and table.columns.nlevels < 2:
            raise ValueError(
                f"LAGO's variant {self.variant!r} needs groups of attributes, but the columns of the "
                "descriptions have one level only; name the groups in a first column level, or use the "
                "variant 'k-soft' or 'singletons'"
            )

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        for epoch, weights in self._train(X, codes, attributes):
            if epoch == decided["epochs"]:
                self.weights_ = weights()
                return

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        trainer, stops = self._with(table.columns), self._values("epochs")
        best, stale = -1.0, 0
        for epoch, weights in trainer._train(X, codes, table.to_numpy()):
            if epoch in stops:
                candidate = self._with(table.columns, epochs=epoch)
                candidate.percent_, candidate.weights_ = trainer.percent_, weights()
                yield candidate
                if hasattr(candidate, "accuracy_"):
                    stale = 0 if candidate.accuracy_ > best else stale + 1
                    best = max(best, candidate.accuracy_)
            if stale == _PATIENCE or epoch >= max(stops):
                return

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return log-probabilities over the classes of the table, shape (n_samples, n_classes)."""
        X = check_features(X, name="X", columns=len(self.weights_.W))
        u = self._probabilities_of(self.attributes(descriptions))
        gates = self._gates(u, self.weights_)
        result = np.empty((len(X), len(u)), dtype=np.float32)
        step = max(1, _CHUNK // gates.constant.size)
        for start in range(0, len(X), step):
            Q = self.weights_.detect(X[start : start + step])
            result[start : start + step] = and_or.log_probabilities(gates(Q))
        return result

    def _probabilities_of(self, attributes: Array) -> Array:
        """Return `u`, shape (n_classes, n_attributes), from a description table."""
        u = attributes / np.float32(100 if self.percent_ else 1)
        if u.min() < 0 or u.max() > 1:
            raise ValueError(
                f"descriptions must be in 0..{100 if self.percent_ else 1}, as those of the training; got "
                f"{attributes.min():g} to {attributes.max():g}"
            )
        if self.variant.startswith("semantic"):
            for columns in self._semantic_groups():
                total = u[:, columns].sum(axis=1, keepdims=True)
                u[:, columns] /= np.maximum(total, 1)
        return u

    def _semantic_gamma(self) -> Array:
        """Return Γ of the groups in the columns, in order of first appearance."""
        names = pd.factorize(self.columns_.get_level_values(0))[0]
        return np.eye(names.max() + 1, dtype=np.float32)[names]

    def _semantic_groups(self) -> list[NDArray[np.intp]]:
        """Return the columns of each group."""
        return [np.flatnonzero(member) for member in self._semantic_gamma().T]

    def _gates(self, u: NDArray[Any], weights: Weights) -> Gates:
        if weights.V is not None:
            return and_or.soft_gates(u, and_or.group_membership(weights.V, self.gain))
        if self.variant == "singletons":
            return and_or.hard_gates(u, list(np.arange(len(self.columns_))[:, None]))
        return and_or.hard_gates(u, self._semantic_groups())

    def _start(self, n_features: int, rng: np.random.Generator) -> Weights:
        """Return orthogonal detectors, and the logits of Γ if it is trained."""
        n_attributes = len(self.columns_)
        tall = rng.normal(size=sorted((n_features, n_attributes), reverse=True))
        W = 0.1 * np.linalg.qr(tall)[0]
        V = self._semantic_gamma() if self.variant == "semantic-soft" else None
        if self.variant == "k-soft":
            uniform = rng.random((n_attributes, self.n_groups))
            V = (1e-3 * (uniform - uniform.mean())).astype(np.float32)
        W = W if n_features >= n_attributes else W.T
        return Weights(np.ascontiguousarray(W, dtype=np.float32), np.zeros(n_attributes, np.float32), V)

    def _train(
        self, X: Array, codes: Codes, attributes: Array
    ) -> Iterator[tuple[int, Callable[[], Weights]]]:
        """Train without end; after each epoch yield its number and a function that returns the weights."""
        self.percent_ = bool(attributes.max() > 1)
        u = self._probabilities_of(attributes)
        target = self._semantic_gamma() if self.variant == "semantic-soft" else None
        loss = Loss(u, self.weight_decay, self.class_decay, self.gain, self.group_prior, target)
        mean, axes = and_or.principal_axes(X, self.n_components)
        Z = (X - mean) @ axes
        rng = np.random.default_rng(self.seed)
        weights = self._start(Z.shape[1], rng)
        weights.b[:] = and_or.neutral_bias(u, self._gates(u, weights))
        average = and_or.Average(weights)
        step = self.learning_rate / (float(np.abs(Z).sum(axis=1).mean()) or 1)
        detectors = [Adam(weights.W, step), Adam(weights.b, step)]
        grouping = [] if weights.V is None else [Adam(weights.V, self.group_learning_rate)]
        for epoch in count(1):
            total, gates = 0.0, self._gates(u, weights)
            for rows in _batches(len(Z), self.batch_size, rng):
                value, *gradients = loss.detectors(Z[rows], codes[rows], gates, weights)
                total += value * len(rows)
                for adam, gradient in zip(detectors, gradients, strict=True):
                    adam.update(gradient)
                average.update()
            for adam in grouping:
                for rows in _batches(len(Z), _GROUPING_BATCH * self.batch_size, rng):
                    adam.update(loss.grouping(weights.detect(Z[rows]), codes[rows], adam.weights)[1])
            if epoch % 10 == 0:
                logger.info("LAGO %s: epoch %d, mean log-loss %.4f", self.variant, epoch, total / len(X))
            yield epoch, lambda: average.weights().project_back(mean, axes)


def _batches(n: int, size: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Return mini-batches of row numbers in random order."""
    order = rng.permutation(n)
    return [order[start : start + size] for start in range(0, n, size)]
