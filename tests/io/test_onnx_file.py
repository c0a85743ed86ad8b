"""ONNX files answer as the models do."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from cosmo import ESZSL, Cosmo, SimilarityExpert, export_onnx, fit_model
from cosmo.cli import main
from cosmo.experts import (
    Discriminant,
    EnsembleExpert,
    SoftmaxRegression,
    make_seen_expert,
    make_unseen_expert,
)
from cosmo.io.onnx_file import largest_difference

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def joint():
    """Return rows near the descriptions of their classes."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(24, 16)), index=np.arange(24) * 3)
    codes = np.arange(480) % 24
    return table, table.to_numpy()[codes] + 0.9 * rng.normal(size=(480, 16)), table.index[codes]


def check(cosmo, rows, path):
    """Export, and compare all answers."""
    export_onnx(cosmo, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = np.asarray(rows, dtype=np.float32)
    label, proba, p_seen = session.run(None, {"features": rows})
    expected = cosmo.predict_proba(rows)
    np.testing.assert_allclose(proba, expected, atol=1e-5)
    np.testing.assert_allclose(p_seen, cosmo.predict_top(rows, 1)[2], atol=1e-5)
    best = np.sort(expected, axis=1)
    clear = best[:, -1] - best[:, -2] > 2e-5
    assert clear.mean() > 0.95
    assert np.array_equal(label[clear], cosmo.predict(rows)[clear])
    return session.get_modelmeta().custom_metadata_map


@pytest.mark.parametrize(
    ("seen", "unseen", "transform"),
    [
        (None, ESZSL(1.0, 1.0), "none"),
        (Discriminant(), make_unseen_expert("gaussian:shrinkage=0.2,ridge=0.1,width=0.3"), "unit roots"),
        (
            LogisticRegression(max_iter=300),
            EnsembleExpert([ESZSL(0.01, 1.0), ESZSL(100.0, 1.0)], [0.3, 0.7]),
            "unit",
        ),
    ],
    ids=["eszsl", "gaussian", "ensemble"],
)
def test_linear_experts(data, train, tmp_path, seen, unseen, transform):
    options = {"seen": seen, "unseen": unseen, "feature_transform": transform}
    cosmo = Cosmo(data.descriptions, **options).fit(*train)
    facts = check(cosmo, data.features, tmp_path / "m.onnx")
    assert cosmo.predict_top(data.features, 1)[2].std() > 0.1  # Both domains are among the answers.
    assert json.loads(facts["classes"]) == cosmo.classes_.tolist()
    assert json.loads(facts["seen_classes"]) == cosmo.seen_classes_.tolist()


@pytest.mark.parametrize(
    ("n_seen", "unseen"),
    [(16, EnsembleExpert([SimilarityExpert(0.4, 0.5), ESZSL(1.0, 1.0)], temperature=0.5)), (2, ESZSL())],
)
def test_similarity_with_an_added_class_and_numbers_as_labels(joint, tmp_path, n_seen, unseen):
    table, X, y = joint
    train = y.isin(table.index[:n_seen])
    cosmo = Cosmo(table[:-1], unseen=unseen).fit(X[train], y[train]).add_classes(table[-1:])
    facts = check(cosmo, X, tmp_path / "m.onnx")
    assert json.loads(facts["classes"]) == table.index.tolist()


def test_other_models_are_refused_by_name(data, train, tmp_path):
    X, y = train

    def check_refusal(message, **options):
        with pytest.raises(ValueError, match=message):
            export_onnx(Cosmo(data.descriptions, **options).fit(X, y), tmp_path / "m.onnx")
        assert not (tmp_path / "m.onnx").exists()

    quick = {"unseen": ESZSL(1.0, 1.0)}
    check_refusal("paper's method", method="paper", **quick)
    knn = make_seen_expert("knn")
    check_refusal("the seen expert KNeighborsClassifier is not linear", seen=knn, rounds=1, **quick)
    check_refusal("the unseen expert DAP is not linear", unseen=make_unseen_expert("dap"), rounds=1)
    model = fit_model(X, y, data.descriptions, seen=SoftmaxRegression(), **quick)
    name = data.unseen_classes[0]
    model.learn(data.features[data.labels == name][:2], [name] * 2)
    with pytest.raises(ValueError, match="learned after its training"):
        export_onnx(model, tmp_path / "m.onnx")


def test_command(data, train, tmp_path, capsys):
    model = fit_model(*train, data.descriptions, unseen=ESZSL(1.0, 1.0))
    model.save(tmp_path / "m.cosmo")
    assert main(["export", str(tmp_path / "m.cosmo"), str(tmp_path / "m.onnx")]) == 0
    assert "rows differ by at most" in capsys.readouterr().out
    model.cosmo.combination_.expect_share(0.9)  # The file is of another model now.
    with pytest.raises(ValueError, match="differ by up to"):
        largest_difference(model, tmp_path / "m.onnx", data.features)
