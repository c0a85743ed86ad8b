"""The training loop of network experts and its checkpoints, on DEM and ICINESS (which has dropout)."""

import logging
import sys

import numpy as np
import pytest
from sklearn.base import clone

from cosmo.data.splits import hold_out
from cosmo.experts import _network, select
from cosmo.experts._network import Checkpoints
from cosmo.experts.relation import ICINESS

torch = pytest.importorskip("torch")

SMALL = ICINESS(epochs=6, hidden=16, learning_rate=1e-3, batch_size=32, temperature=1.0)


class Stop(Exception):
    """Stands for whatever stops a training."""


def assert_same_weights(one, other):
    assert one.weights_.keys() == other.weights_.keys()
    for name, value in one.weights_.items():
        np.testing.assert_array_equal(value, other.weights_[name])


def interrupt(monkeypatch, task, expert, *, at_loss):
    """Fit until the loss has been computed `at_loss` times, with a checkpoint after every epoch."""
    monkeypatch.setattr(_network, "_SECONDS", 0.0)
    n_calls = 0
    whole = type(expert)._loss

    def loss(*args):
        nonlocal n_calls
        n_calls += 1
        if n_calls == at_loss:
            raise Stop
        return whole(*args)

    with monkeypatch.context() as patch:
        patch.setattr(type(expert), "_loss", loss)
        with pytest.raises(Stop):
            expert.fit(task.X, task.y, task.table)


def count_epochs(monkeypatch, kind):
    """Return a list that grows by the number of every epoch trained."""
    trained = []
    whole = kind._epoch

    def epoch(self, done, *args):
        trained.append(done + 1)
        return whole(self, done, *args)

    monkeypatch.setattr(kind, "_epoch", epoch)
    return trained


class TestChoiceOfEpochs:
    def test_ends_after_patience(self, task, monkeypatch):
        trained = count_epochs(monkeypatch, ICINESS)
        expert = clone(SMALL).set_params(epochs=None)
        accuracies = iter([0.2, 0.5, 0.4, 0.5, 0.3, 0.9])
        monkeypatch.setattr("cosmo.experts.base.class_accuracy", lambda *_: next(accuracies))
        chosen = select(expert, task.X, task.y, task.table.loc[task.seen], hold_out(task.y, seed=0))
        stops = ICINESS.grid["epochs"]
        assert chosen.epochs == stops[1]
        assert trained == list(range(1, stops[1 + ICINESS.patience] + 1))

    def test_the_chosen_state_is_that_of_a_single_fit(self, task):
        held, known = hold_out(task.y, seed=0), task.table.loc[task.seen]
        chosen = select(clone(SMALL).set_params(epochs=None), task.X, task.y, known, held)
        single = clone(chosen).fit(task.X[held.seen_train], task.y[held.seen_train], known)
        assert_same_weights(single, chosen)
        np.testing.assert_array_equal(
            single.scores(task.X_new, task.table), chosen.scores(task.X_new, task.table)
        )


class TestInterruption:
    def test_in_the_middle_of_an_epoch(self, task, monkeypatch, tmp_path):
        undisturbed = clone(SMALL).fit(task.X, task.y, task.table)
        expert = clone(SMALL).set_params(checkpoints=tmp_path)
        interrupt(monkeypatch, task, expert, at_loss=4 * 7 + 3)  # seven mini-batches make an epoch
        assert [path.name.endswith("-4.pt") for path in tmp_path.iterdir()] == [True]
        trained = count_epochs(monkeypatch, ICINESS)
        expert.fit(task.X, task.y, task.table)
        assert trained == [5, 6]
        assert_same_weights(expert, undisturbed)
        assert list(tmp_path.iterdir()) == []

    def test_of_a_choice_of_epochs(self, task, monkeypatch, tmp_path):
        held, known = hold_out(task.y, seed=0), task.table.loc[task.seen]
        expert = clone(SMALL).set_params(epochs=None)
        undisturbed = select(expert, task.X, task.y, known, held)
        expert.set_params(checkpoints=tmp_path)
        whole, calls = ICINESS._epoch, []

        def epoch(self, done, *args):
            calls.append(done)
            if len(calls) == 7:
                raise Stop
            return whole(self, done, *args)

        with monkeypatch.context() as patch:
            patch.setattr(ICINESS, "_epoch", epoch)
            with pytest.raises(Stop):
                select(expert, task.X, task.y, known, held)
        again = select(expert, task.X, task.y, known, held)
        assert again.decided_ == undisturbed.decided_
        assert_same_weights(again, undisturbed)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("other", [{"learning_rate": 2e-3}, {"seed": 1}, "data"])
    def test_state_of_another_training_is_not_taken(self, task, monkeypatch, tmp_path, other):
        interrupt(monkeypatch, task, clone(SMALL).set_params(checkpoints=tmp_path), at_loss=4 * 7 + 3)
        trained = count_epochs(monkeypatch, ICINESS)
        X = task.X * np.float32(1.5) if other == "data" else task.X
        expert = clone(SMALL).set_params(checkpoints=tmp_path, **({} if other == "data" else other))
        expert.fit(X, task.y, task.table)
        assert trained == [1, 2, 3, 4, 5, 6]
        assert len(list(tmp_path.iterdir())) == 1  # that of the other training stays


class TestInput:
    def test_without_torch(self, task, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(ImportError, match=r"pip install 'torch"):
            clone(SMALL).fit(task.X, task.y, task.table)

    def test_features_are_standardised_where_a_method_says_so(self, task):
        """Then no shift or scale of a feature changes anything."""
        X = task.X * np.linspace(1, 9, task.X.shape[1], dtype=np.float32) + 3
        one, other = (clone(SMALL).fit(rows, task.y, task.table) for rows in (task.X, X))
        np.testing.assert_allclose(one.scores(task.X, task.table), other.scores(X, task.table), atol=1e-3)


@pytest.fixture
def at_once(monkeypatch):
    """Every state is old enough to be followed by another."""
    monkeypatch.setattr(_network, "_SECONDS", 0.0)


def state(value):
    return lambda: {"weights": {"w": torch.full((2,), value)}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_stops_stay_and_of_others_the_last(tmp_path, at_once):
    kept = Checkpoints(tmp_path, "key", [2, 4])
    for epoch in range(1, 7):
        kept.save(epoch, state(1.0))
    assert names(tmp_path) == ["training-key-2.pt", "training-key-4.pt", "training-key-6.pt"]


def test_last_is_within_limits(tmp_path, at_once):
    kept = Checkpoints(tmp_path, "key", [2, 4])
    for epoch in (2, 4):
        kept.save(epoch, state(float(epoch)))
    assert kept.last(0, 3)[0] == 2
    assert kept.last(0, 9)[0] == 4
    assert kept.last(2, 3) is None


def test_between_stops_some_seconds_pass(tmp_path):
    kept = Checkpoints(tmp_path, "key", [2])
    kept.save(1, state(1.0))
    assert names(tmp_path) == []
    kept.save(2, state(1.0))
    assert names(tmp_path) == ["training-key-2.pt"]


def test_trainings_share_a_folder(tmp_path, at_once):
    one, other = Checkpoints(tmp_path, "one", [1]), Checkpoints(tmp_path, "other", [1])
    one.save(1, state(1.0))
    other.save(1, state(2.0))
    (tmp_path / "notes.txt").write_text("mine")
    one.clear()
    assert names(tmp_path) == ["notes.txt", "training-other-1.pt"]


@pytest.mark.parametrize("content", [b"", b"not a file of torch", b"PK\x03\x04 half a file"])
def test_damaged_state_gives_way_to_the_one_before(tmp_path, at_once, caplog, content):
    kept = Checkpoints(tmp_path, "key", [1, 2])
    kept.save(1, state(1.0))
    (tmp_path / "training-key-2.pt").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert kept.last(0, 2)[0] == 1
    assert "training-key-2.pt cannot be read" in caplog.text


def test_without_a_folder_nothing_is_kept():
    nothing = Checkpoints(None, "key", [1])
    nothing.save(1, lambda: pytest.fail("computed the state"))
    assert nothing.last(0, 1) is None
    nothing.clear()
