"""Cached experts give what `Cosmo` gives, and are trained once."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

from cosmo import Protocol
from cosmo._core.cache import Cache
from cosmo.data import GZSLDataset, load_glyphs
from cosmo.data.splits import SealedTestError
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.evaluation.run import Settings, run_experiment
from cosmo.experts import CMT, ESZSL, LAGO, SJE, ExpertPair, make_seen_expert
from cosmo.gates import ConfidenceGate, EvidenceGate, OdinGate
from cosmo.mixture.outputs import ExpertOutputs

GIVEN = ESZSL(gamma=1.0, lam=1.0, temperature=0.05)
SEEN = make_seen_expert("lda")


class Novel(ESZSL):
    """An expert with a novelty of its own."""

    detects_novelty = True

    def novelty(self, X):
        return 1 / (1 + np.exp(-np.asarray(X, dtype=np.float64)[:, 0]))


@pytest.fixture(scope="module")
def data():
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    return GZSLDataset(
        glyphs.features[:, ::4], glyphs.labels, glyphs.descriptions, glyphs.split, name=glyphs.name
    )


def check_same(one, other):
    for field in fields(ExpertOutputs):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, pd.Index):
            assert a.equals(b), field.name
        elif a is None or b is None:
            assert a is b, field.name
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=field.name)


def test_agrees_with_run(data, tmp_path):
    experiment = run_experiment(data, Settings(unseen="eszsl", seed=3))
    experts = ExpertCache(Protocol(data, seed=3), Cache(tmp_path))
    stages = experts.fit(make_seen_expert("logistic"), ESZSL())
    assert stages.model.experts_.unseen.decided_ == experiment.model.experts_.unseen.decided_
    check_same(stages.validation, experiment.model.validation_outputs_)
    check_same(stages.labelled(experts.test_labels), experiment.test)


@pytest.mark.parametrize(
    "expert",
    [GIVEN, SJE(learning_rate=3.0, epochs=2), LAGO("semantic-hard", epochs=2), Novel(gamma=1.0, lam=1.0)],
    ids=lambda expert: type(expert).__name__,
)
def test_agrees_with_a_pair_of_experts(expert, data, tmp_path):
    experts = ExpertCache(Protocol(data), Cache(tmp_path))
    for _ in range(2):  # Trained, then read.
        stages = experts.fit(SEEN, expert)
    protocol = Protocol(data)
    X, y, _ = protocol.training()
    held = protocol.training_hold_out()
    known = data.descriptions.loc[data.seen_classes]
    unseen, train = expert.select(X, y, known, held), held.seen_train
    pair = ExpertPair.fit(SEEN, unseen, X[train], y[train], known, refit=False)
    check_same(stages.validation, pair.outputs(X[held.gzsl_val], y[held.gzsl_val]))
    samples = protocol.open_test()
    pair = ExpertPair.fit(SEEN, pair.unseen, X, y, data.descriptions)
    check_same(stages.labelled(experts.test_labels), pair.outputs(samples.X, samples.y))


def test_nothing_is_trained_twice(data, tmp_path, monkeypatch):
    first = ExpertCache(Protocol(data), Cache(tmp_path)).fit(SEEN, ESZSL(gamma=1.0, lam=1.0))
    assert first.cpu_seconds > 0
    monkeypatch.setattr(type(SEEN), "fit", None)
    monkeypatch.setattr(ESZSL, "_fit", None)
    experts = ExpertCache(Protocol(data), Cache(tmp_path))
    assert experts.has(SEEN, ESZSL(gamma=1.0, lam=1.0))
    assert not experts.has(SEEN, ESZSL(gamma=2.0, lam=1.0))
    second = experts.fit(SEEN, ESZSL(gamma=1.0, lam=1.0))
    check_same(first.validation, second.validation)
    check_same(first.test, second.test)
    assert second.cpu_seconds == first.cpu_seconds


@pytest.mark.parametrize(
    "gate", [ConfidenceGate(), EvidenceGate(), OdinGate()], ids=lambda g: type(g).__name__
)
def test_gates_with_observers_and_folds(gate, data, tmp_path):
    experts = ExpertCache(Protocol(data), Cache(tmp_path))
    seen = make_seen_expert("logistic")
    stages = experts.fit(seen, GIVEN, gate=gate, folds=1 if isinstance(gate, OdinGate) else 2)
    score = stages.model.combination_.gate_.score(stages.test)
    assert score.shape == (len(stages.test),)
    assert np.ptp(score) > 0


def test_seen_predictions_are_those_of_the_stages(data, tmp_path):
    experts = ExpertCache(Protocol(data), Cache(tmp_path))
    stages = experts.fit(SEEN, GIVEN)
    validation, test = experts.seen_predictions(SEEN)
    np.testing.assert_array_equal(validation, stages.validation.seen)
    np.testing.assert_array_equal(test, stages.test.seen)


def test_the_test_set_opens_once(data, tmp_path):
    experts = ExpertCache(Protocol(data), Cache(tmp_path))
    assert experts.test_labels is experts.test_labels
    with pytest.raises(SealedTestError, match="opened already"):
        experts.protocol.open_test()


def test_an_expert_with_a_network(data, tmp_path):
    pytest.importorskip("torch")
    experts = ExpertCache(Protocol(data), Cache(tmp_path))
    stages = experts.fit(SEEN, CMT(epochs=2))
    assert stages.test.novelty is not None
    again = ExpertCache(Protocol(data), Cache(tmp_path)).fit(SEEN, CMT(epochs=2))
    np.testing.assert_array_equal(again.test.novelty, stages.test.novelty)
