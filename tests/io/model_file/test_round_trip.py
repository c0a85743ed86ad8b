"""Saving and loading of every expert, gate and classifier of the registry."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from compositional import Task
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from cosmo import ESZSL, LAGO, Cosmo
from cosmo._core import MissingExtra
from cosmo.experts import UNSEEN_EXPERTS, Kernel, SynC, make_seen_expert
from cosmo.gates import GATES, make_gate
from cosmo.io._packing import KNOWN, known_name, pack, unpack
from cosmo.io.model_file import ModelError, load, read_card, save
from cosmo.mixture.outputs import OutputsSummary

SMALL = {
    "eszsl": {"gamma": 1.0, "lam": 1.0},
    "lago": {"variant": "semantic-soft", "epochs": 2},
    "sync": {"lam": 1e-4, "rho": 1.0},
    "kernel": {"sigma": 0.8, "epochs": 2},
    "dap": {"C": 1e-2},
    **{name: {"learning_rate": 1.0, "epochs": 2} for name in ("sje", "devise", "ale")},
}
GENERATIVE = ("f-clswgan", "cycle-wgan", "cycle-uwgan", "se-gzsl")


def small(name):
    kind = UNSEEN_EXPERTS[name]
    if not kind.needs_torch:
        return kind(**SMALL.get(name, {}))
    pytest.importorskip("torch")
    return kind(epochs=2, hidden=8)


@pytest.fixture(scope="module")
def task():
    return Task(rows=8)


def fit(task, **parts):
    table = task.table
    if isinstance(parts.get("unseen"), UNSEEN_EXPERTS.get("similarity", ())):
        table = pd.DataFrame(np.linspace(-1, 1, 25 * 30).reshape(25, 30) ** 3, index=task.table.index)
    unseen = parts.pop("unseen", ESZSL(1.0, 1.0))
    return Cosmo(table, unseen=unseen, **parts).fit(task.X, task.y)


def check_same(model, path, task, trusted=()):
    """Save, load, and compare: answers, added classes, operating points."""
    save(model, path)
    again = load(path, trusted=trusted)
    rows = np.concatenate([task.X, task.X_new])
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.operating_point_ == model.operating_point_
    assert again.validation_curve_.area == model.validation_curve_.area
    for one in (model, again):
        one.operate_at(min_seen=0.3)
    assert again.operating_point_ == model.operating_point_
    extra = model.experts_.descriptions.iloc[:2].set_axis(["p", "q"], axis=0)
    for one in (model, again):
        one.add_classes(extra[::-1])
    np.testing.assert_array_equal(again.predict_proba(rows[:20]), model.predict_proba(rows[:20]))
    assert again.classes_.tolist() == model.classes_.tolist()
    return again


@pytest.mark.parametrize("name", [name for name in UNSEEN_EXPERTS if name not in GENERATIVE])
def test_unseen_experts(name, task, tmp_path):
    check_same(fit(task, unseen=small(name)), tmp_path / "model.cosmo", task)


@pytest.mark.parametrize("name", GENERATIVE)
def test_generators(name, task):
    """Only by themselves: a whole model trains a classifier for every set of classes it meets."""
    expert = small(name).fit(task.X, task.y, task.table)
    expected = expert.scores(task.X_new, task.table)
    node, arrays = pack(expert, "expert")
    again = unpack(json.loads(json.dumps(node)), arrays)
    np.testing.assert_array_equal(again.scores(task.X_new, task.table), expected)
    np.testing.assert_array_equal(again.synthesize(task.table, 3), expert.synthesize(task.table, 3))
    assert all(part.startswith("mean G.") for part in again.weights_)


@pytest.mark.parametrize("unseen", [LAGO("k-soft", epochs=2, n_groups=3), LAGO("singletons", epochs=2),
                                    Kernel(epochs=2, kernel="linear"), SynC(1e-4, 1.0, centre=True),
                                    ESZSL(1.0, 1.0, centre=False)], ids=repr)  # fmt: skip
def test_variants(unseen, task, tmp_path):
    check_same(fit(task, unseen=unseen), tmp_path / "model.cosmo", task)


@pytest.mark.parametrize("name", GATES)
def test_gates(name, task, tmp_path):
    unseen = small("cmt" if name == "novelty" else "eszsl")
    gate = make_gate(name)
    if "epochs" in gate.get_params():
        gate.set_params(epochs=2)
    check_same(fit(task, unseen=unseen, method="paper", gate=gate), tmp_path / "model.cosmo", task)


@pytest.mark.parametrize("smoothing", ["constant", "none"])
def test_smoothings(smoothing, task, tmp_path):
    check_same(fit(task, method="paper", smoothing=smoothing), tmp_path / "model.cosmo", task)


# Parameters without which scikit-learn warns from version 1.8 on.
NEW_WAY = {"l1_ratios": (0,), "use_legacy_attributes": False}
if not NEW_WAY.keys() <= LogisticRegressionCV().get_params().keys():
    NEW_WAY = {}


@pytest.mark.parametrize(
    "seen",
    [
        *map(make_seen_expert, ("logistic", "logistic-sklearn", "lda", "knn")),
        LogisticRegressionCV(Cs=2, cv=2, scoring="accuracy", **NEW_WAY),
        LinearDiscriminantAnalysis(),
        make_pipeline(PCA(3), QuadraticDiscriminantAnalysis(reg_param=0.5)),
        GaussianNB(),
        MLPClassifier((20,), max_iter=100, random_state=0),
        KNeighborsClassifier(3),
        make_pipeline(StandardScaler(), PCA(4), KNeighborsClassifier(3, algorithm="kd_tree")),
        make_pipeline(MinMaxScaler(), MaxAbsScaler(), RobustScaler(), Normalizer(), LogisticRegression()),
        make_pipeline(None, LogisticRegression(C=float("inf"), tol=0.1)),
    ],
    ids=lambda seen: " ".join(repr(seen).split())[:60],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_seen_experts(seen, task, tmp_path):
    check_same(fit(task, seen=seen), tmp_path / "model.cosmo", task)


def test_a_seen_expert_of_one_class(task, tmp_path):
    """Two seen classes leave one for the validation stage."""
    rows = np.isin(task.y, task.seen[:2])
    model = Cosmo(task.table, unseen=ESZSL(1.0, 1.0)).fit(task.X[rows], task.y[rows])
    check_same(model, tmp_path / "model.cosmo", task)


@pytest.mark.parametrize(
    "labels",
    [range(25), [f"класс {i}" for i in range(25)], [float(i) for i in range(25)]],
    ids=["int", "unicode", "float"],
)
def test_labels_of_any_kind(labels, task, tmp_path):
    table = task.table.set_axis(pd.Index(list(labels), name="kind"), axis=0)
    y = table.index[task.table.index.get_indexer(task.y)]
    model = Cosmo(table, unseen=ESZSL(1.0, 1.0)).fit(task.X, y)
    again = check_same(model, tmp_path / "model.cosmo", task)
    assert again.experts_.descriptions.index.name == model.experts_.descriptions.index.name


def test_a_fitted_frame_keeps_its_columns(task, tmp_path):
    frame = pd.DataFrame(task.X, columns=[f"x{i}" for i in range(30)])
    model = Cosmo(task.table, unseen=ESZSL(1.0, 1.0)).fit(frame, task.y)
    save(model, tmp_path / "model.cosmo")
    again = load(tmp_path / "model.cosmo")
    assert again.feature_names_in_.tolist() == list(frame)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.iloc[:, ::-1])


def test_folders_of_the_machine_are_not_stored(task, tmp_path):
    folder = tmp_path / "secret-folder"
    model = fit(task, cache=folder)
    save(model, tmp_path / "model.cosmo")
    again = load(tmp_path / "model.cosmo")
    assert again.cache is None
    assert again.hold_out is None
    assert again.descriptions is again.experts_.descriptions
    assert b"secret-folder" not in (tmp_path / "model.cosmo").read_bytes()


def test_validation_outputs_are_summarised(task, tmp_path):
    model = fit(task)
    save(model, tmp_path / "model.cosmo")
    again = load(tmp_path / "model.cosmo")
    assert isinstance(again.validation_outputs_, OutputsSummary)
    save(again, tmp_path / "twice.cosmo")
    assert (tmp_path / "twice.cosmo").read_bytes() == (tmp_path / "model.cosmo").read_bytes()


TREE = "sklearn.tree._tree.Tree"
OTHERS = {
    "forest": (RandomForestClassifier(5, random_state=0), [TREE]),
    "boosting": (
        HistGradientBoostingClassifier(max_iter=3, random_state=0),
        ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"],
    ),
    "stacking": (
        StackingClassifier(
            [("a", GaussianNB()), ("b", ExtraTreesClassifier(5, random_state=0))], GaussianNB(), cv=2
        ),
        [TREE, "sklearn.utils._bunch.Bunch"],
    ),
    "pipeline": (make_pipeline(SplineTransformer(), RandomForestClassifier(9, random_state=0)), None),
    "random state": (LogisticRegression(random_state=np.random.RandomState(0)), []),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_classifiers(name, task, tmp_path):
    pytest.importorskip("skops")
    seen, types = OTHERS[name]
    model, path = fit(task, seen=seen), tmp_path / "model.cosmo"
    save(model, path)
    found = read_card(path)["types"]
    assert found == types or (types is None and TREE in found)
    if found:
        with pytest.raises(ModelError, match=f"has objects of {', '.join(found)}; .*--trust {found[0]}"):
            load(path)
        with pytest.raises(ModelError, match="has objects of"):
            load(path, trusted=["sklearn.svm._classes.SVC", *found[1:]])
    # What is stored does not depend on memory: a fingerprint identifies a model.
    save(load(path, trusted=found), tmp_path / "twice.cosmo")
    assert (tmp_path / "twice.cosmo").read_bytes() == path.read_bytes()
    check_same(model, path, task, found)


def test_classes_that_cannot_be_imported_raise(task, tmp_path, monkeypatch):
    pytest.importorskip("skops")

    class Mine(ESZSL):
        pass

    model = fit(task, unseen=Mine(1.0, 1.0))
    with pytest.raises(ModelError, match=r"model\.unseen is a Mine, which a model file cannot hold.*'Mine'"):
        save(model, tmp_path / "model.cosmo")
    monkeypatch.setattr(sys.modules["__main__"], "Mine", Mine, raising=False)
    Mine.__module__ = "__main__"
    with pytest.raises(ModelError, match=r"is a Mine, which cannot be stored: move __main__\.Mine from"):
        save(model, tmp_path / "model.cosmo")
    assert not list(tmp_path.iterdir())


def test_without_skops(task, tmp_path, monkeypatch):
    model = fit(task, seen=RandomForestClassifier(3))
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingExtra, match=r"model\.seen is a RandomForestClassifier.*pip install .*skops"):
        save(model, tmp_path / "model.cosmo")


def test_only_fitted_models_are_saved(task, tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        save(Cosmo(task.table), tmp_path / "model.cosmo")
    with pytest.raises(ModelError, match="holds a Cosmo or a Model, not a ESZSL"):
        save(ESZSL(), tmp_path / "model.cosmo")


def test_registry():
    for name, known in KNOWN.items():
        assert known_name(known.load()) == name
    assert {known_name(kind) for kind in UNSEEN_EXPERTS.values()} <= set(KNOWN)
