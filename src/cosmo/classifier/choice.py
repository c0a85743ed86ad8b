"""Choice of the feature transform and of both experts on held-out classes, for `"auto"`."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from cosmo._core.cache import Cache
from cosmo.data.splits import HoldOut, further_folds
from cosmo.experts import (
    ESZSL,
    Discriminant,
    EnsembleExpert,
    GaussianExpert,
    SimilarityExpert,
    UnseenExpert,
    make_seen_expert,
    make_unseen_expert,
)
from cosmo.experts._linear import transformed
from cosmo.experts.pair import fit_seen_expert
from cosmo.experts.seen import SoftmaxRegression
from cosmo.metrics.accuracy import harmonic_mean
from cosmo.mixture.smoothing import fit_temperature

logger = logging.getLogger(__name__)

AUTO = "auto"
Rows = NDArray[np.float32]
_RATE = 5e10  # operations per second, for the estimate of costs: one thread of an ordinary processor
_SHRINKAGES = (0.05, 0.1, 0.4, 0.6)  # beside the default
_FOLDS = 3  # hold-outs, of which the first is that of the parameters
_PENALTIES = (10.0, 100.0)  # C of the logistic regression times the variance of a row


class Choice(NamedTuple):
    """What was chosen, and the accuracies behind it.

    `board` has a row for each candidate, in the order in which they were compared: its role, its name, its
    transform, and its accuracy in percent.
    """

    transform: str
    seen: str
    unseen: str
    board: list[tuple[str, str, str, float]]

    def table(self) -> pd.DataFrame:
        """Return the leaderboard."""
        return pd.DataFrame(self.board, columns=["role", "candidate", "transform", "accuracy"])

    def rows(self) -> list[str]:
        """Return the candidates of each role as lines, best first."""
        ranked = sorted(self.board, key=lambda row: (row[0], -row[3]))
        return [f"{role} {value:.1f} %: {name}, transform {how}" for role, name, how, value in ranked]

    def __str__(self) -> str:
        return f"transform {self.transform}; seen expert {self.seen}; unseen expert {self.unseen}"


def default_experts(seen: str | None, unseen: str | None) -> tuple[str, str]:
    """Return the names of both experts: "auto", or the paper's if only the other one is named."""
    if seen is None and unseen is None:
        return AUTO, AUTO
    return seen or "logistic", unseen or "eszsl"


def named_experts(seen: str, unseen: str) -> dict[str, Any]:
    """Return the parameters `seen` and `unseen` of `Cosmo` by names of experts, or "auto"."""
    return {
        "seen": seen if seen == AUTO else make_seen_expert(seen),
        "unseen": unseen if unseen == AUTO else make_unseen_expert(unseen),
    }


def choose(
    X: Rows,
    y: pd.Index,
    table: pd.DataFrame,
    held: HoldOut,
    *,
    seen: Any,
    unseen: UnseenExpert | str,
    transform: str | None = None,
    budget: float = 60.0,
    cache: Cache | None = None,
) -> tuple[str, Any, UnseenExpert, Choice]:
    """Return the transform, the seen and the unseen expert, and the choice that was made.

    Unseen experts are compared by per-class accuracy on held-out classes, among these; seen experts on other
    rows of the remaining classes. The transform is that of the best harmonic mean of the simplest two.

    `table` has a row for each class in `y` and for no other. `seen` and `unseen` are "auto", or an expert
    that is kept, as is a `transform`. `budget` is in seconds of one thread for all candidates; costs are
    estimated from sizes, so that equal data give equal choices, and the first candidate of each role is
    always tried.
    """
    if y[held.seen_train].nunique() < 2:  # Nothing can be compared.
        seen = make_seen_expert("logistic") if seen == AUTO else seen
        unseen = ESZSL() if isinstance(unseen, str) else unseen
        return transform or "none", seen, unseen, Choice(transform or "none", _name(seen), _name(unseen), [])
    contest = _Contest(X, y, table, held, budget, cache)
    names = _transforms(X) if transform is None else [transform]
    simple: dict[str, tuple[UnseenExpert | None, float]] = {}
    for name in names:
        if simple and not contest.affords(contest.cost_of_gaussian):
            continue
        first = len(contest.board)
        expert = contest.unseen(GaussianExpert(), name) if unseen == AUTO else None
        if len(names) > 1 or seen == AUTO:
            contest.seen(Discriminant(), name)
        simple[name] = expert, harmonic_mean(contest.board[first][-1], contest.board[-1][-1])
    best = max(simple, key=lambda name: simple[name][1])
    if unseen == AUTO:
        unseen = contest.best_unseen(best, simple[best][0])
    if seen == AUTO:
        seen = contest.best_seen(best)
    assert isinstance(unseen, UnseenExpert), "chosen above"
    choice = Choice(best, _name(seen), _name(unseen), contest.board)
    logger.info("chosen: %s", choice)
    return best, clone(seen), unseen, choice


def _transforms(X: Rows) -> list[str]:
    lengths = np.linalg.norm(X, axis=1)
    varied = lengths.std() > 1e-3 * lengths.mean()
    return ["none", *(["roots"] if X.min() >= 0 else []), *(["unit"] if varied else [])]


class _Contest:
    """Candidates on one hold-out."""

    def __init__(
        self, X: Rows, y: pd.Index, table: pd.DataFrame, held: HoldOut, budget: float, cache: Cache | None
    ) -> None:
        self.X, self.y, self.table, self.held, self.cache = X, y, table, held, cache
        self.left, self.board = budget, list[tuple[str, str, str, float]]()
        n, d, k = len(held.seen_train), X.shape[1], len(table)
        self.cost_of_gaussian = (2 * n * d**2 + 20 * d**3 + 200 * n * d * k / 2) / _RATE
        self.cost_of_logistic = 400 * n * d * k / _RATE
        self.seen_accuracies: dict[tuple[str, str], NDArray[np.float64]] = {}
        self._rows: tuple[str, Rows] = ("none", X)

    def rows(self, transform: str) -> Rows:
        """Return all rows, transformed."""
        if self._rows[0] != transform:
            self._rows = transform, transformed(self.X, transform)
        return self._rows[1]

    def affords(self, cost: float) -> bool:
        """Subtract the cost and return True if the budget has room for it."""
        if cost > self.left:
            return False
        self.left -= cost
        return True

    def add(self, role: str, expert: Any, transform: str, accuracy: float) -> None:
        """Add a row to the board."""
        self.board.append((role, _name(expert), transform, round(100 * accuracy, 2)))
        logger.info("%s: %s, transform %s: %.1f %%", *self.board[-1])

    def unseen(self, expert: UnseenExpert, transform: str) -> UnseenExpert:
        """Return an unseen expert with its parameters chosen."""
        X, held = self.rows(transform), self.held
        chosen = expert.select(X, self.y, self.table, held, cache=self.cache)
        chosen.accuracy_ = float(self._accuracies(self._scores(chosen, X, held), held).mean())
        self.add("unseen", chosen, transform, chosen.accuracy_)
        return chosen

    def _scores(self, expert: UnseenExpert, X: Rows, held: HoldOut) -> Rows:
        """Return scores of the held-out rows among the held-out classes."""
        classes = self.y[held.unseen_val].unique()
        return expert.scores(X[held.unseen_val], self.table.loc[classes])

    def _accuracies(self, scores: Rows, held: HoldOut) -> NDArray[np.float64]:
        return _class_accuracies(pd.factorize(self.y[held.unseen_val])[0], scores.argmax(axis=1))

    def best_unseen(self, transform: str, first: UnseenExpert | None) -> UnseenExpert:
        """Return the best of all unseen experts and of the means of the best two and three.

        Those with chosen parameters are compared on further hold-outs, in which the other classes are held
        out: the accuracy by which parameters were chosen is too high, and more so for some experts. A mean
        replaces the best expert if its lead, class by class, exceeds one standard error.
        """
        assert first is not None, "compared with each transform"
        one_space = self.X.shape[1] == self.table.shape[1]  # Maybe embeddings by one encoder.
        others = [ESZSL(), SimilarityExpert()] if one_space else [ESZSL()]
        tried = [self.unseen(other, transform) for other in others if self.affords(self.cost_of_gaussian)]
        experts = [first, *tried]
        if len(experts) == 1:
            return first
        experts.sort(key=lambda one: -one.accuracy_)
        X, y = self.rows(transform), self.y
        enough = y[self.held.seen_train].nunique() >= 4
        folds = further_folds(y, self.held, _FOLDS) if enough else [self.held]
        parts = [  # of experts, in each fold
            [
                self._scores(clone(one).fit(X[fold.seen_train], y[fold.seen_train], self.table), X, fold)
                / np.float32(one.temperature)
                for one in experts
            ]
            for fold in folds
        ]
        members = [[k] for k in range(len(experts))] + [list(range(n)) for n in range(2, len(experts) + 1)]
        accuracies = []  # of each held-out class
        for some in members:
            pairs = zip(parts, folds, strict=True)
            each = [self._accuracies(np.sum([part[k] for k in some], axis=0), fold) for part, fold in pairs]
            accuracies.append(np.concatenate(each))
            name = experts[some[0]] if len(some) == 1 else EnsembleExpert([experts[k] for k in some])
            self.add("unseen, other hold-outs", name, transform, float(accuracies[-1].mean()))
        chosen = members[_within_one_error(accuracies, len(experts))]
        if len(chosen) == 1:
            return experts[chosen[0]]
        mean = EnsembleExpert([clone(experts[k]) for k in chosen])
        scores = sum(self._scores(experts[k], X, self.held) / experts[k].temperature for k in chosen)
        codes = pd.factorize(y[self.held.unseen_val])[0]
        mean.temperature = fit_temperature(scores / len(chosen), codes)
        return mean

    def seen(self, expert: Any, transform: str) -> NDArray[np.float64]:
        """Return the accuracy of a seen expert on each class of Seen-Val."""
        key = _name(expert), transform
        if key not in self.seen_accuracies:
            X, held = self.rows(transform), self.held
            codes, names = pd.factorize(self.y[held.seen_train])
            target = names.get_indexer(self.y[held.seen_val])
            predicted = fit_seen_expert(expert, X[held.seen_train], codes).predict(X[held.seen_val])
            accuracies = _class_accuracies(target, predicted)
            self.seen_accuracies[key] = accuracies
            self.add("seen", expert, transform, float(accuracies.mean()))
        return self.seen_accuracies[key]

    def best_seen(self, transform: str) -> Any:
        """Return the best of logistic regression, linear discriminant analysis, and their mean.

        The default shrinkage of the discriminant is replaced if another leads by one standard error.
        """
        cost = self.cost_of_gaussian / 10
        tried = [Discriminant(), *(Discriminant(s) for s in _SHRINKAGES if self.affords(cost))]
        best = tried[_within_one_error([self.seen(one, transform) for one in tried], 1)]
        experts: list[Any] = [best]
        rows = self.rows(transform)[self.held.seen_train]
        variance = float(rows.var(axis=0, dtype=np.float64).sum()) or 1.0
        values = [float(f"{c / variance:.2g}") for c in _PENALTIES]
        values = [C for C in values if self.affords(self.cost_of_logistic)]
        if values:
            regressions = [SoftmaxRegression(C, tol=1e-4) for C in values]
            regression = max(regressions, key=lambda one: self.seen(one, transform).mean())
            experts += [regression, Discriminant(best.shrinkage, logistic=regression.C)]
        return max(experts, key=lambda one: self.seen(one, transform).mean())


def _class_accuracies(codes: NDArray[np.intp], predicted: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the accuracy on each class that has rows."""
    rows = np.bincount(codes)
    return np.bincount(codes, weights=predicted == codes)[rows > 0] / rows[rows > 0]


def _within_one_error(accuracies: list[NDArray[np.float64]], n_simple: int) -> int:
    """Return the index of the best, or of the best of the first `n_simple` if none leads by one error."""
    means = [accuracy.mean() for accuracy in accuracies]
    simple, best = int(np.argmax(means[:n_simple])), int(np.argmax(means))
    lead, n = accuracies[best] - accuracies[simple], len(accuracies[best])
    return best if n > 1 and lead.mean() > lead.std(ddof=1) / np.sqrt(n) else simple


def _name(expert: Any) -> str:
    if isinstance(expert, EnsembleExpert):
        return "mean of " + " and ".join(map(_name, expert.experts))
    numbers = {k: v for k, v in expert.get_params(deep=False).items() if isinstance(v, float) and v}
    shown = ", ".join(f"{k}={v:.3g}" for k, v in numbers.items() if k not in ("temperature", "tol"))
    return f"{type(expert).__name__}({shown})"
