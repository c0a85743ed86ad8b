"""SE-GZSL: what is its own."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cosmo.experts.vae import SEGZSL  # noqa: E402

FAST = {"hidden": 32, "latent": 5}


def test_variance_within_classes(task):
    expert = SEGZSL(1, **FAST).fit(task.X, task.y, task.table)
    scaled = expert._features(task.X)
    within = [scaled[task.y == name].var(axis=0).mean() for name in task.seen]
    assert expert.variance_ == pytest.approx(np.mean(within), rel=1e-3)


def test_reads_descriptions_without_samples(task):
    other = task.table.copy()
    other.loc[task.unseen] += 1.0 * (np.arange(10) % 3 == 0)
    one, two = (SEGZSL(2, **FAST).fit(task.X, task.y, table) for table in (task.table, other))
    assert not np.allclose(one.weights_["G.decoder.W2"], two.weights_["G.decoder.W2"])


def test_made_rows_look_like_their_class(task):
    expert = SEGZSL(8, learning_rate=1e-3, **FAST).fit(task.X, task.y, task.table)
    made = expert.synthesize(task.table.loc[task.seen], 10)
    means = np.stack([task.X[task.y == name].mean(axis=0) for name in task.seen])
    distance = np.linalg.norm(made[:, None] - means, axis=2)
    assert (distance.argmin(axis=1) == np.repeat(np.arange(17), 10)).mean() > 0.8
