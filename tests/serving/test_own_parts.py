"""A model of an own expert, an own gate and a forest: fitted, saved, loaded, streamed and served."""

import json
import os
import subprocess
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import cosmo
from cosmo.cli import main
from cosmo.io.model_file import ModelError, read_card

pytest.importorskip("skops")

MODULE = '''
import numpy as np
from cosmo.gates import Gate


class Ridge:
    """Not a subclass of anything."""

    def fit(self, X, y, descriptions):
        gram = X.T @ X + 10 * np.eye(X.shape[1])
        self.weights = np.linalg.solve(gram, X.T @ descriptions.loc[y].to_numpy())

    def scores(self, X, descriptions):
        classes = descriptions.to_numpy()
        return 2 * X @ self.weights @ classes.T - (classes**2).sum(axis=1)


class Margin(Gate):
    def fit(self, *outputs):
        return self

    def score(self, outputs):
        best = outputs.top_seen(2).astype(float)
        return best[:, 0] - best[:, 1]
'''


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Import the module from a folder."""
    (tmp_path / "own_parts.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("own_parts")
    del sys.modules["own_parts"]


def test_from_fit_to_server(parts, data, tmp_path, monkeypatch, make_client, capsys):
    monkeypatch.chdir(tmp_path)
    train, rows = data.split.trainval, np.tile(data.features, (50, 1))
    seen = RandomForestClassifier(20, random_state=0)
    model = cosmo.Cosmo(
        data.descriptions, method="paper", seen=seen, unseen=parts.Ridge(), gate=parts.Margin()
    )
    model.fit(data.features[train], data.labels[train])
    expected = model.predict(data.features)
    model.save("own.cosmo")

    # Nothing of it is imported before the types are trusted.
    types = ["own_parts.Margin", "own_parts.Ridge", "sklearn.tree._tree.Tree"]
    assert read_card("own.cosmo")["types"] == types
    script = (
        "import cosmo, sys\n"
        "try: cosmo.load('own.cosmo')\nexcept ValueError: print('own_parts' in sys.modules)"
    )
    alone = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    found = subprocess.run(
        [sys.executable, "-c", script], env=alone, capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"
    with pytest.raises(ModelError, match="has objects of own_parts"):
        cosmo.load("own.cosmo")
    again = cosmo.load("own.cosmo", trusted=[parts.Margin, parts.Ridge, types[2]])
    np.testing.assert_array_equal(again.predict_proba(data.features), model.predict_proba(data.features))

    # Streamed by a fresh process, in batches.
    np.save("rows.npy", rows)
    words = ["predict", "own.cosmo", "rows.npy", "--out", "classes.csv", "--batch", "500", "--trust", *types]
    subprocess.run([sys.executable, "-m", "cosmo", *words], env=alone, check=True, capture_output=True)
    assert pd.read_csv("classes.csv", dtype={"label": str})["label"].tolist() == expected.tolist() * 50
    assert main(["show", "own.cosmo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["types"] == types
    assert main(["explain", "own.cosmo", "rows.npy"]) == 2
    assert "--trust own_parts.Margin own_parts.Ridge sklearn.tree" in capsys.readouterr().err

    # Served.
    client = make_client("own.cosmo", trusted=types)
    answers = client.post({"features": data.features[:50].tolist(), "top": 1}).json()["predictions"]
    assert [one["label"] for one in answers] == expected[:50].tolist()
