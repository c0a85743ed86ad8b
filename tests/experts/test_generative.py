"""What generative experts share: training, synthetic features, and the classifier on them."""

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")

from cosmo._core.validation import check_descriptions  # noqa: E402
from cosmo.data.splits import hold_out  # noqa: E402
from cosmo.experts import select  # noqa: E402
from cosmo.experts._generative import GenerativeExpert, fit_classifier  # noqa: E402
from cosmo.experts.generators import FCLSWGAN, SEGZSL, CycleUWGAN, CycleWGAN  # noqa: E402

FAST = {"hidden": 32, "learning_rate": 1e-3, "balance": 2.0}
EXPERTS = {
    "f-clswgan": FCLSWGAN(2, **FAST),
    "cycle-wgan": CycleWGAN(2, **FAST),
    "cycle-uwgan": CycleUWGAN(2, **FAST),
    "se-gzsl": SEGZSL(2, latent=5, **FAST),
}


@pytest.fixture(scope="module", autouse=True)
def short_trainings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GenerativeExpert, "epoch_steps", 12)
        yield


@pytest.fixture(scope="module", params=list(EXPERTS))
def expert(request, task):
    return clone(EXPERTS[request.param]).fit(task.X, task.y, task.table)


class TestSynthesize:
    def test_class_after_class_in_units_of_the_features(self, expert, task):
        table = task.table.loc[task.unseen]
        rows = expert.synthesize(table, 6)
        assert rows.shape == (8 * 6, 30)
        assert rows.dtype == np.float32
        for place, name in enumerate(table.index):
            np.testing.assert_allclose(
                rows[place * 6 : place * 6 + 6], expert.synthesize(table.loc[[name]], 6), rtol=1e-4, atol=1e-4
            )
        # A scaled feature is not negative, so one in units of the samples is not below the least of them.
        assert (rows >= task.X.min(axis=0) - 1e-4).all()
        assert rows.min() < 0

    @pytest.mark.parametrize("n", [0, -1, 1.5])
    def test_number_of_rows(self, expert, task, n):
        with pytest.raises(ValueError, match="n must be a whole number"):
            expert.synthesize(task.table, n)


class TestClassifier:
    @pytest.fixture
    def trainings(self, monkeypatch):
        """Return the number of rows and classes of every classifier that is trained."""
        seen = []

        def spy(X, codes):
            seen.append((len(X), codes.max() + 1))
            return fit_classifier(X, codes)

        monkeypatch.setattr("cosmo.experts._generative.fit_classifier", spy)
        return seen

    @pytest.fixture
    def fitted(self, task):
        return FCLSWGAN(1, **FAST).fit(task.X, task.y, task.table)

    def test_real_rows_of_seen_classes_and_synthetic_rows_of_the_others(self, fitted, task, trainings):
        fitted.scores(task.X_new, task.table)
        fitted.scores(task.X_new, task.table.loc[task.unseen])
        fitted.scores(task.X_new, task.table.loc[task.seen])
        assert len(task.X) == 17 * 12
        assert trainings == [(len(task.X) + 8 * 24, 25), (8 * 24, 8), (len(task.X), 17)]

    def test_is_trained_once_for_a_set_of_classes(self, fitted, task, trainings):
        first = fitted.scores(task.X_new, task.table)
        np.testing.assert_array_equal(fitted.scores(task.X_new, task.table), first)
        assert len(trainings) == 1
        for size in range(2, 7):
            fitted.scores(task.X_new[:1], task.table[:size])
        assert len(fitted.classifiers_) == 4
        np.testing.assert_array_equal(fitted.scores(task.X_new, task.table), first)
        assert len(trainings) == 7

    def test_a_new_class_trains_nothing_but_the_classifier(self, fitted, task, trainings, monkeypatch):
        weights = {name: value.copy() for name, value in fitted.weights_.items()}
        monkeypatch.setattr(GenerativeExpert, "_epoch", lambda *_: pytest.fail("the generator was trained"))
        known = task.table.drop(task.unseen[0])
        assert fitted.predict_proba(task.X_new, known).shape == (len(task.X_new), 24)
        assert fitted.predict_proba(task.X_new, task.table).shape == (len(task.X_new), 25)
        assert [classes for _, classes in trainings] == [24, 25]
        for name, value in weights.items():
            np.testing.assert_array_equal(fitted.weights_[name], value)

    def test_classes_of_equal_description_share_rows(self, task, trainings):
        table = task.table.copy()
        table.loc[task.seen[1]] = table.loc[task.seen[0]]
        expert = FCLSWGAN(1, **FAST).fit(task.X, task.y, table)
        trainings.clear()
        expert.scores(task.X_new, table.loc[task.seen[:1]])
        assert trainings == [(24, 1)]

    @pytest.fixture
    def unseen_mass(self, task):
        """Return the share of probability that an expert gives to classes without samples."""

        def share(expert):
            proba = expert.predict_proba(task.X_new, task.table)
            return proba[:, task.table.index.isin(task.unseen)].sum() / len(proba)

        return share

    def test_balance_favours_unseen_classes(self, fitted, unseen_mass):
        mass = []
        for balance in (0.5, 2.0, 8.0):
            fitted.set_params(balance=balance)
            mass.append(unseen_mass(fitted))
        assert mass[0] + 0.05 < mass[1] < mass[2] - 0.05

    def test_balance_is_chosen_on_held_out_classes(self, task):
        held, known = hold_out(task.y, seed=0), task.table.loc[task.seen]
        expert = FCLSWGAN(1, **{**FAST, "balance": None})
        chosen = select(expert, task.X, task.y, known, held)
        assert chosen.balance == chosen.decided_["balance"] > 0
        assert expert.fit(task.X, task.y, task.table).decided_["balance"] > 0
        val = held.gzsl_val
        seen = np.isin(task.y[val], task.y[held.seen_train])

        def acc_h(balance):
            right = chosen.set_params(balance=balance).scores(task.X[val], known).argmax(axis=1)
            right = known.index[right] == task.y[val]
            one, two = (
                np.mean([right[task.y[val] == name].mean() for name in np.unique(task.y[val][part])])
                for part in (seen, ~seen)
            )
            return 2 * one * two / (one + two)

        best = acc_h(chosen.balance)
        assert all(acc_h(chosen.balance * factor) <= best + 1e-9 for factor in (0.2, 0.5, 2.0, 5.0))

    def test_numbers_of_rows_do_not(self, fitted, unseen_mass):
        """What is chosen with few rows of seen classes holds with many."""
        before = unseen_mass(fitted)
        fitted.classifiers_.clear()
        fitted.rows_, fitted.codes_ = np.repeat(fitted.rows_, 5, axis=0), np.repeat(fitted.codes_, 5)
        assert unseen_mass(fitted) == pytest.approx(before, rel=0.1)


class TestTraining:
    def test_an_epoch_has_as_many_steps_whatever_the_number_of_samples(self, task, monkeypatch):
        steps = []
        loss = FCLSWGAN._loss
        monkeypatch.setattr(FCLSWGAN, "_loss", lambda *args: steps.append(len(args[2])) or loss(*args))
        FCLSWGAN(1, batch_size=100, **FAST).fit(task.X, task.y, task.table)
        assert steps == [100, 100, 4] * 4
        steps.clear()
        FCLSWGAN(1, batch_size=4, **FAST).fit(task.X, task.y, task.table)
        assert steps == [4] * 12

    def test_an_interrupted_training_ends_as_if_it_had_not_been(self, expert, task, tmp_path, monkeypatch):
        monkeypatch.setattr("cosmo.experts._network._SECONDS", 0.0)
        epoch = GenerativeExpert._epoch

        def killed(self, done, *rest):
            if done == 1:
                raise KeyboardInterrupt
            return epoch(self, done, *rest)

        monkeypatch.setattr(GenerativeExpert, "_epoch", killed)
        with pytest.raises(KeyboardInterrupt):
            clone(expert).set_params(checkpoints=tmp_path).fit(task.X, task.y, task.table)
        assert list(tmp_path.glob("*.pt"))
        epochs = []
        monkeypatch.setattr(
            GenerativeExpert,
            "_epoch",
            lambda self, done, *rest: epochs.append(done) or epoch(self, done, *rest),
        )
        resumed = clone(expert).set_params(checkpoints=tmp_path).fit(task.X, task.y, task.table)
        assert epochs == [1]
        for name, value in expert.weights_.items():
            np.testing.assert_array_equal(resumed.weights_[name], value)
        np.testing.assert_array_equal(
            resumed.scores(task.X_new, task.table), expert.scores(task.X_new, task.table)
        )
        assert not list(tmp_path.glob("*.pt"))

    def test_candidates_are_the_states_of_one_training(self, expert, task, monkeypatch):
        monkeypatch.setattr(type(expert), "grid", {"epochs": (1, 3)})
        held = hold_out(task.y, seed=0)
        known = check_descriptions(task.table.loc[task.seen])
        chosen = select(clone(expert).set_params(epochs=None), task.X, task.y, known, held)
        single = clone(chosen)
        single.others_ = chosen.others_
        assert chosen.epochs in (1, 3)
        rows = held.seen_train
        classes, codes = np.unique(known.index.get_indexer(task.y[rows]), return_inverse=True)
        single._fit(task.X[rows], codes, known.iloc[classes].to_numpy(), epochs=chosen.epochs)
        for name, value in chosen.weights_.items():
            np.testing.assert_allclose(single.weights_[name], value, rtol=1e-3, atol=1e-4)


class TestFitClassifier:
    @pytest.mark.parametrize("n_classes", [1, 2, 3])
    def test_separates(self, n_classes):
        rng = np.random.default_rng(0)
        codes = np.repeat(np.arange(n_classes), 40)
        X = (np.eye(3)[codes] + 0.1 * rng.normal(size=(len(codes), 3))).astype(np.float32)
        W, b = fit_classifier(X, codes)
        assert W.shape == (3, n_classes)
        assert (np.argmax(X @ W.numpy() + b.numpy(), axis=1) == codes).all()
