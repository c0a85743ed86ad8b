from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import cosmo.evaluation.stages
from cosmo import Cosmo
from cosmo._core.cache import Cache
from cosmo.classifier.combinations import GatedMixture
from cosmo.data import GZSLDataset, load_glyphs
from cosmo.data.splits import Protocol
from cosmo.evaluation.run import Settings, run_experiment
from cosmo.evaluation.stages import Stages
from cosmo.experts import ESZSL, LAGO, SJE, ExpertPair, UnseenExpert, make_seen_expert
from cosmo.gates import ConfidenceGate, EvidenceGate
from cosmo.mixture.outputs import ExpertOutputs

GIVEN = ESZSL(gamma=1.0, lam=1.0, temperature=0.05)
SEEN = make_seen_expert("lda")


@pytest.fixture(scope="module")
def data() -> GZSLDataset:
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    return described(glyphs, glyphs.descriptions, features=glyphs.features[:, ::4])


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a switch after which training is an error."""

    def fails(*_args: object, **_options: object) -> None:
        raise AssertionError("trained again")

    def switch() -> None:
        monkeypatch.setattr(cosmo.evaluation.stages, "select", fails)
        monkeypatch.setattr(cosmo.evaluation.stages, "fit_seen_expert", fails)

    return switch


def described(data: GZSLDataset, descriptions: pd.DataFrame, **changes: Any) -> GZSLDataset:
    values = {"features": data.features, "labels": data.labels, "split": data.split} | changes
    return GZSLDataset(descriptions=descriptions, name=data.name, **values)


def check_same(one: ExpertOutputs, other: ExpertOutputs) -> None:
    for field in fields(ExpertOutputs):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, pd.Index):
            assert a.equals(b), field.name
        elif a is None or b is None:
            assert a is b, field.name
        else:
            # One asks both linear experts in one product, the other each by itself: sums may round otherwise.
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=field.name)


class Novel(ESZSL):
    """Tells novel samples by itself."""

    def novelty(self, X: Any) -> Any:
        return 1 / (1 + np.exp(-np.asarray(X, dtype=np.float64)[:, 0]))


class TestAgreement:
    def test_with_the_main_job(self, data: GZSLDataset, cache: Cache):
        seed = 3
        experiment = run_experiment(data, Settings(seed=seed))
        stages = Stages(data, cache, seed=seed)
        said, guessed = stages.seen(make_seen_expert("logistic")), stages.unseen(ESZSL())
        validation, test = stages.outputs(said, guessed, ESZSL())
        assert guessed.decided == experiment.model.experts_.unseen.decided_
        check_same(validation, experiment.model.validation_outputs_)
        samples = Protocol(data, seed=seed).open_test()
        check_same(test, experiment.model.outputs(samples.X, samples.y))

    @pytest.mark.parametrize(
        "expert",
        [
            GIVEN,
            SJE(learning_rate=3.0, epochs=2),
            LAGO("semantic-hard", epochs=2),
            Novel(gamma=1.0, lam=1.0),
        ],
        ids=lambda expert: type(expert).__name__,
    )
    def test_with_a_pair_of_experts(self, expert: UnseenExpert, data: GZSLDataset, cache: Cache):
        stages = Stages(data, cache)
        for _ in range(2):  # trained, then kept
            found = stages.outputs(stages.seen(SEEN), stages.unseen(expert), expert)
        protocol = Protocol(data)
        X, y, _ = protocol.training()
        held = protocol.training_hold_out()
        known = data.descriptions.loc[data.seen_classes]
        pair = ExpertPair.select(SEEN, expert, X, y, known, held)
        check_same(found[0], pair.outputs(X[held.gzsl_val], y[held.gzsl_val]))
        samples = protocol.open_test()
        check_same(found[1], pair.refit(SEEN, X, y, data.descriptions).outputs(samples.X, samples.y))

    def test_expert_is_left_alone(self, data: GZSLDataset, cache: Cache):
        expert = ESZSL(gamma=1.0, lam=1.0)
        stages = Stages(data, cache)
        guessed = stages.unseen(expert)
        stages.outputs(stages.seen(SEEN), guessed, expert)
        assert vars(expert) == vars(ESZSL(gamma=1.0, lam=1.0))
        assert set(guessed.decided) == {"gamma", "lam", "temperature"}
        assert guessed.decided["temperature"] > 0


class TestKept:
    def test_second_call_reads(self, data: GZSLDataset, cache: Cache, no_training: Callable[[], None]):
        stages = Stages(data, cache)
        first = stages.seen(SEEN), stages.unseen(GIVEN)
        no_training()
        for again in (stages, Stages(data, Cache(cache.folder))):
            second = again.seen(SEEN), again.unseen(GIVEN)
            for one, other in zip(first, second, strict=True):
                np.testing.assert_array_equal(one.validation, other.validation)
                np.testing.assert_array_equal(one.test, other.test)
                assert one.validation.dtype == other.test.dtype == np.float32
                assert one.decided == other.decided
                assert one.cpu_seconds == other.cpu_seconds > 0

    @pytest.mark.parametrize("expert", [SEEN, GIVEN], ids=["seen", "unseen"])
    def test_kept_tells(self, expert: BaseEstimator, data: GZSLDataset, cache: Cache):
        stages = Stages(data, cache)
        assert not stages.kept(expert)
        stages.unseen(expert) if isinstance(expert, UnseenExpert) else stages.seen(expert)
        assert stages.kept(expert)
        assert Stages(data, Cache(cache.folder)).kept(expert)

    def test_kept_is_about_the_same_question(self, data: GZSLDataset, cache: Cache):
        stages = Stages(data, cache)
        stages.seen(SEEN)
        stages.unseen(GIVEN)
        features = data.features.copy()
        features[0, 0] += 1
        less = described(data, data.descriptions.iloc[:, :-1])
        other = described(data, data.descriptions, features=features)
        assert not stages.kept(make_seen_expert("knn"))
        assert not stages.kept(ESZSL(gamma=2.0, lam=1.0, temperature=0.05))
        assert not Stages(data, cache, seed=1).kept(SEEN)
        assert not Stages(data, cache, seed=1).kept(GIVEN)
        assert not Stages(other, cache).kept(SEEN)
        assert not Stages(other, cache).kept(GIVEN)
        assert not Stages(less, cache).kept(GIVEN)

    def test_the_seen_expert_serves_all_descriptions(
        self, data: GZSLDataset, cache: Cache, no_training: Callable[[], None]
    ):
        first = Stages(data, cache).seen(SEEN)
        no_training()
        other = described(data, data.descriptions.iloc[:, :-3] * 2)
        second = Stages(other, cache).seen(SEEN)
        np.testing.assert_array_equal(first.test, second.test)

    def test_but_not_another_order_of_classes(self, data: GZSLDataset, cache: Cache):
        seen, accuracies = make_seen_expert("logistic"), []
        for table in (data.descriptions, data.descriptions.iloc[::-1]):
            stages = Stages(described(data, table), cache)
            _, test = stages.outputs(stages.seen(seen), stages.unseen(GIVEN), GIVEN)
            accuracies.append((test.seen_choice == test.labels)[test.is_seen].mean())
        assert accuracies[1] == pytest.approx(accuracies[0], abs=0.1)

    @pytest.mark.parametrize("kind", ["seen", "unseen"])
    def test_damaged_files_are_made_again(self, kind: str, data: GZSLDataset, cache: Cache):
        stages = Stages(data, cache)
        ask = (lambda: stages.seen(SEEN)) if kind == "seen" else (lambda: stages.unseen(GIVEN))
        first = ask()
        (path,) = cache.folder.glob(f"{kind}-*.npz")
        path.write_bytes(b"PK")
        np.testing.assert_array_equal(first.test, ask().test)
        assert path.stat().st_size > 1000

    def test_a_failure_keeps_nothing(self, data: GZSLDataset, cache: Cache):
        stages = Stages(data, cache)
        with pytest.raises(ValueError, match="gamma must be positive"):
            stages.unseen(ESZSL(gamma=-1.0, lam=1.0, temperature=1.0))
        with pytest.raises(TypeError, match="predict_proba"):
            stages.seen(BaseEstimator())
        assert list(cache.folder.iterdir()) == []

    def test_choices_made_before_the_end_are_kept(
        self, data: GZSLDataset, cache: Cache, monkeypatch: pytest.MonkeyPatch
    ):
        expert = SJE()
        undisturbed = Stages(data, Cache(cache.folder / "other")).unseen(expert)
        trained: list[float] = []
        train = SJE._train

        def spy(self: SJE, Z: Any, codes: Any, A: Any, rate: float, stops: Any) -> Any:
            trained.append(rate)
            if len(trained) == 3:
                raise KeyboardInterrupt
            return train(self, Z, codes, A, rate, stops)

        monkeypatch.setattr(SJE, "_train", spy)
        with pytest.raises(KeyboardInterrupt):
            Stages(data, cache).unseen(expert)
        before = len(trained) - 1
        resumed = Stages(data, cache).unseen(expert)
        assert sorted({*trained[before:]} - {*trained[:before]}) == sorted(SJE.grid["learning_rate"])[before:]
        assert resumed.decided == undisturbed.decided
        np.testing.assert_array_equal(resumed.validation, undisturbed.validation)
        np.testing.assert_array_equal(resumed.test, undisturbed.test)


class TestFurtherFolds:
    def test_same_as_inside_the_estimator(self, data: GZSLDataset, cache: Cache):
        """What the gate is fitted on, hence its weights, are those of `Cosmo` on the same hold-outs."""
        protocol = Protocol(data)
        X, y, _ = protocol.training()
        gate = EvidenceGate()
        model = Cosmo(
            data.descriptions,
            seen=SEEN,
            unseen=ESZSL(),
            gate=gate,
            hold_out=protocol.training_hold_out(),
            folds=3,
        ).fit(X, y)
        stages = Stages(data, cache)
        others = stages.further(SEEN, ESZSL(), [gate], 3)[0]
        mixture = GatedMixture(gate).fit(model.validation_outputs_, *others)
        assert len(others) == 2
        np.testing.assert_allclose(mixture.gate_.weights_, model.combination_.gate_.weights_, rtol=1e-3)

    def test_found_again(self, data: GZSLDataset, cache: Cache, no_training: Callable[[], None]):
        gates = [ConfidenceGate(), EvidenceGate()]
        before = Stages(data, cache).further(SEEN, GIVEN, gates, 2)
        assert before[0][0].evidence is None
        no_training()
        after = Stages(data, cache).further(SEEN, GIVEN, gates, 2)
        for one, other in zip(before, after, strict=True):
            check_same(one[0], other[0])

    def test_one_fold_is_none_further(self, data: GZSLDataset, cache: Cache):
        assert Stages(data, cache).further(SEEN, GIVEN, [ConfidenceGate()], 1) == [[]]
