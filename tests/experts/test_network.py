"""The training loop that experts with networks share, on DEM and ICINESS (which draws dropout besides)."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from cosmo.data.splits import hold_out
from cosmo.experts import _checkpoints as checkpoints
from cosmo.experts import select
from cosmo.experts.dem import DEM
from cosmo.experts.iciness import ICINESS

pytest.importorskip("torch")

SMALL = ICINESS(epochs=6, hidden=16, learning_rate=1e-3, batch_size=32, temperature=1.0)

CHILD = """
import sys
from compositional import Task
from cosmo.experts import _checkpoints as checkpoints
from cosmo.experts.iciness import ICINESS
checkpoints._SECONDS = 0.0
task = Task()
ICINESS(epochs=100_000, hidden=16, learning_rate=1e-3, batch_size=32, temperature=1.0, checkpoints=sys.argv[1]
    ).fit(task.X, task.y, task.table)
"""


class Stop(Exception):
    """Stands for whatever stops a training."""


def assert_same_weights(one, other):
    assert one.weights_.keys() == other.weights_.keys()
    for name, value in one.weights_.items():
        np.testing.assert_array_equal(value, other.weights_[name])


def interrupt(monkeypatch, task, expert, *, at_loss):
    """Fit until the loss has been asked for `at_loss` times, with a checkpoint after every epoch."""
    monkeypatch.setattr(checkpoints, "_SECONDS", 0.0)
    asked = 0
    whole = type(expert)._loss

    def loss(*args):
        nonlocal asked
        asked += 1
        if asked == at_loss:
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


class TestSeed:
    @pytest.mark.parametrize("expert", [SMALL, DEM(epochs=5, hidden=16, temperature=1.0)])
    def test_decides_the_weights(self, task, expert):
        one, same, other = (
            clone(expert).set_params(seed=seed).fit(task.X, task.y, task.table) for seed in (3, 3, 4)
        )
        assert_same_weights(one, same)
        assert any((value != other.weights_[name]).any() for name, value in one.weights_.items())

    def test_of_numpy_and_torch_play_no_part(self, task):
        import torch

        one = clone(SMALL).fit(task.X, task.y, task.table)
        torch.manual_seed(99)
        assert_same_weights(one, clone(SMALL).fit(task.X, task.y, task.table))


class TestChoiceOfEpochs:
    def test_ends_after_patience(self, task, monkeypatch):
        trained = count_epochs(monkeypatch, ICINESS)
        expert = clone(SMALL).set_params(epochs=None)
        accuracies = iter([0.2, 0.5, 0.4, 0.5, 0.3, 0.9])
        monkeypatch.setattr("cosmo.experts.selection.zsl_accuracy", lambda *_: next(accuracies))
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

    def test_by_the_death_of_the_process(self, task, tmp_path):
        folder = tmp_path / "states"
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        )
        try:
            deadline = time.monotonic() + 60
            while not (folder.is_dir() and any(folder.glob("training-*.pt"))):
                assert child.poll() is None, "the child ended by itself"
                assert time.monotonic() < deadline, "no checkpoint appeared"
                time.sleep(0.002)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        reached = max(int(path.stem.rpartition("-")[2]) for path in folder.glob("training-*.pt"))
        expert = clone(SMALL).set_params(epochs=reached + 3)
        undisturbed = clone(expert).fit(task.X, task.y, task.table)
        with pytest.MonkeyPatch.context() as patch:
            trained = count_epochs(patch, ICINESS)
            expert.set_params(checkpoints=folder).fit(task.X, task.y, task.table)
        assert trained == [reached + 1, reached + 2, reached + 3]
        assert_same_weights(expert, undisturbed)
        assert not list(folder.glob("training-*"))

    def test_damaged_state(self, task, monkeypatch, tmp_path, caplog):
        undisturbed = clone(SMALL).fit(task.X, task.y, task.table)
        expert = clone(SMALL).set_params(checkpoints=tmp_path)
        interrupt(monkeypatch, task, expert, at_loss=4 * 7 + 3)
        (state,) = tmp_path.iterdir()
        state.write_bytes(state.read_bytes()[:500])
        with caplog.at_level(logging.WARNING):
            expert.fit(task.X, task.y, task.table)
        assert "cannot be read" in caplog.text
        assert_same_weights(expert, undisturbed)
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
        with pytest.raises(ImportError, match=r"pip install 'cosmo-gzsl\[torch\]'"):
            clone(SMALL).fit(task.X, task.y, task.table)

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("epochs", 0, "epochs must be a whole number of at least 1, got 0"),
            ("epochs", 1.5, "epochs must be a whole number"),
            ("hidden", 0, "hidden must be a whole number"),
            ("batch_size", -1, "batch_size must be a whole number"),
            ("learning_rate", 0.0, "learning_rate must be positive"),
            ("learning_rate", float("nan"), "learning_rate must be positive"),
            ("weight_decay", -1e-3, "weight_decay must not be negative"),
        ],
    )
    def test_bad_parameters(self, task, name, value, message):
        with pytest.raises(ValueError, match=message):
            clone(SMALL).set_params(**{name: value}).fit(task.X, task.y, task.table)

    def test_features_are_standardised_where_a_method_says_so(self, task):
        """Then no shift or scale of a feature changes anything."""
        X = task.X * np.linspace(1, 9, task.X.shape[1], dtype=np.float32) + 3
        one, other = (clone(SMALL).fit(rows, task.y, task.table) for rows in (task.X, X))
        np.testing.assert_allclose(one.scores(task.X, task.table), other.scores(X, task.table), atol=1e-3)

    def test_weight_decay_shrinks(self, task):
        free, decayed = (
            clone(SMALL).set_params(weight_decay=decay, epochs=20).fit(task.X, task.y, task.table)
            for decay in (0.0, 1.0)
        )
        assert np.linalg.norm(decayed.weights_["W_x"]) < np.linalg.norm(free.weights_["W_x"])
