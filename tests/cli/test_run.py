"""`cosmo run`."""

import json
import logging
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cosmo.data import load_glyphs
from cosmo.io._packing import KNOWN
from cosmo.io.model import Model
from cosmo.viz.page import read_view

FILES = {"results.json", "curves.csv", "plane.png", "reliability.png", "report.html", "model.cosmo"}
PLAIN = ["--unseen", "eszsl"]
ROWS = [
    "ESZSL alone",
    "CS + ESZSL",
    "Independent-Hard",
    "Independent-Soft",
    "CB-Gating",
    "Adaptive-Smoothing",
    "COSMO",
    "COSMO, calibrated",
]


def strict(text):
    """Parse JSON by the standard: no NaN, no Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(name))


@pytest.fixture(scope="module")
def plain(benchmark, cosmo, tmp_path_factory):
    """One run with the experts of the paper."""
    place = tmp_path_factory.mktemp("plain")
    out, err = cosmo("run", benchmark, *PLAIN, folder=place)
    folder = place / "cosmo-runs" / "CUB"
    results = strict((folder / "results.json").read_bytes())
    return SimpleNamespace(place=place, folder=folder, results=results, out=out, err=err)


class TestOneRun:
    def test_files(self, plain):
        assert {path for path in plain.place.rglob("*") if path.is_file()} == {
            plain.folder / name for name in FILES
        }
        assert "report: cosmo-runs/CUB/report.html" in plain.out.splitlines()
        view = read_view((plain.folder / "report.html").read_text("utf-8"))
        rows = view["sets"][0]["tables"][0]["rows"]
        assert [row[3] for row in rows] == pytest.approx(
            [100 * one["acc_h"] for one in plain.results["results"]]
        )

    def test_model(self, plain):
        model = Model.load(plain.folder / "model.cosmo")
        point = plain.results["results"][-1]["operating_point"]
        assert model.cosmo.operating_point_._asdict() == point
        assert model.card()["data"] == "CUB"

    def test_an_expert_that_model_files_cannot_store(self, benchmark, cosmo, tmp_path, monkeypatch):
        monkeypatch.delitem(KNOWN, "ESZSL")
        _, err = cosmo("run", benchmark, *PLAIN, "--out", tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == FILES - {"model.cosmo"}
        assert "no model.cosmo, the report is complete without it: " in err
        assert "ESZSL" in err.splitlines()[-1]

    def test_chosen_experts(self, benchmark, cosmo, tmp_path):
        auto = ["--unseen", "auto", "--seen", "auto", "--budget", "5s"]
        out, _ = cosmo("run", benchmark, "--out", tmp_path, *auto)
        model = Model.load(tmp_path / "model.cosmo").cosmo
        results = strict((tmp_path / "results.json").read_bytes())
        assert results["choice"] == model.choice_.rows()
        assert model.choice_.unseen in " ".join(out.split())
        view = read_view((tmp_path / "report.html").read_text("utf-8"))
        assert model.choice_.rows()[0] in str(view)

    def test_table(self, plain):
        words = " ".join(plain.out.split())
        assert [row["name"] for row in plain.results["results"]] == ROWS
        for row in plain.results["results"]:
            low, high = (f"{100 * end:.1f}" for end in row["acc_h_95"])
            accuracies = " ".join(f"{100 * row[key]:.1f}" for key in ("acc_ts", "acc_tr", "acc_h"))
            assert f"{row['name']} {accuracies} {low} – {high} {100 * row['ausuc']:.1f}" in words
        for name, text in (
            ("seen_expert_accuracy", "seen expert {:.1f} %"),
            ("zsl_t1", "unseen expert {:.1f} % (T1)"),
            ("gate_auc", "gate AUC {:.1f},"),
            ("max_softmax_auc", "max-softmax {:.1f} "),
        ):
            assert text.format(100 * plain.results["facts"][name]) in words

    def test_progress(self, plain):
        steps = ["loading", "17 seen + 7 unseen", "validation stage", "gate", "test stage", "report"]
        places = [plain.err.find(step) for step in steps]
        assert -1 not in places
        assert places == sorted(places)
        assert all(re.match(r" +\d+\.\d s  ", line) for line in plain.err.splitlines())
        assert logging.getLogger("cosmo").handlers == []
        assert logging.getLogger("cosmo").level == logging.NOTSET

    def test_json_and_quiet(self, benchmark, cosmo, tmp_path, plain):
        out, err = cosmo("run", benchmark, *PLAIN, "--out", tmp_path / "deep" / "out", "--json", "-q")
        assert err == ""
        assert strict(out) == plain.results
        assert out.strip() == (tmp_path / "deep" / "out" / "results.json").read_text().strip()
        assert (tmp_path / "deep/out/plane.png").read_bytes() == (plain.folder / "plane.png").read_bytes()

    def test_built_in_data_is_the_default(self, cosmo, tmp_path, monkeypatch):
        def small(*, seed):
            assert seed == 3
            return load_glyphs(n_classes=24, samples_per_class=12, seed=seed)

        monkeypatch.setattr("cosmo.cli._options.load_glyphs", small)
        results = strict(cosmo("run", "--out", tmp_path, "--seed", "3", "--json", "-q").out)
        assert results["dataset"]["name"] == "glyphs"
        assert results["settings"]["seed"] == 3

    def test_any_name_is_printed_as_it_is(self, benchmark, cosmo, tmp_path):
        # Markup of rich: a tag, an end without a beginning, an emoji.
        odd = Path(shutil.copytree(benchmark, tmp_path / "[red]data[" / "b]:cat:"))
        out = tmp_path / "out[v2]" / "x[" / "y]:cat:"
        printed = cosmo("run", odd, "--out", out)
        assert f"loading {odd}\n" in printed.err
        assert "GZSLDataset('b]:cat:': " in printed.err
        assert "b]:cat:: test accuracy" in printed.out
        assert f"report: {out / 'report.html'}" in printed.out.splitlines()


OPTIONS = {"unseen": "dap", "gate": "max-softmax", "smoothing": "none", "seen": "lda"}


@pytest.mark.parametrize("option", OPTIONS)
def test_option(option, benchmark, cosmo, plain, tmp_path):
    value = OPTIONS[option]
    results = strict(
        cosmo("run", benchmark, *PLAIN, "--out", tmp_path, "--json", "-q", f"--{option}", value).out
    )
    assert results["settings"] == {**plain.results["settings"], option: value}
    rows = {row["name"]: row for row in results["results"]}
    before = {row["name"]: {**row} for row in plain.results["results"]}
    facts, facts_before = results["facts"], plain.results["facts"]
    assert rows["COSMO"] != before["COSMO"]
    if option in ("gate", "smoothing"):
        unchanged = set(ROWS) - {"COSMO"} - ({"CB-Gating"} if option == "gate" else set())
        assert {name: rows[name] for name in unchanged} == {name: before[name] for name in unchanged}
        same = "Adaptive-Smoothing" if option == "gate" else "CB-Gating"
        assert {**rows["COSMO"], "name": ""} == {**rows[same], "name": ""}
    elif option == "seen":
        assert rows["CS + ESZSL"]["acc_h"] == pytest.approx(before["CS + ESZSL"]["acc_h"])
        assert facts["zsl_t1"] == facts_before["zsl_t1"]
    else:
        assert list(rows) == [name.replace("ESZSL", "DAP") for name in ROWS]
        assert facts["seen_expert_accuracy"] == facts_before["seen_expert_accuracy"]


def test_model_of_the_paper(benchmark, cosmo, tmp_path, plain):
    cosmo("run", benchmark, *PLAIN, "--out", tmp_path, "-q", "--method", "paper")
    model = Model.load(tmp_path / "model.cosmo")
    assert model.card()["method"] == "paper"
    point = plain.results["results"][-2]["operating_point"]
    assert model.cosmo.operating_point_._asdict() == point


def test_repeats(benchmark, cosmo, tmp_path):
    out, err = cosmo("run", benchmark, "--repeats", "2", "--seed", "4", "--out", tmp_path)
    results = strict((tmp_path / "results.json").read_bytes())
    repeats = results["repeats"]
    assert [one["settings"]["seed"] for one in repeats] == [4, 5]
    assert results["results"] == repeats[0]["results"] != repeats[1]["results"]
    assert "seed 4: " in err
    assert "seed 5: " in err
    words = " ".join(out.split())
    assert "mean of 2 seeds" in words
    assert "…" not in out
    assert all(name.replace("ESZSL", "unseen expert") in words for name in ROWS)
    names = {"acc_ts": "Acc_ts", "acc_tr": "Acc_tr", "acc_h": "Acc_H", "ausuc": "AUSUC"}
    for key, name in names.items():
        mean = sum(100 * one["results"][-1][key] for one in repeats) / 2
        assert results["summary_percent"]["COSMO, calibrated"]["mean"][name] == pytest.approx(mean)
        assert re.search(rf"(?<![\d.]){mean:.1f} ±", words), key


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--features", "nosuch"], "nosuch.mat"),
            (["--descriptions", "nosuch"], "nosuch.mat"),
            (["--attributes", "nosuch.txt"], "nosuch.txt"),
            (["--repeats", "0"], "--repeats must be at least 1, got 0"),
            (["--seed", "-1"], "eed"),
            (["--seen", "x"], "argument --seen: unknown seen expert 'x'"),
            (["--gate", "x"], "argument --gate: invalid choice: 'x'"),
            (["--smoothing", "x"], "argument --smoothing: invalid choice: 'x'"),
            (["--seed", "x"], "argument --seed: invalid int value: 'x'"),
        ],
    )
    def test_options(self, options, message, benchmark, refuse, tmp_path):
        refuse(["run", benchmark, "-q", *options], message, tmp_path)
        assert not any(path.is_file() for path in tmp_path.rglob("*"))

    def test_data(self, benchmark, refuse, tmp_path):
        refuse(["run", "glyps"], "'glyps' is neither 'glyphs' nor a folder", tmp_path)
        assert list(tmp_path.iterdir()) == []
        broken = tmp_path / "broken"
        broken.mkdir()
        refuse(["run", broken, "-q", "--out", tmp_path / "out"], "res101.mat")
        shutil.copy(benchmark / "att_splits.mat", broken)
        (broken / "res101.mat").write_bytes((benchmark / "res101.mat").read_bytes()[:10_000])
        refuse(["run", broken, "-q", "--out", tmp_path / "out"], "res101.mat")

    def test_places_that_are_taken(self, benchmark, refuse, tmp_path):
        out = tmp_path / "out"
        out.write_text("mine")
        refuse(["run", benchmark, "-q", "--out", out], str(out))
        refuse(["run", benchmark, "-q", "--out", out / "below"], str(out))
        assert out.read_text() == "mine"
        folder = tmp_path / "folder"
        (folder / "results.json").mkdir(parents=True)
        refuse(["run", benchmark, "-q", "--out", folder], "results.json")
        assert not any(path.is_file() for path in folder.rglob("*"))
