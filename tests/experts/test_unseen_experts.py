"""What every unseen expert promises, on a small task whose classes are combinations of attributes."""

import copy
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from compositional import Task
from sklearn.base import clone

from cosmo.experts import (
    ALE,
    CMT,
    DAP,
    DCN,
    DEM,
    ESZSL,
    FCLSWGAN,
    ICINESS,
    LAGO,
    RN,
    SEGZSL,
    SJE,
    TRIPLE,
    UNSEEN_EXPERTS,
    CycleUWGAN,
    CycleWGAN,
    DeViSE,
    GaussianExpert,
    Kernel,
    SimilarityExpert,
    SynC,
    make_unseen_expert,
)
from cosmo.experts._generative import GenerativeExpert
from cosmo.metrics.accuracy import per_class_accuracy

EXPERTS = {name: make_unseen_expert(name) for name in UNSEEN_EXPERTS}
for _generator in ("f-clswgan", "cycle-wgan", "cycle-uwgan", "se-gzsl"):
    EXPERTS[_generator].set_params(epochs=8, hidden=128)  # choosing takes long; `brief` does it

DECIDED = {
    "eszsl": ESZSL(1.0, 1.0, temperature=0.1),
    "dap": DAP(0.01, temperature=1.0),
    "sje": SJE(3.0, 10, temperature=0.1),
    "devise": DeViSE(3.0, 10, temperature=0.1),
    "ale": ALE(3.0, 10, temperature=0.1),
    "sync": SynC(2.0**-16, 1.0, temperature=0.1),
    "lago": LAGO(epochs=4),
    "gaussian": GaussianExpert(0.2, 0.1, 0.3, temperature=1.0),
    "kernel": Kernel(0.8, 10, temperature=0.1),
    "similarity": SimilarityExpert(0.5, 0.5, temperature=0.1),
    "triple": TRIPLE(8, hidden=64, learning_rate=3e-3, batch_size=32, temperature=0.1),
    "cmt": CMT(8, hidden=64, learning_rate=3e-3, batch_size=32, temperature=0.1),
    "dcn": DCN(6, hidden=64, learning_rate=3e-3, temperature=1.0),
    "dem": DEM(40, hidden=64, learning_rate=1e-2, temperature=0.1),
    "rn": RN(12, hidden=64, class_hidden=64, learning_rate=2e-3, temperature=1.0),
    "f-clswgan": FCLSWGAN(1, hidden=32),
    "cycle-wgan": CycleWGAN(1, hidden=32),
    "cycle-uwgan": CycleUWGAN(1, hidden=32),
    "se-gzsl": SEGZSL(1, hidden=32),
    "iciness": ICINESS(8, hidden=64, learning_rate=5e-3, temperature=1.0),
}


def suited(expert, task):
    """Return the task, with its classes described in the space of the samples for an expert that needs it."""
    if not isinstance(expert, SimilarityExpert):
        return task
    mixing = np.linalg.lstsq(task.table.loc[task.y].to_numpy(), task.X)[0]
    task = copy.copy(task)
    task.table = pd.DataFrame(task.table.to_numpy() @ mixing + 1, index=task.table.index)
    return task


@pytest.fixture(scope="module", params=list(EXPERTS))
def expert(request, task):
    own = suited(EXPERTS[request.param], task)
    return clone(EXPERTS[request.param]).fit(own.X, own.y, own.table)


@pytest.fixture(scope="module")
def brief(expert, task):
    """Return the expert; a network after little training, as it takes long otherwise."""
    if not expert.needs_torch:
        yield expert
        return
    with pytest.MonkeyPatch.context() as patch:
        few = (1, 2) if isinstance(expert, GenerativeExpert) else expert.grid["epochs"][:3]
        patch.setattr(type(expert), "grid", {"epochs": few})
        yield clone(expert).set_params(epochs=None).fit(task.X, task.y, task.table)


@pytest.fixture
def own(expert, task):
    """Return the task as the expert takes it."""
    return suited(expert, task)


def test_all_are_listed():
    assert set(DECIDED) == set(UNSEEN_EXPERTS)
    for name in UNSEEN_EXPERTS:
        assert isinstance(make_unseen_expert(name), type(EXPERTS[name]))
    with pytest.raises(ValueError, match="unknown unseen expert 'clip'; choose from"):
        make_unseen_expert("clip")


def test_learns_combinations_far_above_chance(expert, own):
    guess = own.unseen[expert.scores(own.X_new, own.table.loc[own.unseen]).argmax(axis=1)]
    assert per_class_accuracy(own.y_new, guess, own.unseen) > 0.6  # chance is 1/8


def test_probabilities_are_distributions(expert, own):
    proba = expert.predict_proba(own.X_new, own.table)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert proba.dtype == np.float32
    np.testing.assert_array_equal(proba.argmax(axis=1), expert.scores(own.X_new, own.table).argmax(axis=1))


def test_answers_for_any_set_of_classes(expert, own):
    """The score of a class does not depend on which others are asked about, or on their order."""
    if expert.native:
        pytest.skip("log-probabilities depend on the set they are over")
    everything = expert.scores(own.X_new, own.table)
    order = np.random.default_rng(0).permutation(len(own.table))[:7]
    some = expert.scores(own.X_new, own.table.iloc[order])
    atol = 1e-5 * max(1, np.abs(everything).max())
    np.testing.assert_allclose(some, everything[:, order], rtol=1e-4, atol=atol)


def test_relabelling_changes_nothing(brief, own):
    rename = {label: i * 3 for i, label in enumerate(own.table.index)}
    table = own.table.rename(index=rename)
    decided = clone(brief).set_params(**brief.decided_)
    renamed = decided.fit(own.X, pd.Index(own.y).map(rename), table.iloc[::-1])
    one, other = renamed.scores(own.X_new, table), brief.scores(own.X_new, own.table)
    # Solvers that stop early depend a little on the order of the classes; the answers hardly do.
    assert (one.argmax(axis=1) == other.argmax(axis=1)).mean() > 0.97
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.99


def test_same_input_same_result(brief, own):
    again = clone(brief).fit(own.X, own.y, own.table)
    np.testing.assert_array_equal(again.scores(own.X_new, own.table), brief.scores(own.X_new, own.table))


def test_unseen_rows_of_the_table_are_not_looked_at(brief, own):
    other = own.table.copy()
    other.loc[own.unseen] = 7.0
    again = clone(brief).fit(own.X, own.y, other)
    assert again.decided_ == brief.decided_


@pytest.fixture(scope="module")
def fitted():
    """Return the experts of `TestInput.plain`, by name."""
    return {}


@pytest.mark.parametrize("name", list(EXPERTS))
class TestInput:
    @pytest.fixture
    def task(self, name, task):
        """Return the task as the expert takes it."""
        return suited(DECIDED[name], task)

    @pytest.fixture
    def plain(self, name, task, fitted):
        """Return the expert on the task as it is, fitted once for all tests that only ask it."""
        if name not in fitted:
            fitted[name] = self.fit(name, task)
        return fitted[name]

    def fit(self, name, task, X=None, y=None, table=None):
        return clone(DECIDED[name]).fit(
            task.X if X is None else X, task.y if y is None else y, task.table if table is None else table
        )

    def test_kinds_of_arrays_agree(self, name, task, plain):
        wanted = plain.scores(task.X_new, task.table)
        X = np.asfortranarray(task.X, dtype=np.float64)
        X.flags.writeable = False
        found = self.fit(name, task, X=X).scores(task.X_new, task.table)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)

    def test_constant_feature(self, name, task):
        X = task.X.copy()
        X[:, 3] = 2.5
        assert np.isfinite(self.fit(name, task, X=X).scores(X, task.table)).all()

    def test_class_with_one_sample(self, name, task):
        keep = np.ones(len(task.y), dtype=bool)
        keep[np.flatnonzero(task.y == task.seen[0])[1:]] = False
        expert = self.fit(name, task, X=task.X[keep], y=task.y[keep])
        assert np.isfinite(expert.scores(task.X_new, task.table)).all()

    def test_other_attributes_at_prediction(self, name, task, plain):
        with pytest.raises(ValueError, match=f"{task.table.shape[1]} attributes of the training"):
            plain.scores(task.X_new, task.table.iloc[:, :-1])


# Values out of the range of parameters, by the rule that the message states.
OUTSIDE = {
    "be positive": (0.0, float("nan")),
    "not be negative": (-1.0, float("nan")),
    "be a whole number of at least 1": (0, 1.5),
    "be at least 0 and below 1": (-0.1, 1.0, float("nan")),
}
RULES = {
    "be positive": [
        "eszsl gamma lam", "dap C", "sync lam rho", "kernel sigma learning_rate", "sje learning_rate margin",
        "devise learning_rate", "ale margin", "dcn sharpness entropy_sharpness", "triple sharpness",
        "rn learning_rate", "f-clswgan critic_rate balance learning_rate", "lago learning_rate gain",
        "gaussian ridge",
    ],
    "not be negative": [
        "kernel beta", "triple alpha beta", "dcn entropy_weight", "rn weight_decay", "f-clswgan weight",
        "se-gzsl feedback", "gaussian width", "lago weight_decay class_decay group_prior",
    ],
    "be a whole number of at least 1": [
        "kernel epochs", "sje epochs", "rn epochs hidden class_hidden batch_size",
        "f-clswgan epochs batch_size critic_steps", "se-gzsl latent", "lago batch_size n_groups n_components",
    ],
    "be at least 0 and below 1": ["dcn dropout", "iciness dropout", "gaussian shrinkage"],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in RULES.items() for text in texts])
def test_parameters_out_of_range(rule, text, task):
    name, *parameters = text.split()
    if DECIDED[name].needs_torch:
        pytest.importorskip("torch")
    for parameter, value in product(parameters, OUTSIDE[rule]):
        with pytest.raises(ValueError, match=f"{parameter} must {rule}, got {value}"):
            clone(DECIDED[name]).set_params(**{parameter: value}).fit(task.X, task.y, task.table)


class TestESZSL:
    def test_a_class_like_the_mean_is_scored(self, task):
        expert = ESZSL(1.0, 1.0, temperature=1.0).fit(task.X, task.y, task.table)
        mean = task.table.loc[task.seen].mean().to_frame("mean").T
        assert np.isfinite(expert.scores(task.X_new, mean)).all()


class TestDAP:
    def test_constant_attributes_are_left_out(self, task):
        table = task.table.copy()
        table[("shape", 9)] = 1.0
        expert = DAP(0.01, temperature=1.0).fit(task.X, task.y, table)
        assert expert.used_.tolist() == [True] * 10 + [False]

    def test_nothing_to_learn(self, task):
        with pytest.raises(ValueError, match="no attribute differs"):
            DAP(0.01, temperature=1.0).fit(task.X, task.y, task.table * 0 + 1)

    def test_attribute_classifiers_are_logistic_regressions(self, task):
        """One of the jointly fitted classifiers against scikit-learn's."""
        from sklearn.linear_model import LogisticRegression

        expert = DAP(0.01, temperature=1.0).fit(task.X, task.y, task.table)
        scaled = (task.X - expert.mean_) / expert.scale_
        has = task.table.loc[task.y].to_numpy()[:, 2] > 0
        single = LogisticRegression(C=0.01, tol=1e-8, max_iter=1000).fit(scaled, has)
        np.testing.assert_allclose(expert.weights_[:, 2], single.coef_[0], atol=3e-3)


def test_no_two_methods_agree_on_all_rows():
    """Two names for one method would share a row in every table."""
    pytest.importorskip("torch")
    task = Task(rows=16, noise=2.0)  # noise leaves experts something to disagree about
    guesses = {}
    for name, decided in DECIDED.items():
        own, expert = suited(decided, task), clone(decided)
        if isinstance(expert, GenerativeExpert):
            expert.set_params(epochs=6)  # after one, all of them predict one class
        expert.fit(own.X, own.y, own.table)
        guesses[name] = expert.scores(np.r_[own.X, own.X_new], own.table).argmax(axis=1)
    assert len(guesses) > 10
    for one, other in combinations(guesses, 2):
        assert (guesses[one] != guesses[other]).mean() > 0.05, f"{one} and {other} agree"
