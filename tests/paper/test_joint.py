import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from cosmo._core import MissingExtra
from cosmo.data import GZSLDataset, load_glyphs
from cosmo.data.splits import Protocol
from cosmo.mixture.smoothing import combine, top_k
from cosmo.paper import joint
from cosmo.paper.joint import _Network, joint_table

COSMO, HELD_OUT, ALL_SEEN = "COSMO, trained apart", "joint, held out", "joint, all seen"


def train_jointly(data, *, option, seed=0, **settings):
    """Return the results of joint training on the test set."""
    protocol = Protocol(data, seed=seed)
    trained = joint.train_jointly(protocol, option, **settings)
    return trained.evaluate(protocol.open_test().y)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=40, samples_per_class=12)


@pytest.fixture(scope="module")
def trained(data):
    """Return the table, and the results of both trainings behind it."""
    evaluate, results = joint.Trained.evaluate, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint.Trained, "evaluate", lambda *args: results.append(evaluate(*args)) or results[-1])
        return joint_table(data), *results


@pytest.fixture(scope="module")
def table(trained):
    return trained[0]


@pytest.fixture(scope="module")
def held_out(trained):
    return trained[1]


@pytest.fixture(scope="module")
def all_seen(trained):
    return trained[2]


def test_table(table, held_out, all_seen):
    assert list(table.index) == [COSMO, HELD_OUT, ALL_SEEN]
    assert list(table.columns) == ["acc_ts", "acc_tr", "acc_h", "seen_expert_accuracy", "gate_auc"]
    assert table.to_numpy().min() >= 0
    assert table.to_numpy().max() <= 1
    for result, row in ((held_out, HELD_OUT), (all_seen, ALL_SEEN)):
        shown = [*result.scores, result.seen_expert_accuracy, result.gate_auc]
        assert table.loc[row].tolist() == shown


def test_joint_training_collapses(table):
    assert table["acc_h"].drop(COSMO).max() < table.loc[COSMO, "acc_h"] / 2
    assert table["gate_auc"].drop(COSMO).max() < table.loc[COSMO, "gate_auc"] - 0.1


def test_all_seen_gate_always_says_seen(table, all_seen):
    assert all_seen.scores.acc_ts < 0.1 * table.loc[COSMO, "acc_ts"]
    assert all_seen.belief_on_seen > 0.9
    assert all_seen.belief_on_unseen > 0.9
    # Nothing else is wrong with it: its seen expert is as good as one trained apart.
    assert all_seen.seen_expert_accuracy > table.loc[COSMO, "seen_expert_accuracy"] - 0.1
    assert all_seen.scores.acc_tr == pytest.approx(all_seen.seen_expert_accuracy, abs=0.05)


def test_held_out_seen_expert_lacks_classes(data, table, held_out, all_seen):
    known = data.labels[Protocol(data).hold_out.seen_train].unique()
    share = len(known) / len(data.seen_classes)
    assert 0.5 < share < 0.8
    assert held_out.seen_expert_accuracy <= share
    assert held_out.seen_expert_accuracy < all_seen.seen_expert_accuracy
    assert held_out.seen_expert_accuracy < table.loc[COSMO, "seen_expert_accuracy"]


def test_held_out_learns_what_it_is_trained_for(held_out):
    """On rows like those of the training, both sides are answered: the collapse is that of the protocol."""
    assert held_out.validation[held_out.epochs] > 0.5


def test_choice_of_epochs_gives_up(data):
    result = train_jointly(data, option="held out", epochs=range(1, 400), learning_rate=0.3)
    assert max(result.validation) < 399


@pytest.mark.parametrize("option", ["held out", "all seen"])
def test_training_rows_only_until_the_test_is_opened(data, option, monkeypatch):
    """What is learnt does not depend on samples of unseen classes; the seal is broken last."""
    settings = {"option": option, "epochs": [2, 8]}
    features = data.features.copy()
    features[data.split.test_unseen] = 7
    changed = GZSLDataset(features, data.labels, data.descriptions, data.split)
    expected, found = train_jointly(data, **settings), train_jointly(changed, **settings)
    assert found.validation == expected.validation
    assert found.seen_expert_accuracy == expected.seen_expert_accuracy
    assert found.belief_on_seen == expected.belief_on_seen
    assert found.scores.acc_tr == expected.scores.acc_tr

    def sealed(self):
        raise RuntimeError("opened")

    monkeypatch.setattr(Protocol, "open_test", sealed)
    monkeypatch.setattr(_Network, "train", spied := Spy(_Network.train))
    with pytest.raises(RuntimeError, match="opened"):
        train_jointly(data, **settings)
    assert len(spied.rows) == 2  # both trainings are over when the seal is broken
    assert spied.rows[0] < spied.rows[1] == len(data.split.trainval)


class Spy:
    """Counts the rows of each training."""

    def __init__(self, train):
        self.train, self.rows = train, []

    def __get__(self, network, owner):
        def train(X, *args, **kwargs):
            self.rows.append(len(X))
            return self.train(network, X, *args, **kwargs)

        return train


def test_network_is_the_mixture(data):
    """The network's p(y) is `smoothing.combine` of its two experts and its gate, without smoothing."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = data.features[:30]
    network = _Network(X, data.descriptions, n_known=9, adam={}, seed=0)
    network.weights = {
        "seen": torch.from_numpy(rng.normal(size=(X.shape[1], 9)).astype(np.float32)),
        "seen_bias": torch.from_numpy(rng.normal(size=9).astype(np.float32)),
        "unseen": torch.from_numpy(rng.normal(size=(X.shape[1], data.descriptions.shape[1])).astype("f4")),
        "gate": torch.from_numpy(rng.normal(size=10).astype(np.float32)),
        "gate_bias": torch.tensor([0.3]),
    }
    table = data.descriptions.iloc[:12]  # three strangers, fewer than K
    log_proba, belief = network.predict(X, table)
    w = {name: tensor.numpy() for name, tensor in network.weights.items()}
    F, A = network._features(X), network._signatures(table)
    seen, joint = _softmax(F @ w["seen"] + w["seen_bias"]), _softmax(F @ w["unseen"] @ A.T)
    inputs = np.hstack([top_k(joint[:, 9:], 5), top_k(seen, 5, 3.0)])
    p_seen = 1 / (1 + np.exp(-(inputs @ w["gate"] + w["gate_bias"])))
    np.testing.assert_allclose(belief, p_seen, rtol=1e-4)
    expected = combine(seen, joint[:, 9:], 1 - p_seen, smoothing="none")
    np.testing.assert_allclose(np.exp(log_proba), expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1, rtol=1e-4)


def _softmax(scores):
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def test_refuses_what_it_cannot_do(data):
    with pytest.raises(ValueError, match="option must be one of held out, all seen; got 'both'"):
        train_jointly(data, option="both")
    for epochs in ([], [0, 4]):
        with pytest.raises(ValueError, match="epochs must name numbers of at least 1"):
            train_jointly(data, option="held out", epochs=epochs)


def test_missing_torch(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match="pip install"):
        train_jointly(data, option="all seen")
