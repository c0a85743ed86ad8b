"""The training that linear experts share, and their building blocks."""

import logging

import numpy as np
import pytest
from sklearn.base import clone

from cosmo.data.splits import hold_out
from cosmo.experts import select
from cosmo.experts._linear import Adam
from cosmo.experts.kernel import Kernel
from cosmo.experts.ranking import ALE, SJE, DeViSE

EXPERTS = {
    "gaussian": Kernel(0.8, 3, temperature=0.1),
    "linear": Kernel(1.0, 3, kernel="linear", temperature=0.1),
    **{kind.__name__: kind(3.0, 3, temperature=0.5) for kind in (SJE, DeViSE, ALE)},
}


@pytest.mark.parametrize("name", EXPERTS)
class TestTraining:
    def test_seed_draws_the_order(self, name, task):
        one, two = (
            clone(EXPERTS[name]).set_params(seed=seed).fit(task.X, task.y, task.table) for seed in (0, 1)
        )
        assert not np.array_equal(one.weights_, two.weights_)

    def test_candidates_agree_with_single_fits(self, name, task):
        """A long training that is stopped early equals a short one; given values are not searched."""
        held, expert = hold_out(task.y, seed=0), clone(EXPERTS[name]).set_params(epochs=None)
        chosen = select(expert, task.X, task.y, task.table.loc[task.seen], held)
        assert chosen.open_parameters() == []
        assert chosen.get_params() == expert.set_params(epochs=chosen.epochs).get_params()
        single = clone(chosen).fit(task.X[held.seen_train], task.y[held.seen_train], task.table)
        np.testing.assert_allclose(single.weights_, chosen.weights_, rtol=1e-4, atol=1e-5)

    def test_loss_falls(self, name, task, caplog):
        with caplog.at_level(logging.DEBUG, logger="cosmo.experts._linear"):
            clone(EXPERTS[name]).set_params(epochs=10).fit(task.X, task.y, task.table)
        losses = [float(message.split()[-1]) for message in caplog.messages if "loss" in message]
        assert len(losses) == 10
        assert losses[-1] < losses[0]

    def test_a_class_like_the_mean_is_scored(self, name, task):
        expert = clone(EXPERTS[name]).fit(task.X, task.y, task.table)
        mean = task.table.loc[task.seen].mean().to_frame("mean").T
        assert np.isfinite(expert.scores(task.X_new, mean)).all()


def test_adam_takes_steps_of_its_learning_rate_at_first():
    weights = np.array([1.0, -1.0], dtype=np.float32)
    Adam(weights, 0.1).update(np.array([3.0, -5.0], dtype=np.float32))
    np.testing.assert_allclose(weights, [0.9, -0.9], rtol=1e-6)
