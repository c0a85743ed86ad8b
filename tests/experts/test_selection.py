import logging
import os
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from cosmo._core.cache import Cache
from cosmo.data.splits import HoldOut, hold_out
from cosmo.experts import DAP, LAGO, SJE, UnseenExpert, select

Calls = list[tuple[float | None, int | None]]
N_CLASSES, N_ROWS = 12, 10
RATES, DEPTHS = (1.0, 2.0, 3.0), (1, 2)

# Accuracies by rate and depth; the winner is trained in the first, second, last round.
FIRST = {(1.0, 1): 0.9, (1.0, 2): 0.2, (2.0, 1): 0.9, (2.0, 2): 0.4, (3.0, 1): 0.5, (3.0, 2): 0.9}
SECOND = {(1.0, 1): 0.2, (1.0, 2): 0.5, (2.0, 1): 0.9, (2.0, 2): 0.4, (3.0, 1): 0.9, (3.0, 2): 0.6}
LAST = {(1.0, 1): 0.2, (1.0, 2): 0.5, (2.0, 1): 0.6, (2.0, 2): 0.4, (3.0, 1): 0.7, (3.0, 2): 0.8}
WINNERS = [(FIRST, (1.0, 1)), (SECOND, (2.0, 1)), (LAST, (3.0, 2))]


class Spy(UnseenExpert):
    """Is right about as many rows of every class as its parameters say, and notes each training."""

    reference = "none"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"rate": RATES, "depth": DEPTHS}
    accuracies: ClassVar[dict[tuple[float, int], float]] = SECOND
    calls: ClassVar[Calls] = []

    def __init__(self, rate=None, depth=None, *, other=0, temperature=None):
        self.rate = rate
        self.depth = depth
        self.other = other
        self.temperature = temperature

    def _fit(self, X, codes, attributes, **decided):
        place = (decided.get("rate"), decided["depth"])
        self.calls.append(place)
        self.correct_ = type(self).accuracies[place]
        self.weights_ = np.array([X.sum(), codes.sum(), attributes.sum(), *place, self.other])
        self.seen_of_others_ = self.others_

    def scores(self, X, descriptions):
        sign = np.where(X[:, 1] < self.correct_ * N_ROWS - 1e-6, -1, 1)
        codes = self.attributes(descriptions)[:, 0]
        return (sign[:, None] * np.abs(X[:, :1] - codes)).astype(np.float32)


@pytest.fixture(autouse=True)
def fresh():
    """Forget what was trained."""
    yield
    Spy.calls.clear()
    Spy.accuracies = SECOND


class Problem:
    """Samples that carry their class (first feature) and their number within it (second)."""

    def __init__(self):
        codes = np.repeat(np.arange(N_CLASSES), N_ROWS)
        self.X = np.c_[codes, np.tile(np.arange(N_ROWS), N_CLASSES)].astype(np.float32)
        self.table = pd.DataFrame(
            np.c_[np.arange(N_CLASSES), np.ones(N_CLASSES)], index=[f"c{i:02}" for i in range(N_CLASSES)]
        )
        self.y = self.table.index[codes]
        self.held = hold_out(self.y)

    def select(self, expert, cache=None, **changes):
        """Return what `select` returns; `calls` has the trainings it took."""
        Spy.calls.clear()
        values = {"X": self.X, "y": self.y, "descriptions": self.table, "held": self.held} | changes
        return select(expert, values["X"], values["y"], values["descriptions"], values["held"], cache=cache)


@pytest.fixture(scope="module")
def problem():
    return Problem()


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path)


def check_same(one, other):
    assert one.decided_ == other.decided_
    assert one.get_params() == other.get_params()
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.columns_.equals(other.columns_)


class TestWithoutCache:
    @pytest.mark.parametrize(("accuracies", "winner"), WINNERS)
    def test_the_best_wins_the_first_of_equals(self, accuracies, winner, problem):
        Spy.accuracies = accuracies
        expert = Spy()
        best = problem.select(expert)
        assert (best.rate, best.depth) == winner
        assert best.accuracy_ == pytest.approx(accuracies[winner])
        assert Spy.calls == [(rate, depth) for depth in DEPTHS for rate in RATES]
        assert best.decided_ == {"rate": winner[0], "depth": winner[1], "temperature": best.temperature}
        assert best.temperature > 0
        assert expert.get_params() == Spy().get_params()

    def test_training_sees_only_seen_train(self, problem):
        best = problem.select(Spy())
        rows = problem.held.seen_train
        seen = np.unique(problem.X[rows, 0])
        expected = [problem.X[rows].sum(), np.searchsorted(seen, problem.X[rows, 0]).sum()]
        assert best.weights_[:2].tolist() == expected
        assert best.weights_[2] == problem.table.iloc[seen.astype(int)].to_numpy().sum()

    @pytest.mark.parametrize(("given", "n_trained"), [({"rate": 2.0}, 2), ({"depth": 2}, 3)])
    def test_given_values_stay(self, given, n_trained, problem):
        best = problem.select(Spy(**given))
        assert len(Spy.calls) == n_trained
        assert given.items() <= best.decided_.items()

    def test_nothing_open(self, problem, cache):
        best = problem.select(Spy(3.0, 1, temperature=2.0), cache)
        assert Spy.calls == [(3.0, 1)]
        assert best.decided_ == {"rate": 3.0, "depth": 1, "temperature": 2.0}
        assert os.listdir(cache.folder) == []

    @pytest.mark.parametrize("reads", [True, False])
    def test_descriptions_of_held_out_classes(self, reads, problem, monkeypatch):
        monkeypatch.setattr(Spy, "reads_unseen", reads)
        best = problem.select(Spy())
        if reads:
            held_out = np.unique(problem.X[problem.held.unseen_val, 0]).astype(int)
            np.testing.assert_array_equal(best.seen_of_others_, problem.table.iloc[held_out])
        else:
            assert best.seen_of_others_ is None


class TestCache:
    @pytest.mark.parametrize("accuracies", [FIRST, SECOND, LAST])
    def test_second_call_trains_the_winner_only(self, accuracies, problem, cache):
        Spy.accuracies = accuracies
        alone = problem.select(Spy())
        winner = (alone.rate, alone.depth)
        first = problem.select(Spy(), cache)
        assert len(Spy.calls) == 6
        second = problem.select(Spy(), Cache(cache.folder))
        assert Spy.calls == [winner]
        check_same(first, alone)
        check_same(second, alone)

    def changes(self, problem):
        X = problem.X.copy()
        X[problem.held.seen_train[0], 0] += 0.25
        table = problem.table.copy()
        table.iloc[3, 1] = 2
        held = problem.held
        return {
            "X": X,
            "y": problem.y[::-1],
            "descriptions": table,
            "held": HoldOut(held.seen_train[1:], held.seen_val, held.unseen_val),
        }

    @pytest.mark.parametrize("part", ["X", "y", "descriptions", "held"])
    def test_other_data_is_another_choice(self, part, problem, cache):
        problem.select(Spy(), cache)
        change = {part: self.changes(problem)[part]}
        if part == "y":
            change["held"] = hold_out(change["y"])
        found = problem.select(Spy(), cache, **change)
        assert len(Spy.calls) == 6
        check_same(found, problem.select(Spy(), **change))
        problem.select(Spy(), cache)
        assert len(Spy.calls) == 1  # the old one is still there

    @pytest.mark.parametrize("other", [Spy(other=1), Spy(rate=1.0), Spy(temperature=1.0)], ids=repr)
    def test_another_expert_is_another_choice(self, other, problem, cache):
        problem.select(Spy(), cache)
        problem.select(other, cache)
        assert len(Spy.calls) > 1

    def test_a_damaged_file_is_chosen_again(self, problem, cache, caplog):
        first = problem.select(Spy(), cache)
        (path,) = cache.folder.iterdir()
        path.write_bytes(path.read_bytes()[:-5])
        with caplog.at_level(logging.WARNING):
            second = problem.select(Spy(), cache)
        assert len(Spy.calls) == 6
        assert str(path) in caplog.text
        check_same(first, second)
        problem.select(Spy(), cache)
        assert len(Spy.calls) == 1


class Walk(Spy):
    """One training that yields its state after each depth, and ends when it gets worse."""

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"depth": (1, 2, 3, 4, 5)}
    heard: ClassVar[list[float]] = []

    def _candidates(self, X, codes, table):
        best = -1.0
        for depth in self.grid["depth"]:
            candidate = self._with(table.columns, depth=depth)
            candidate._fit(X, codes, table.to_numpy(), rate=None, depth=depth)
            yield candidate
            self.heard.append(candidate.accuracy_)
            if candidate.accuracy_ < best:
                return
            best = candidate.accuracy_


class TestFeedback:
    @pytest.fixture(autouse=True)
    def path(self):
        Spy.accuracies = dict(
            zip([(None, depth) for depth in range(1, 6)], [0.3, 0.6, 0.5, 0.9, 1.0], strict=True)
        )
        Walk.heard.clear()
        yield
        Walk.heard.clear()

    def test_a_path_can_end_early(self, problem):
        best = problem.select(Walk())
        assert Walk.heard == pytest.approx([0.3, 0.6, 0.5])
        assert best.depth == 2
        assert best.accuracy_ == pytest.approx(0.6)


class Continuing(Spy):
    """Takes a folder for unfinished trainings."""

    def __init__(self, rate=None, depth=None, *, other=0, checkpoints=None, temperature=None):
        super().__init__(rate, depth, other=other, temperature=temperature)
        self.checkpoints = checkpoints


class TestCheckpoints:
    def test_go_to_the_cache(self, problem, cache):
        expert = Continuing()
        best = problem.select(expert, cache)
        assert best.checkpoints == cache.folder
        assert expert.checkpoints is None
        assert problem.select(expert).checkpoints is None


@pytest.mark.parametrize(
    "expert", [DAP(), SJE(), LAGO("semantic-hard")], ids=lambda expert: type(expert).__name__
)
def test_experts_are_the_same_from_the_cache(expert, task, cache):
    held, table = hold_out(task.y), task.table.loc[task.seen]
    alone = select(expert, task.X, task.y, table, held)
    first = select(expert, task.X, task.y, table, held, cache=cache)
    second = select(expert, task.X, task.y, table, held, cache=cache)
    for one in (first, second):
        assert one.decided_ == alone.decided_
        np.testing.assert_array_equal(one.scores(task.X, task.table), alone.scores(task.X, task.table))
