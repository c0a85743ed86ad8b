"""Kernel: one matrix between features and descriptions, learned by the alignment of kernels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cosmo._core.validation import check_features
from cosmo.experts._linear import Adam, GradientExpert, Step
from cosmo.experts.base import COUNT, NOT_NEGATIVE, POSITIVE, Array, Codes

KERNELS = ("gaussian", "cauchy", "linear")


@dataclass(eq=False, repr=False)
class Kernel(GradientExpert):
    """Score `-(k1 - 1)² - (k2 - 1)²`: the misalignment of sample and class in both spaces.

    `k1` compares Wᵀx with a_y, among descriptions, and `k2` compares W a_y with x, among features. For
    samples of the n seen classes W minimises
    ::

        (k1_y - 1)² + (k2_y - 1)²  +  β / (n - 1) Σ_{c≠y} (k1_c² + k2_c²)

    so that a sample is aligned with its own class and incoherent with the others. With d the distance of
    the two vectors, the kernels are:

    ============  =================  =================================================================
    ``gaussian``  exp(-d² / (2σ²))   the one in the authors' code
    ``cauchy``    1 / (1 + d² / σ²)  heavier tails: distant classes keep a gradient
    ``linear``    xᵀ W a_y           without σ; k1 = k2, so this is least squares; needs a larger β
    ============  =================  =================================================================

    On held-out classes of CUB the first two are equally good, and the last (β = 10) is 5 points worse.
    Steps are on mini-batches of 128 rows, not single ones, by Adam with one second moment per feature, which
    makes it invariant to rotations of the descriptions.

    Parameters
    ----------
    sigma : float or None, default=None
        Width of the kernel, in units of the length of features and descriptions. None chooses on
        held-out classes.
    epochs : int or None, default=None
        Passes over the samples. None stops early on held-out classes.
    kernel : {"gaussian", "cauchy", "linear"}, default="gaussian"
    beta : float, default=1.0
        Weight of incoherence.
    learning_rate : float, default=4e-3
        Step size of Adam.
    seed : int, default=0
        Seed of the order of samples.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.

    References
    ----------
    Zhang & Koniusz, "Zero-shot kernel learning", CVPR 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> Kernel(sigma=0.8, epochs=5, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Zhang & Koniusz, CVPR 2018"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "sigma": (0.5, 0.65, 0.8, 1.0),
        "epochs": (1, 2, 5, 10, 20, 40),
    }
    batch_size: ClassVar[int] = 128
    searched: ClassVar[str] = "sigma"
    patience: ClassVar[float] = 2
    # Learning rate and number of steps of the authors' code are for RMSprop on single rows.
    presets: ClassVar[dict[str, dict[str, Any]]] = {"AWA2": {"kernel": "gaussian", "sigma": 0.8, "beta": 1.0}}
    ranges: ClassVar[dict[str, str]] = {
        "sigma": POSITIVE,
        "epochs": COUNT,
        "learning_rate": POSITIVE,
        "beta": NOT_NEGATIVE,
    }

    sigma: float | None = None
    epochs: int | None = None
    _: KW_ONLY
    kernel: str = "gaussian"
    beta: float = 1.0
    learning_rate: float = 4e-3
    seed: int = 0
    temperature: float | None = None

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return `-(k1 - 1)² - (k2 - 1)²`, shape (n_samples, n_classes)."""
        A = self.directions_.signatures(self.attributes(descriptions))
        Z = self.directions_.features(check_features(X, name="X", columns=len(self.directions_.mean)))
        match = Z @ (self.weights_ @ A.T)
        if self.kernel == "linear":
            return -2 * (match - 1) ** 2
        squared = _squared_distances(match, Z, A, Z @ self.weights_, A @ self.weights_.T)
        k1, k2 = (_radial(each, self.kernel, self.decided_["sigma"])[0] for each in squared)
        return -((k1 - 1) ** 2) - (k2 - 1) ** 2

    def _values(self, name: str) -> tuple[Any, ...]:
        linear = name == "sigma" and self.sigma is None and self.kernel == "linear"
        return (1.0,) if linear else super()._values(name)

    def _descent(self, W: Array, A: Array, value: float) -> Step:
        adam = Adam(W, self.learning_rate, by_row=True)

        def step(X: Array, codes: Codes) -> float:
            loss, gradient = kernel_loss(W, X, codes, A, kernel=self.kernel, sigma=value, beta=self.beta)
            adam.update(gradient)
            return loss

        return step

    def check_parameters(self) -> None:
        """Raise `ValueError` if a parameter is out of range, or the kernel unknown."""
        super().check_parameters()
        if self.kernel not in KERNELS:
            raise ValueError(f"unknown kernel {self.kernel!r}; choose from {', '.join(KERNELS)}")


def kernel_loss(
    W: NDArray[Any], X: NDArray[Any], codes: Codes, A: NDArray[Any], *, kernel: str, sigma: float, beta: float
) -> tuple[float, NDArray[Any]]:
    """Return the mean loss of the samples, see `Kernel`, and its gradient by W."""
    projected, synthesised = X @ W, A @ W.T
    match = projected @ A.T
    if kernel == "linear":
        loss, pull = _misfit(match, codes, beta)
        return 2 * loss, X.T @ ((2 * pull) @ A)
    squared = _squared_distances(match, X, A, projected, synthesised)
    (k1, slope1), (k2, slope2) = (_radial(each, kernel, sigma) for each in squared)
    (loss1, pull1), (loss2, pull2) = (_misfit(k, codes, beta) for k in (k1, k2))
    # Derivatives by the squared distances.
    pull1 *= slope1
    pull2 *= slope2
    gradient = X.T @ (2 * (pull1.sum(axis=1, keepdims=True) * projected - (pull1 + pull2) @ A))
    gradient += W @ ((2 * A.T * pull2.sum(axis=0)) @ A)
    return loss1 + loss2, gradient


def _misfit(k: NDArray[Any], codes: Codes, beta: float) -> tuple[float, NDArray[Any]]:
    """Return the mean of `(k_y - 1)² + β / (n - 1) Σ_{c≠y} k_c²`, and its derivative by each k."""
    rows = np.arange(len(k))
    weight = k.dtype.type(beta / (k.shape[1] - 1))
    pull = weight * k
    own = k[rows, codes] - 1
    pull[rows, codes] = own
    loss = np.vdot(pull, k) - np.vdot(own, k[rows, codes]) + np.vdot(own, own)
    pull *= k.dtype.type(2 / len(k))
    return float(loss) / len(k), pull


def _squared_distances(
    match: NDArray[Any], X: NDArray[Any], A: NDArray[Any], projected: NDArray[Any], synthesised: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return `|Wᵀx - a|²` and `|W a - x|²`, shape (n_samples, n_classes) each; `match` is `xᵀ W a`."""
    x, a, wx, wa = (np.einsum("ij,ij->i", rows, rows) for rows in (X, A, projected, synthesised))
    # Rounding may leave a distance slightly below zero.
    return (np.maximum(wx[:, None] + a - 2 * match, 0), np.maximum(x[:, None] + wa - 2 * match, 0))


def _radial(squared: NDArray[Any], kernel: str, sigma: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return k and its derivative by the squared distance."""
    scale = squared.dtype.type(sigma**-2)
    if kernel == "gaussian":
        k = np.exp(squared * (-scale / 2))
        return k, k * (-scale / 2)
    k = 1 / (1 + squared * scale)
    return k, k * k * -scale
