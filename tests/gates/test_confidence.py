from itertools import product

import numpy as np
import pytest
from labelled import outputs
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from cosmo.gates import (
    GATES,
    ConfidenceGate,
    EvidenceGate,
    LeaveOutGate,
    MaxSoftmaxGate,
    NoveltyGate,
    OdinGate,
    make_gate,
)
from cosmo.gates.confidence import K_GRID, TEMPERATURE_GRID
from cosmo.metrics.accuracy import gate_auc


def task(n=300, seed=0, n_seen=12, n_unseen=7):
    """Experts that are a little surer about rows of their own side."""
    rng = np.random.default_rng(seed)
    is_seen = rng.random(n) < 0.5
    seen = np.where(is_seen[:, None], rng.dirichlet([0.15] * n_seen, n), rng.dirichlet([0.4] * n_seen, n))
    own = np.where(is_seen, rng.beta(1, 4, n), rng.beta(2, 3, n))
    unseen = own[:, None] * rng.dirichlet([0.4] * n_unseen, n)
    return outputs(seen, unseen, is_seen)


class TestFeatures:
    seen = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    unseen = np.array([[0.05, 0.1], [0.3, 0.0]])
    out = outputs(seen, unseen)

    def test_unseen_first_then_tempered_seen(self):
        features = ConfidenceGate(k=2, temperatures=(3.0,)).features(self.out)
        tempered = softmax(np.log(self.seen + 1e-12) / 3, axis=1)
        expected = np.column_stack([[0.1, 0.3], [0.05, 0.0], np.sort(tempered, axis=1)[:, :0:-1]])
        np.testing.assert_allclose(features, expected)

    def test_the_papers_gate_has_ten_inputs(self):
        assert ConfidenceGate().features(task(4)).shape == (4, 10)

    def test_each_temperature_adds_a_block(self):
        out = task(4)
        both = ConfidenceGate(temperatures=(1.0, 3.0)).features(out)
        assert both.shape == (4, 15)
        np.testing.assert_array_equal(both[:, 10:], ConfidenceGate().features(out)[:, 5:])
        np.testing.assert_allclose(both[:, 5], out.seen.max(axis=1))

    def test_without_the_unseen_expert(self):
        gate, out = ConfidenceGate(use_unseen=False), task()
        assert gate.features(out).shape == (300, 5)
        score = gate.fit(out).score(out)
        np.testing.assert_array_equal(score, gate.score(outputs(out.seen, np.zeros_like(out.unseen))))

    def test_fewer_classes_than_k_are_filled_up(self):
        features = ConfidenceGate(k=4, temperatures=(1.0,)).features(self.out)
        np.testing.assert_allclose(
            features, [[0.1, 0.05, 0, 0, 0.6, 0.3, 0.1, 0], [0.3, 0, 0, 0, 0.6, 0.2, 0.2, 0]]
        )

    def test_open_parameters_must_be_decided_first(self):
        for gate in (ConfidenceGate(k=None), ConfidenceGate(temperatures=None)):
            with pytest.raises(ValueError, match=r"^k or temperatures is None; choose them by `tuned`$"):
                gate.features(self.out)

    @pytest.mark.parametrize("k", [0, -1])
    def test_k_must_be_positive(self, k):
        with pytest.raises(ValueError, match=rf"^k must be at least 1, got {k}$"):
            ConfidenceGate(k=k).features(self.out)

    def test_k_is_a_whole_number(self):
        with pytest.raises(ValueError, match=r"^k must be a whole number, got 1\.5$"):
            ConfidenceGate(k=1.5).features(self.out)

    def test_features_of_float32_are_float64(self):
        single = outputs(self.seen.astype(np.float32), self.unseen.astype(np.float32))
        assert ConfidenceGate().features(single).dtype == np.float64

    def test_temperatures_must_be_positive(self):
        with pytest.raises(ValueError, match="temperature must be positive"):
            ConfidenceGate(temperatures=(3.0, 0.0)).features(self.out)


class TestFit:
    def test_textbook_is_an_ordinary_logistic_regression(self):
        out = task()
        gate = ConfidenceGate(convention="textbook").fit(out)
        features = gate.features(out)
        regression = LogisticRegression(C=2.0, max_iter=1000).fit(features, out.is_seen)
        np.testing.assert_allclose(gate.score(out), regression.predict_proba(features)[:, 1])

    def test_reference_is_half_the_decision_value_of_twice_the_c(self):
        out = task()
        gate = ConfidenceGate(convention="reference").fit(out)
        features = gate.features(out)
        regression = LogisticRegression(C=2.0, max_iter=1000).fit(features, out.is_seen)
        value = regression.decision_function(features)
        np.testing.assert_allclose(gate.score(out), expit(value / 2))

    def test_reference_is_what_a_two_row_soft_max_gives(self):
        """The paper's library: both rows penalised, and the sigmoid of the second row's value alone."""
        out = task(n=200)
        gate = ConfidenceGate(convention="reference").fit(out)
        F = gate.features(out)
        label = out.is_seen.astype(int)

        def loss(theta):
            W, b = theta[:-2].reshape(2, -1), theta[-2:]
            likelihood = log_softmax(F @ W.T + b, axis=1)[np.arange(len(F)), label].sum()
            return -likelihood + 0.5 * (W**2).sum()

        theta = minimize(loss, np.zeros(2 * F.shape[1] + 2), method="L-BFGS-B").x
        weights, bias = theta[:-2].reshape(2, -1)[1], (theta[-1] - theta[-2]) / 2
        np.testing.assert_allclose(gate.score(out), expit(F @ weights + bias), atol=2e-3)

    def test_the_score_is_a_probability_that_tells_the_sides_apart(self):
        out = task()
        score = ConfidenceGate().fit(out).score(out)
        assert score.dtype == np.float64
        assert ((score > 0) & (score < 1)).all()
        assert gate_auc(out.is_seen, score) > 0.75
        fresh = task(seed=1)
        assert gate_auc(fresh.is_seen, ConfidenceGate().fit(out).score(fresh)) > 0.7

    @pytest.mark.parametrize("value", [True, False])
    def test_one_domain_alone(self, value):
        out = task()
        with pytest.raises(ValueError, match="both seen and unseen classes"):
            ConfidenceGate().fit(out[out.is_seen == value])

    def test_unknown_convention(self):
        with pytest.raises(ValueError, match="'textbook' or 'reference', got 'modern'"):
            ConfidenceGate(convention="modern").fit(task(20))


class TestTuned:
    rows = np.arange(300)
    train, val = rows[rows % 3 != 0], rows[::3]

    def test_picks_the_best_auc_on_gating_val(self):
        out = task(seed=1)
        train, val = out[self.train], out[self.val]
        on_val, on_train = {}, {}
        for k, temperatures in product(K_GRID, TEMPERATURE_GRID):
            gate = ConfidenceGate(k, temperatures).fit(train)
            for rows, auc in ((val, on_val), (train, on_train)):
                auc[k, temperatures] = gate_auc(rows.is_seen, gate.score(rows))
        best = max(on_val, key=on_val.__getitem__)
        assert best != max(on_train, key=on_train.__getitem__)  # or the test could not tell them apart
        tuned = ConfidenceGate(k=None, temperatures=None).tuned(train, val)
        assert (tuned.k, tuned.temperatures) == best

    def test_finds_a_signal_in_the_second_largest(self):
        """Both sides have the same largest probabilities; only the runners-up differ."""
        rng = np.random.default_rng(0)
        is_seen = rng.random(300) < 0.5
        top = rng.uniform(0.5, 0.6, 300)
        second = np.where(is_seen, 0.05, 0.3)
        seen = np.column_stack([top, second, 1 - top - second])
        gate = ConfidenceGate(k=None, temperatures=(1.0,), use_unseen=False)
        out = outputs(seen, np.full((300, 2), 0.1), is_seen)
        tuned = gate.tuned(out[self.train], out[self.val])
        assert tuned.k == 2  # the first of the values that see it
        assert tuned.temperatures == (1.0,)

    def test_decided_parameters_stay(self):
        out = task(seed=4)
        gate = ConfidenceGate(k=None, temperatures=(2.0,), convention="textbook", use_unseen=False)
        tuned = gate.tuned(out[self.train], out[self.val])
        assert tuned.temperatures == (2.0,)
        assert tuned.k in K_GRID
        assert tuned.convention == "textbook"
        assert tuned.use_unseen is False
        assert gate.k is None

    def test_a_decided_k_stays(self):
        out = task(seed=4)
        tuned = ConfidenceGate(k=4, temperatures=None).tuned(out[self.train], out[self.val])
        assert tuned.k == 4
        assert tuned.temperatures in TEMPERATURE_GRID

    def test_returns_an_unfitted_copy(self):
        out = task()
        for gate in (ConfidenceGate(), ConfidenceGate(k=None)):
            tuned = gate.tuned(out[self.train], out[self.val])
            assert tuned is not gate
            assert not hasattr(tuned, "weights_")

    def test_nothing_is_fitted_where_all_is_decided(self):
        one_domain = task()[:3]
        one_domain = one_domain[one_domain.is_seen]
        assert ConfidenceGate().tuned(one_domain, one_domain).k == 5

    @pytest.mark.parametrize("value", [True, False])
    def test_gating_val_of_one_domain_alone(self, value):
        out = task()
        val = out[self.val]
        with pytest.raises(ValueError, match="both seen and unseen"):
            ConfidenceGate(k=None).tuned(out[self.train], val[val.is_seen == value])

    def test_gating_train_of_one_domain_alone(self):
        out = task()
        train = out[self.train]
        with pytest.raises(ValueError, match="both seen and unseen"):
            ConfidenceGate(k=None).tuned(train[train.is_seen], out[self.val])


class TestMakeGate:
    def test_every_name_makes_a_gate(self):
        assert {name: type(make_gate(name)) for name in GATES} == {
            "confidence": ConfidenceGate,
            "confidence-auto": ConfidenceGate,
            "confidence-seen": ConfidenceGate,
            "max-softmax": MaxSoftmaxGate,
            "max-softmax-3": MaxSoftmaxGate,
            "odin": OdinGate,
            "leave-out": LeaveOutGate,
            "evidence": EvidenceGate,
            "novelty": NoveltyGate,
        }

    def test_the_papers_settings(self):
        assert make_gate("confidence").get_params() == {
            "k": 5,
            "temperatures": (3.0,),
            "use_unseen": True,
            "convention": "reference",
        }
        assert make_gate("confidence-seen").get_params() == {
            **make_gate("confidence").get_params(),
            "use_unseen": False,
        }
        assert [make_gate(f"max-softmax{end}").temperature for end in ("", "-3")] == [1.0, 3.0]
        auto = make_gate("confidence-auto").get_params()
        assert auto["k"] is None
        assert auto["temperatures"] is None

    def test_unknown(self):
        with pytest.raises(ValueError, match="unknown gate 'moe'; choose from confidence, "):
            make_gate("moe")
