"""A small clean problem, of which each fault spoils one input."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from picturing import clean_picture

from cosmo.data import Split

SEEN = pd.Index(["ant", "bee", "cat", "dog", "eel", "fox"], dtype=object)
UNSEEN = pd.Index(["gnu", "hen", "ibis"], dtype=object)

TOKEN = "the-token-of-the-tests"

Spoil = Callable[["Problem", str], None]

TOGETHER = (
    ("X", "y"),
    ("X_new", "y_new", "guess"),
    ("seen", "unseen", "joint", "target", "evidence", "novelty"),
    ("flips", "seen_gain", "unseen_gain", "is_seen", "codes"),
)
"""Inputs that have one entry for each of the same samples."""


class Problem:
    """Every input that some entry point takes, by name; all numbers are exact in float16.

    Unseen classes stand between seen ones in the table, so that an order that is taken for granted shows.
    """

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self._folder = folder
        columns = pd.MultiIndex.from_tuples(
            [("colour", one) for one in ("red", "blue", "green")]
            + [("size", one) for one in ("big", "long", "tall")]
        )
        order = ["ant", "gnu", "bee", "cat", "hen", "dog", "eel", "ibis", "fox"]
        self.table = pd.DataFrame(
            exact(rng.random((9, 6))), index=pd.Index(order, dtype=object), columns=columns
        )
        self.new = pd.DataFrame(
            exact(rng.random((2, 6))), index=pd.Index(["jay", "kea"], dtype=object), columns=columns
        )
        mixing = rng.normal(size=(6, 6))

        def draw(labels: np.ndarray) -> np.ndarray:
            return exact(self.table.loc[labels].to_numpy() @ mixing + 0.1 * rng.normal(size=(len(labels), 6)))

        self.y = np.repeat(SEEN.to_numpy(), 8)
        self.X = draw(self.y)
        self.y_new = np.repeat(np.array(order, dtype=object), 2)
        self.X_new = draw(self.y_new)
        self.guess = np.roll(self.y_new, 1)
        self.leak = False

        n = 24
        self.seen_classes, self.unseen_classes = SEEN, UNSEEN
        self.seen, self.joint = shares(rng, n, 6), shares(rng, n, 9)
        self.unseen = self.joint[:, 6:]
        self.target = np.r_[np.arange(12) % 6, 6 + np.arange(12) % 3]
        self.evidence = exact(rng.normal(size=(n, 1)))
        self.novelty = exact(rng.random(n))
        self.flips = exact(rng.normal(size=n))
        self.seen_gain, self.unseen_gain = exact(rng.random(n) / n), exact(rng.random(n) / n)
        self.is_seen, self.codes = self.target < 6, self.target
        self.number: Any = 1.0

        self.order = SEEN.append(UNSEEN)
        self.row: Any = self.X_new[0].tolist()
        self.name: Any = "jay"
        self.values: Any = self.new.loc["jay"].tolist()
        self.text: Any = "it sleeps on my lap"
        self.words: Any = "clever and blue, eats acorns"
        self.picture: Any = clean_picture()
        self.request: dict[str, Any] = {
            "method": "POST",
            "headers": {"X-Cosmo-Token": TOKEN, "X-Cosmo": "1", "Content-Type": "application/json"},
            "rewrite": bytes,
        }

    @property
    def folder(self) -> Path:
        """Where files of the problem go, made when it is needed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def spoiled(self, spoil: Spoil, name: str, folder: Path, number: Any) -> Problem:
        """Return a problem of which one input is spoiled."""
        problem = copy.copy(self)
        problem._folder, problem.number = folder, number
        spoil(problem, name)
        return problem

    @property
    def split(self) -> Split:
        """The rows of `X`, then of `X_new`, by purpose; with a leak, an unseen class is trained on, too."""
        n = len(self.y)
        is_new = np.isin(self.y_new, UNSEEN)
        train, seen, unseen = np.arange(n), n + np.flatnonzero(~is_new), n + np.flatnonzero(is_new)
        if self.leak:
            train, unseen = np.append(train, unseen[0]), unseen[1:]
        return Split(trainval=train, test_seen=seen, test_unseen=unseen)

    def inputs(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Return copies of some inputs with what goes with them, or of all."""
        chosen = vars(self) if names is None else {one for name in names for one in together(name)}
        return {name: copy.deepcopy(getattr(self, name)) for name in chosen if name != "_folder"}

    def take(self, name: str, rows: Any) -> None:
        """Replace an input, and those that go with it, by some of its samples."""
        for other in together(name):
            setattr(self, other, getattr(self, other)[rows])


def together(name: str) -> tuple[str, ...]:
    """Return an input and those that have an entry for each of the same samples."""
    return next((group for group in TOGETHER if name in group), (name,))


def exact(values: np.ndarray) -> np.ndarray:
    """Return float32 values that float16 holds as they are."""
    return np.asarray(values).astype(np.float16).astype(np.float32)


def shares(rng: np.random.Generator, n: int, n_classes: int) -> np.ndarray:
    """Return rows of whole 1024ths that sum to exactly one."""
    parts = np.floor(1024 * rng.dirichlet([0.6] * n_classes, n))
    parts[np.arange(n), parts.argmax(axis=1)] += 1024 - parts.sum(axis=1)
    return (parts / 1024).astype(np.float32)
