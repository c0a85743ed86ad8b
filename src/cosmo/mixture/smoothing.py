"""Probabilities of experts, their smoothing, and the law of total probability.

Scores of an expert become probabilities by a soft-max over all classes with one temperature, fitted by
maximum likelihood on held-out rows. The seen expert gives `p(y|S)` over the seen classes. The unseen expert
gives `p(y,U)` over the unseen classes, a part of a joint distribution. A gate gives `u = p(U)`. The paper
combines them as

    p(y) = p'(y|S)·(1-u) + p'(y|U)·u

where `p'` is an expert after smoothing towards the uniform distribution of its classes:

===========  =============================  =============================
smoothing    seen class                     unseen class
===========  =============================  =============================
"none"       `p(y|S)`                       `p(y,U) / p(U)`
"constant"   `(1-λ)·p(y|S) + λ/n_S`         `(1-λ)·p(y,U)/p(U) + λ/n_U`
"adaptive"   `p(y,S) + u/n_S`               `p(y,U) + (1-u)/n_U`
===========  =============================  =============================

Adaptive smoothing uses the *joint* output of each expert, which is small where the sample is unlikely to
belong to its classes. Smoothing adds the same amount to all classes of an expert: the ranking within an
expert is unchanged; only its weight changes.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax

from cosmo._core.validation import as_number

_FLOOR = 1e-12  # the paper's code adds this to a probability before taking its logarithm
_SHORT = 4096  # `einsum` sums shorter rows faster than `sum`


def soften(scores: NDArray[Any], temperature: float) -> NDArray[Any]:
    """Return `softmax(scores / temperature)` over the last axis, in the dtype of `scores`.

    Examples
    --------
    >>> soften(np.array([[0.0, np.log(3.0)]]), 1.0).round(2)
    array([[0.25, 0.75]])
    """
    _check(temperature)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    proba = scores - scores.max(axis=-1, keepdims=True)
    proba /= scores.dtype.type(temperature)
    np.exp(proba, out=proba)
    proba /= row_sums(proba)
    return proba


def top_k(proba: NDArray[Any], k: int, temperature: float = 1.0) -> NDArray[Any]:
    """Return the `k` largest values of each row, largest first, with zeros where there are fewer.

    With a temperature these are of `softmax(log(proba) / temperature)`.

    Examples
    --------
    >>> top_k(np.array([[0.1, 0.6, 0.3]]), 2), top_k(np.array([[0.4]]), 2)
    (array([[0.6, 0.3]]), array([[0.4, 0. ]]))
    """
    _check(temperature)
    values = proba.copy() if temperature == 1 else _powers(proba, temperature)
    mass = 1 if temperature == 1 else row_sums(values)
    values.sort(axis=1)
    found = np.zeros((len(proba), k), dtype=proba.dtype)
    np.divide(values[:, : -k - 1 : -1], mass, out=found[:, : proba.shape[1]])
    return found


def _check(temperature: float) -> None:
    if not as_number(temperature, name="temperature") > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")


def _powers(proba: NDArray[Any], temperature: float) -> NDArray[Any]:
    """Return `p^(1/T)` up to a factor in each row."""
    powered = np.ascontiguousarray(proba) + proba.dtype.type(_FLOOR)
    if temperature == 3:  # The paper's temperature, in half the time.
        return np.cbrt(powered)
    np.log(powered, out=powered)
    powered -= powered.max(axis=1, keepdims=True)
    powered /= temperature
    return np.exp(powered)


def row_sums(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of each row."""
    if values.shape[-1] > _SHORT:
        return values.sum(axis=-1, keepdims=True)
    return np.einsum("...i->...", values)[..., None]


def fit_temperature(scores: NDArray[Any], target: NDArray[np.intp]) -> float:
    """Return the temperature with the largest likelihood of the true classes.

    Parameters
    ----------
    scores : array of shape (n_samples, n_classes)
    target : array of int, shape (n_samples,)
        Column of the true class.

    Examples
    --------
    >>> scores = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    >>> round(fit_temperature(scores, np.array([0, 1, 0, 1])), 2)  # right 3 times of 4
    1.82
    """
    scores = np.asarray(scores, dtype=np.float64)
    rows = np.arange(len(target))
    scale = float(scores.std()) or 1.0

    def loss(log_temperature: float) -> float:
        return -float(log_softmax(scores / np.exp(log_temperature), axis=1)[rows, target].mean())

    # Bounds relative to the spread of the scores, so that any unit of score can be fitted.
    centre = float(np.log(scale))
    found = minimize_scalar(loss, bounds=(centre - 12, centre + 6), options={"xatol": 1e-3})
    return float(np.exp(found.x))


Smoothing = Literal["none", "constant", "adaptive"]
SMOOTHINGS: tuple[str, ...] = get_args(Smoothing)


def check_smoothing(smoothing: str, prior_weight: float = 0.0) -> None:
    """Raise if there is no such smoothing or weight."""
    if smoothing not in SMOOTHINGS:
        raise ValueError(f"smoothing must be one of {', '.join(SMOOTHINGS)}; got {smoothing!r}")
    if not 0 <= prior_weight <= 1:
        raise ValueError(f"prior_weight must lie between 0 and 1, got {prior_weight}")


def conditional(proba: NDArray[Any]) -> NDArray[Any]:
    """Return rows divided by their sums; a row without any mass becomes uniform.

    Examples
    --------
    >>> conditional(np.array([[0.1, 0.3], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    mass = row_sums(proba)
    return np.divide(proba, mass, out=np.full_like(proba, 1 / proba.shape[1]), where=mass > 0)


def gate_belief(score: ArrayLike, threshold: float, softness: float) -> NDArray[np.float64]:
    """Return `p(U) = σ((β - g) / T)`: the belief that a sample is unseen.

    Parameters
    ----------
    score : array of shape (n_samples,)
        Gate score `g`, larger = looks more seen.
    threshold : float
        The paper's `β`.
    softness : float
        `T = 1/γ`, with `γ` the paper's gain. Must be positive.

    Examples
    --------
    >>> gate_belief([0.2, 0.5, 0.8], threshold=0.5, softness=0.1).round(2)
    array([0.95, 0.5 , 0.05])
    """
    if not softness > 0:
        raise ValueError(f"softness must be positive, got {softness}")
    return expit((threshold - np.asarray(score, dtype=np.float64)) / softness)


def smooth(
    proba: NDArray[Any], belief: NDArray[Any], smoothing: Smoothing, prior_weight: float = 0.0
) -> NDArray[Any]:
    """Return one expert's output smoothed towards the uniform distribution of its classes.

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes)
        The expert's joint output on its own classes.
    belief : array of shape (n_samples,)
        The gate's belief that the sample belongs to this expert (used by "adaptive").
    smoothing : {"none", "constant", "adaptive"}
    prior_weight : float in 0..1
        `λ` of constant smoothing.

    Examples
    --------
    >>> smooth(np.array([[0.6, 0.2]]), np.array([0.5]), "adaptive")
    array([[0.85, 0.45]])
    """
    check_smoothing(smoothing, prior_weight)
    if smoothing == "adaptive":
        return proba + ((1 - belief) / proba.shape[1])[:, None].astype(proba.dtype)
    share = conditional(proba)
    if smoothing == "constant":
        share *= 1 - prior_weight
        share += prior_weight / proba.shape[1]
    return share


def total_probability(seen: NDArray[Any], unseen: NDArray[Any], p_unseen: NDArray[Any]) -> NDArray[Any]:
    """Return `[p(y|S)·(1-u) | p(y|U)·u]`, seen classes first.

    Examples
    --------
    >>> total_probability(np.array([[0.5, 0.5]]), np.array([[1.0]]), np.array([0.2]))
    array([[0.4, 0.4, 0.2]])
    """
    u = p_unseen[:, None]
    return np.concatenate([seen * (1 - u).astype(seen.dtype), unseen * u.astype(unseen.dtype)], axis=1)


def combine(
    seen: NDArray[Any],
    unseen: NDArray[Any],
    p_unseen: NDArray[Any],
    *,
    smoothing: Smoothing = "adaptive",
    prior_weight: float = 0.0,
    dtype: Any = None,
) -> NDArray[Any]:
    """Return the paper's score of every class, seen classes first; rows need not sum to one.

    Parameters
    ----------
    seen : array of shape (n_samples, n_seen)
        `p(y|S)`; rows sum to one.
    unseen : array of shape (n_samples, n_unseen)
        `p(y,U)`, not normalised.
    p_unseen : array of shape (n_samples,)
        The gate's `p(U)`.
    dtype : floating dtype, optional
        Precision of the scores; by default that of the experts.

    Examples
    --------
    >>> combine(np.array([[0.9, 0.1]]), np.array([[0.2]]), np.array([0.5]), smoothing="none")
    array([[0.45, 0.05, 0.5 ]])
    """
    kind = dtype or np.result_type(seen, unseen)
    own = smooth(seen.astype(kind, copy=False), 1 - p_unseen, smoothing, prior_weight)
    other = smooth(unseen.astype(kind, copy=False), p_unseen, smoothing, prior_weight)
    return total_probability(own, other, p_unseen)


def tie_log_odds(
    best_seen: NDArray[Any],
    best_unseen: NDArray[Any],
    n_seen: int,
    n_unseen: int,
    *,
    smoothing: Smoothing = "adaptive",
    prior_weight: float = 0.0,
) -> NDArray[np.float64]:
    """Return `log(u/(1-u))` of the gate belief at which the two experts' best classes tie.

    Below it the sample is given to the seen expert, above it to the unseen expert, and there is no
    second change: the difference of the two best scores is at most quadratic in `u` and has opposite
    signs at 0 and 1. Infinite where one expert can never win.

    Parameters
    ----------
    best_seen, best_unseen : array of shape (n_samples,)
        Largest probability of each expert: joint for "adaptive", conditional otherwise.
    n_seen, n_unseen : int
        Number of classes of each expert.

    Examples
    --------
    >>> tie_log_odds(np.array([0.5]), np.array([0.5]), 10, 10)
    array([0.])
    """
    check_smoothing(smoothing, prior_weight)
    s = np.asarray(best_seen, dtype=np.float64)
    z = np.asarray(best_unseen, dtype=np.float64)
    if smoothing == "adaptive":
        # With the odds r = u/(1-u), `(s + u/n_S)·(1-u) = (z + (1-u)/n_U)·u` is `z·r² + a·r - s = 0`.
        a = z - s + (1 / n_unseen - 1 / n_seen)
        root = np.sqrt(a * a + 4 * s * z)
        # Each branch adds terms of equal sign, so nothing cancels.
        falls = a < 0
        s, z = np.where(falls, root - a, 2 * s), np.where(falls, 2 * z, root + a)
    elif smoothing == "constant":
        s = (1 - prior_weight) * s + prior_weight / n_seen
        z = (1 - prior_weight) * z + prior_weight / n_unseen
    with np.errstate(divide="ignore"):
        log_odds: NDArray[np.float64] = np.log(s) - np.log(z)
    return log_odds
