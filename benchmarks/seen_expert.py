"""The seen expert: `SoftmaxRegression` against scikit-learn's `LogisticRegression(C=1, max_iter=2000)`.

Prints CPU seconds on one thread, the peak memory of arrays beyond the rows, how far the objective is above
the minimum, in double precision, and the share of rows (fitted ones, and others) that are predicted as by the
minimum, which is that of a run to a relative gap of 1e-8, checked in double precision. Also printed: the CPU
time after which `SoftmaxRegression` is at scikit-learn's objective, and the cost of its parts. At length,
scikit-learn is also run in double precision, and to a tolerance below which its result does not change.

Data: if the folder of CUB is given, its training rows, and a set as large as AWA made of them: classes are
joined to 40, rows mixed with others of their class. Without it, generated rows as many as those of CUB and
AWA, non-negative, with class means in few directions and sub-groups within the classes: they are told apart
easily. Last, rows of mixed classes whose features are not correlated, of any length and of length one, where
plain L-BFGS does well: there, scikit-learn is also run with the first tolerance, of some, that brings it
within 1e-6 of the minimum. scikit-learn-intelex takes part if it is installed.

    python benchmarks/seen_expert.py xlsa17/CUB             three minutes
    python benchmarks/seen_expert.py xlsa17/CUB --full      CUB alone, at length, four minutes
    python benchmarks/seen_expert.py                        generated rows, a minute
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import plotting
from cosmo.data import read_xlsa17
from cosmo.data.splits import Protocol
from cosmo.experts import _newton
from cosmo.experts.seen import SoftmaxRegression


class Comparison(NamedTuple):
    """What was measured on some rows: a table, and after which CPU seconds how much was above the minimum."""

    name: str
    table: Table
    descent: np.ndarray


class Weights(NamedTuple):
    """What a fit had reached."""

    coef_: np.ndarray
    intercept_: np.ndarray
    C: float = 1.0


def draw(n_rows: int, n_features: int, n_classes: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return non-negative rows of classes with sub-groups, and a fifth more to predict."""
    rng = np.random.default_rng(seed)
    n_rows += n_rows // 5
    codes = np.append(np.arange(n_classes), rng.choice(n_classes, n_rows - n_classes))
    group = 4 * codes + rng.integers(4, size=n_rows)
    factors = rng.normal(size=(100, n_features)).astype(np.float32)
    centres = 0.5 * rng.normal(size=(n_classes, 100)).repeat(4, axis=0) + 0.6 * rng.normal(
        size=(4 * n_classes, 100)
    )
    place = (centres[group] + rng.normal(size=(n_rows, 100))).astype(np.float32)
    X = place @ factors
    X *= 0.035
    X += 0.35 * rng.normal(size=X.shape).astype(np.float32) + 0.25
    return np.maximum(X, 0, out=X), codes


def resample(
    X: np.ndarray, codes: np.ndarray, n_rows: int, n_classes: int, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows between two of the same class, classes joined at random, and a fifth more to predict."""
    rng = np.random.default_rng(seed)
    n_rows += n_rows // 5
    joined = rng.permutation(codes.max() + 1) % n_classes
    one = rng.integers(len(codes), size=n_rows)
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    two = order[(np.cumsum(counts) - counts)[codes[one]] + rng.integers(counts[codes[one]])]
    share = rng.uniform(0, 0.5, size=(n_rows, 1)).astype(np.float32)
    brightness = rng.gamma(4, 0.25, size=(n_rows, 1)).astype(np.float32)
    return brightness * ((1 - share) * X[one] + share * X[two]), joined[codes[one]]


def scatter(
    n_rows: int, n_features: int, n_classes: int, distance: float, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows around a centre for each class, as far in every direction, and a fifth more to predict."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows + n_rows // 5) % n_classes
    centres = distance * rng.normal(size=(n_classes, n_features))
    return (centres[codes] + rng.normal(size=(len(codes), n_features))).astype(np.float32), codes


def objective(model: Any, X: np.ndarray, codes: np.ndarray) -> float:
    W = model.coef_.astype(np.float64)
    loss = 0.0
    for first in range(0, len(X), 1024):
        rows = slice(first, first + 1024)
        Z = X[rows].astype(np.float64) @ W.T + model.intercept_
        loss += (logsumexp(Z, axis=1) - Z[np.arange(len(Z)), codes[rows]]).sum()
    return float(model.C * loss + (W**2).sum() / 2)


def gap_in_double(model: Any, X: np.ndarray, codes: np.ndarray) -> float:
    """Return the bound of the distance to the minimum, relative, computed in double precision."""
    R = softmax(X.astype(np.float64) @ model.coef_.T.astype(np.float64) + model.intercept_, axis=1)
    R[np.arange(len(R)), codes] -= 1
    g = model.C * R.T @ (X - X.mean(axis=0, dtype=np.float64)) + model.coef_
    return float((g**2).sum() / 2 / objective(model, X, codes))


def cpu(job: Callable[[], Any]) -> tuple[float, Any]:
    """Return CPU seconds and what the job returns."""
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def peak(job: Callable[[], Any]) -> float:
    """Return the peak megabytes of a job, run for this alone: following the memory takes time."""
    tracemalloc.start()
    job()
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return most


@contextmanager
def watched() -> Iterator[tuple[Counter[str], list[tuple[float, Callable[[], Weights]]]]]:
    """Count CPU seconds of the solver's parts, and keep, for later, what is reached after each subspace."""
    parts: Counter[str] = Counter()
    trace: list[tuple[float, Callable[[], Weights]]] = []
    begin = time.process_time()
    watch = {
        "gradient by all features": (_newton.SubspacePath, "_compute_gradient"),
        "projection of the rows": (_newton.SubspacePath, "_extend"),
        "orthonormal directions": (_newton, "_span"),
        "first subspace (L-BFGS)": (_newton._Problem, "approach"),
        "preconditioner": (_newton.ByRows, "__init__"),
        "its Cholesky factors": (_newton, "factor"),
        "products with the Hessian": (_newton._Problem, "curve"),
        "applying the preconditioner": (_newton.ByRows, "solve"),
        "line search": (_newton._Problem, "_search"),
    }
    originals = {name: getattr(owner, attribute) for name, (owner, attribute) in watch.items()}

    def timed(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            result = originals[name](*args, **kwargs)
            parts[name] += time.process_time() - start
            if name == "gradient by all features":
                trace.append((time.process_time() - begin, kept(args[0])))
            return result

        return call

    for name, (owner, attribute) in watch.items():
        setattr(owner, attribute, timed(name))
    try:
        yield parts, trace
    finally:
        for name, (owner, attribute) in watch.items():
            setattr(owner, attribute, originals[name])


def kept(path: Any) -> Callable[[], Weights]:
    """Return how to get at the weights that a path has reached by now; this takes no time yet."""
    V, basis, mean = path.state.V, path.basis, path.mean  # not the path, which holds all its rows

    def weights() -> Weights:
        W = V[:, 1:] @ basis.T
        return Weights(W, V[:, 0] - W @ mean)

    return weights


def accelerated(X: np.ndarray, codes: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return scikit-learn-intelex, if it is installed."""
    if find_spec("sklearnex") is None:
        return {}
    classifier = import_module("sklearnex.linear_model").LogisticRegression
    return {"scikit-learn-intelex": lambda: classifier(C=1.0, max_iter=2000).fit(X, codes)}


def plain(X: np.ndarray, codes: np.ndarray, *, max_iter: int = 2000, **options: float) -> LogisticRegression:
    return LogisticRegression(C=1.0, max_iter=max_iter, **options).fit(X, codes)


def begun(X: np.ndarray, codes: np.ndarray) -> None:
    """Take so many steps of scikit-learn that it holds all the memory it ever will."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain(X, codes, max_iter=20)


def near_enough(X: np.ndarray, codes: np.ndarray, minimum: float) -> float:
    """Return a tolerance with which scikit-learn ends within 1e-6 of the minimum."""
    for tol in 10.0 ** -np.arange(4, 9, 0.5):
        if objective(plain(X, codes, tol=tol), X, codes) <= minimum * (1 + 1e-6):
            return float(tol)
    raise RuntimeError("scikit-learn does not get within 1e-6 of the minimum")


def compare(
    name: str,
    X: np.ndarray,
    codes: np.ndarray,
    others: np.ndarray,
    *,
    at_length: bool = False,
    as_near: bool = False,
) -> Comparison:
    """Return both classifiers' cost and result on the same rows; with `as_near`, also to the same end."""
    best = SoftmaxRegression(tol=1e-8).fit(X, codes)
    minimum = objective(best, X, codes)
    further: dict[str, Callable[[], Any]] = {}
    nearer: dict[str, Callable[[], Any]] = {}
    if as_near:
        tol = near_enough(X, codes, minimum)
        nearer = {"scikit-learn, to 1e-6": lambda: plain(X, codes, tol=tol)}
    if at_length:
        double = X.astype(np.float64)
        further = {
            "scikit-learn, float64": lambda: plain(double, codes),
            "scikit-learn, tol=1e-6": lambda: plain(X, codes, tol=1e-6),  # as near the minimum as it gets
        }
    ways = {
        "scikit-learn, float32": lambda: plain(X, codes),
        **further,
        **nearer,
        **accelerated(X, codes),
        "SoftmaxRegression, tol=1e-4": lambda: SoftmaxRegression(tol=1e-4).fit(X, codes),
        "SoftmaxRegression": lambda: SoftmaxRegression().fit(X, codes),
    }
    costs, models = {}, {}
    # In turns, the better of two: others may use the machine. What takes minutes, once.
    again = [(way, job) for way, job in ways.items() if way not in further]
    for way, job in [*ways.items(), *again]:
        with watched() as (parts, trace):  # those of the last are looked at
            cost, models[way] = cpu(job)
            costs[way] = min(cost, costs.get(way, np.inf))
    peaks = {
        "scikit-learn, float32": peak(lambda: begun(X, codes)),
        "SoftmaxRegression": peak(ways["SoftmaxRegression"]),
    }
    table = Table(title=f"{name}: {len(X)} x {X.shape[1]}, {codes.max() + 1} classes; minimum {minimum:.5f}")
    for column in (
        "way",
        "CPU s",
        "ratio",
        "peak MB",
        "ratio",
        "steps",
        "above min",
        "same, fitted",
        "others",
    ):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way, model in models.items():
        same = [np.mean(model.predict(rows) == best.predict(rows)) for rows in (X, others)]
        table.add_row(
            way,
            f"{costs[way]:.2f}",
            f"{costs[way] / costs['scikit-learn, float32']:.2f}",
            f"{peaks[way]:.0f}" if way in peaks else "",
            f"{peaks[way] / peaks['scikit-learn, float32']:.2f}" if way in peaks else "",
            str(np.max(model.n_iter_)),
            f"{objective(model, X, codes) / minimum - 1:.1e}",
            *(f"{100 * share:.2f} %" for share in same),
        )
    descent = np.array([(when, objective(weights(), X, codes)) for when, weights in trace]).T
    notes = [f"bound of the minimum's own gap, in double precision: {gap_in_double(best, X, codes):.1e}"]
    if as_near:
        notes.append(f"scikit-learn, to 1e-6: tol={tol:.1e}")
    for way in (way for way in models if way.startswith("scikit-learn,")):
        target = objective(models[way], X, codes)
        reached = next((when for when, value in zip(*descent, strict=True) if value <= target), None)
        if reached is not None:
            share = reached / costs[way]
            notes.append(f"SoftmaxRegression is there after {reached:.2f} CPU s, {share:.2f} of {way}")
    notes.append(", ".join(f"{part} {seconds:.2f}" for part, seconds in parts.most_common()) + " CPU s")
    table.caption = "\n".join(notes)
    return Comparison(name, table, descent / [[1], [minimum]] - [[0], [1]])


def on_cub(folder: str, features: str, *, at_length: bool) -> Iterator[Comparison]:
    """Yield what is measured on rows of CUB; the test rows stay sealed."""
    protocol = Protocol(read_xlsa17(folder, features=features), seed=1002)
    training = protocol.training()
    codes = np.unique(training.y, return_inverse=True)[1]
    others, _ = resample(training.X, codes, 2000, len(np.unique(codes)))
    yield compare("CUB", training.X, codes, others, at_length=at_length)
    if at_length:
        return
    X, joined = resample(training.X, codes, 19832, 40)
    yield compare("AWA's size, from CUB", X[:19832], joined[:19832], X[19832:])
    yield from without_correlation()


def without_correlation() -> Iterator[Comparison]:
    n_rows = 8000
    X, codes = scatter(n_rows, 1024, 40, distance=0.05)
    yield compare("no correlation", X[:n_rows], codes[:n_rows], X[n_rows:], as_near=True)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    yield compare("no correlation, length 1", X[:n_rows], codes[:n_rows], X[n_rows:], as_near=True)


def on_generated() -> Iterator[Comparison]:
    for name, shape in {"CUB's size": (7057, 2048, 150), "AWA's size": (19832, 2048, 40)}.items():
        X, codes = draw(*shape)
        n_rows = shape[0]
        yield compare(f"{name}, generated", X[:n_rows], codes[:n_rows], X[n_rows:])
    yield from without_correlation()


def draw_descents(found: list[Comparison], file: Path) -> None:
    """Draw how far above the minimum each way is, against CPU time."""
    columns = min(len(found), 2)
    rows = -(-len(found) // columns)
    figure, axes = plotting.panels(rows, columns, height=0.4 + 2.4 * rows, sharey=True)
    for panel in axes.flat[len(found) :]:
        panel.set_axis_off()
    for panel, (name, table, descent) in zip(axes.flat[: len(found)], found, strict=True):
        seconds, gaps = plotting.numbers(table, "CPU s"), plotting.numbers(table, "above min")
        left = descent[1] > 0
        panel.loglog(*descent[:, left], label="SoftmaxRegression", **plotting.line(0))
        for k, way in enumerate(table.columns[0].cells):
            if str(way).startswith("scikit-learn"):
                panel.loglog(seconds[k], gaps[k], **{**plotting.line(k + 1), "linestyle": "none"}, label=way)
        panel.set(title=name, xlabel="CPU seconds")
        plotting.plain_ticks(panel.xaxis)
    for row in axes:
        plotting.plain_ticks(row[0].yaxis)
        row[0].set_ylabel("above minimum, relative")
    plotting.legend_below(figure, max(axes.flat, key=lambda panel: len(panel.lines)))  # that with most ways
    plotting.save(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", help="folder of CUB in the proposed-splits benchmark")
    parser.add_argument("--features", default="res50")
    parser.add_argument("--full", action="store_true", help="on CUB, scikit-learn to its end")
    plotting.add_option(parser)
    arguments = parser.parse_args()
    console, compared = Console(width=120), []
    with threadpool_limits(limits=1):  # CPU time of one thread is compared
        folder, at_length = arguments.folder, arguments.full
        for found in on_cub(folder, arguments.features, at_length=at_length) if folder else on_generated():
            console.print(found.table)
            compared.append(found)
    if arguments.plot:
        draw_descents(compared, arguments.plot)


if __name__ == "__main__":
    main()
