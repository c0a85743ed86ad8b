"""f-CLSWGAN, cycle-WGAN, cycle-(U)WGAN and SE-GZSL: what is their own."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cosmo.experts import make_unseen_expert  # noqa: E402
from cosmo.experts.generators import (  # noqa: E402
    FCLSWGAN,
    SEGZSL,
    CycleUWGAN,
    CycleWGAN,
    gradient_penalty,
)

FAST = {"hidden": 64, "learning_rate": 3e-4, "balance": 2.0}
SMALL = {"hidden": 32, "latent": 5, "balance": 2.0}  # of SE-GZSL


class TestGradientPenalty:
    @pytest.fixture
    def critic(self):
        generator = torch.Generator().manual_seed(0)

        def draw(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        weights = {
            "D.features": draw(7, 11),
            "D.description": draw(3, 11),
            "D.bias": draw(11),
            "D.last": draw(11),
        }
        return {name: tensor.requires_grad_() for name, tensor in weights.items()}, draw(20, 7), draw(20, 3)

    def test_against_two_backward_passes(self, critic):
        """Value and gradients, against differentiating the critic and then its gradient."""
        weights, X, A = critic
        X = X.requires_grad_()
        hidden = X @ weights["D.features"] + A @ weights["D.description"] + weights["D.bias"]
        value = torch.nn.functional.leaky_relu(hidden, 0.2) @ weights["D.last"]
        (slope,) = torch.autograd.grad(value.sum(), X, create_graph=True)
        expected = (slope.norm(dim=1) - 1).square().mean()
        penalty = gradient_penalty(weights, hidden)
        torch.testing.assert_close(penalty, expected)
        moved = [weights["D.features"], weights["D.last"]]
        for one, other in zip(
            torch.autograd.grad(penalty, moved), torch.autograd.grad(expected, moved), strict=True
        ):
            torch.testing.assert_close(one, other)

    def test_slope_of_one_costs_nothing(self):
        weights = {"D.features": torch.eye(2), "D.last": torch.tensor([1.0, 0.0])}
        assert gradient_penalty(weights, torch.ones(5, 2)) == 0


class TestFCLSWGAN:
    def test_the_classifier_of_seen_classes_matters(self, task):
        one, other = (
            FCLSWGAN(2, weight=weight, **FAST).fit(task.X, task.y, task.table) for weight in (0.0, 10.0)
        )
        assert not np.allclose(one.weights_["G.last"], other.weights_["G.last"])

    def test_steps_of_the_critic(self, task, monkeypatch):
        """Five for each of the generator, on different rows, the last of which are the generator's."""
        calls = []
        for name in ("_opponent_loss", "_loss"):
            loss = getattr(FCLSWGAN, name)

            def spy(self, weights, X, codes, A, generator, loss=loss, name=name):
                calls.append((name, codes))
                return loss(self, weights, X, codes, A, generator)

            monkeypatch.setattr(FCLSWGAN, name, spy)
        FCLSWGAN(1, critic_steps=5, **FAST).fit(task.X, task.y, task.table)
        assert [name for name, _ in calls[:6]] == ["_opponent_loss"] * 5 + ["_loss"]
        assert not torch.equal(calls[3][1], calls[4][1])
        assert torch.equal(calls[4][1], calls[5][1])
        assert len(calls) == 6 * 50

    def test_presets(self):
        assert set(FCLSWGAN.presets) == set(CycleWGAN.presets) == {"fast", "CUB", "AWA1", "SUN", "FLO"}
        for name in ("f-clswgan", "cycle-wgan", "cycle-uwgan"):
            assert make_unseen_expert(f"{name}:fast").get_params() == make_unseen_expert(name).get_params()
            assert make_unseen_expert(f"{name}:CUB").hidden == 4096


class TestCycleWGAN:
    def test_without_the_cycle_it_is_f_clswgan(self, task):
        one, two = (
            kind.fit(task.X, task.y, task.table)
            for kind in (FCLSWGAN(2, **FAST), CycleWGAN(2, cycle=0.0, **FAST))
        )
        np.testing.assert_array_equal(one.weights_["G.last"], two.weights_["G.last"])

    def test_the_cycle_closes(self, task):
        """With the cycle, descriptions are told better from made rows."""
        errors = []
        for cycle in (0.0, 5.0):
            expert = CycleWGAN(6, weight=0.0, cycle=cycle, **FAST).fit(task.X, task.y, task.table)
            made = torch.from_numpy(expert._features(expert.synthesize(task.table.loc[task.seen], 10)))
            A = torch.from_numpy(expert._signatures(task.table.loc[task.seen].to_numpy(dtype=np.float32)))
            errors.append(float(expert._error(made, A.repeat_interleave(10, dim=0))))
        assert errors[1] < 0.9 * errors[0]

    def test_does_not_read_descriptions_without_samples(self, task):
        other = task.table.copy()
        other.loc[task.unseen] = 7.0
        one, two = (CycleWGAN(2, **FAST).fit(task.X, task.y, table) for table in (task.table, other))
        np.testing.assert_array_equal(one.weights_["G.last"], two.weights_["G.last"])

    def test_u_reads_them(self, task):
        other = task.table.copy()
        other.loc[task.unseen] += 1.0 * (np.arange(10) % 3 == 0)
        one, two = (CycleUWGAN(2, **FAST).fit(task.X, task.y, table) for table in (task.table, other))
        assert one.others_.shape == (8, 10)
        assert not np.allclose(one.weights_["G.last"], two.weights_["G.last"])

    def test_u_without_such_classes_is_cycle_wgan(self, task):
        seen = task.table.loc[task.seen]
        one, two = (kind(2, cycle=1.0, **FAST).fit(task.X, task.y, seen) for kind in (CycleWGAN, CycleUWGAN))
        np.testing.assert_array_equal(one.weights_["G.last"], two.weights_["G.last"])


class TestSEGZSL:
    def test_variance_within_classes(self, task):
        expert = SEGZSL(1, **SMALL).fit(task.X, task.y, task.table)
        scaled = expert._features(task.X)
        within = [scaled[task.y == name].var(axis=0).mean() for name in task.seen]
        assert expert.variance_ == pytest.approx(np.mean(within), rel=1e-3)

    def test_reads_descriptions_without_samples(self, task):
        other = task.table.copy()
        other.loc[task.unseen] += 1.0 * (np.arange(10) % 3 == 0)
        one, two = (SEGZSL(2, **SMALL).fit(task.X, task.y, table) for table in (task.table, other))
        assert not np.allclose(one.weights_["G.decoder.W2"], two.weights_["G.decoder.W2"])

    def test_made_rows_look_like_their_class(self, task):
        expert = SEGZSL(8, learning_rate=1e-3, **SMALL).fit(task.X, task.y, task.table)
        made = expert.synthesize(task.table.loc[task.seen], 10)
        means = np.stack([task.X[task.y == name].mean(axis=0) for name in task.seen])
        distance = np.linalg.norm(made[:, None] - means, axis=2)
        assert (distance.argmin(axis=1) == np.repeat(np.arange(17), 10)).mean() > 0.8
