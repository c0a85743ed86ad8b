"""Freeze the accuracies that the commands write, in percent."""

import csv
import json
from pathlib import Path

import pytest

from cosmo.cli import main
from cosmo.data import load_glyphs, write_xlsa17

TOLERANCE = 0.05  # percentage points
# Other processors round otherwise, which may move a threshold that is chosen past a sample or two.
SAMPLES = 1.0
# A handful of rows stands for the table: the data are not to be copied into the repository.
RULES = ("Independent-Hard", "CB-Gating-3", "Const-Smoothing", "Adaptive-Smoothing", "COSMO")


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    """Keep files that a command writes by default out of the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Write a small set of glyphs as a benchmark folder."""
    folder = tmp_path_factory.mktemp("data") / "small"
    write_xlsa17(load_glyphs(n_classes=40, samples_per_class=16), folder)
    return folder


def cosmo(*words):
    """Run a command that must succeed."""
    assert main([str(word) for word in words]) == 0


def read(path):
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def take(row, *columns, scale=1.0):
    """Return some columns of a row as rounded numbers."""
    return {column: round(scale * float(row[column]), 3) for column in columns}


def compare(found, kept, tolerance=TOLERANCE):
    """Fail unless rows and columns are the same, in order, and figures are within the tolerance."""
    assert list(found) == list(kept)
    for row, figures in kept.items():
        wide = {column: tolerance * (3 if "fpr" in column else 1) for column in figures}
        assert found[row] == {column: pytest.approx(figures[column], abs=wide[column]) for column in figures}


def test_run(frozen):
    cosmo("run", "glyphs", "--unseen", "eszsl", "-q", "--out", "out")
    results = json.loads(Path("out", "results.json").read_text(encoding="utf-8"))
    columns = ("acc_ts", "acc_tr", "acc_h", "ausuc")
    found = {row["name"]: take(row, *columns, scale=100) for row in results["results"]}
    facts = ("seen_expert_accuracy", "zsl_t1", "gate_auc", "gate_fpr95", "max_softmax_auc")
    found["facts"] = take(results["facts"], *facts, scale=100)
    compare(found, frozen("run", found), SAMPLES)
    files = {path.name for path in Path("out").iterdir()}
    assert files >= {"results.json", "curves.csv", "plane.png", "report.html", "model.cosmo"}


def test_compare(small, frozen):
    methods = ["eszsl", "sje:learning_rate=3.0,epochs=2", "lago:variant=singletons,epochs=2"]
    options = ["--seen", "lda", "--jobs", "1", "--cache", "cache", "--out", "out", "-q"]
    cosmo("compare", small, "--methods", *methods, *options)
    columns = ("t1", "acc_ts", "acc_tr", "acc_h", "acc_h_low", "acc_h_high", "ausuc")
    found = {
        f"{row['descriptions']}: {row['method']}, {row['way']}": take(row, *columns)
        for row in read(Path("out", "compare.csv"))
    }
    compare(found, frozen("compare", found))


def test_gates(small, frozen):
    gates = ["max-softmax", "confidence", "evidence"]
    options = ["--folds", "1", "--cache", "cache", "--out", "out", "-q"]
    cosmo("gates", small, "--gates", *gates, *options)
    columns = ("auc", "fpr", "ece", "scaled_ece", "acc_h", "test_auc", "test_fpr", "test_acc_h")
    found = {row["gate"]: take(row, *columns) for row in read(Path("out", "gates.csv"))}
    compare(found, frozen("gates", found), SAMPLES)


def test_paper(predictions_folder, frozen):
    # Without features nothing is trained: only rows of the published predictions have figures.
    Path("data").mkdir()
    Path("data", "predictions").symlink_to(predictions_folder)
    options = ["--search", "authors", "--jobs", "1", "--cache", "cache", "--out", "out", "-q"]
    found = {}
    for part, narrowed in {"main": [], "scores": ["--expert", "LAGO"]}.items():
        cosmo("paper", part, "--data", "data", "--dataset", "CUB", "AWA1", *narrowed, *options)
        for row in read(Path("out", "tables", f"{part}.csv")):
            if row["metric"] == "acc_h" and row["value"] and (part == "main" or row["row"] in RULES):
                found[f"{part}, {row['dataset']}: {row['row']}"] = {"acc_h": round(float(row["value"]), 3)}
    compare(found, frozen("paper", found))
