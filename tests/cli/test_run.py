from __future__ import annotations

import io
import json
import logging
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cosmo.cli import main
from cosmo.data import GZSLDataset, load_glyphs, write_xlsa17
from cosmo.io.model import Model
from cosmo.io.model_file.registry import KNOWN
from cosmo.viz.page import read_view

FILES = {"results.json", "curves.csv", "plane.png", "report.html", "model.cosmo"}
ROWS = [
    "ESZSL alone",
    "CS + ESZSL",
    "Independent-Hard",
    "Independent-Soft",
    "CB-Gating",
    "Adaptive-Smoothing",
    "COSMO",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set in xlsa17 layout."""
    path = tmp_path_factory.mktemp("run") / "small"
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    features = glyphs.features[:, ::6]
    write_xlsa17(GZSLDataset(features, glyphs.labels, glyphs.descriptions, glyphs.split), path)
    return path


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def strict(text: str | bytes) -> Any:
    """Parse JSON by the standard: no NaN, no Infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def cells(text: str) -> list[list[str]]:
    """The body rows of a printed table."""
    return [
        [cell.strip() for cell in line.strip("│\n").split("│")] for line in text.splitlines() if "│" in line
    ]


class Run(NamedTuple):
    """A run with all options at their defaults."""

    place: Path
    results: dict[str, Any]
    out: str
    err: str


def run_in(place: Path, argv: list[str]) -> tuple[str, str]:
    """Run the command in a working folder and return what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "80")
        patch.chdir(place)
        assert main(["run", *argv]) == 0
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("plain")
    out, err = run_in(place, [str(folder)])
    return Run(place, strict((place / "cosmo-runs" / "small" / "results.json").read_bytes()), out, err)


class TestOneRun:
    def test_files(self, plain: Run):
        written = [path.relative_to(plain.place) for path in plain.place.rglob("*") if path.is_file()]
        assert {str(path) for path in written} == {f"cosmo-runs/small/{name}" for name in FILES}
        assert all((plain.place / path).stat().st_size > 100 for path in written)
        assert "report: cosmo-runs/small/report.html" in plain.out.splitlines()

    def test_page(self, plain: Run):
        view = read_view((plain.place / "cosmo-runs" / "small" / "report.html").read_text("utf-8"))
        rows = view["sets"][0]["tables"][0]["rows"]
        assert [row[3] for row in rows] == pytest.approx(
            [100 * one["acc_h"] for one in plain.results["results"]]
        )

    def test_model(self, plain: Run, folder: Path):
        model = Model.load(plain.place / "cosmo-runs" / "small" / "model.cosmo")
        point = plain.results["results"][-1]["operating_point"]
        assert model.cosmo.operating_point_._asdict() == point
        assert model.card()["data"] == "small"
        view = read_view((plain.place / "cosmo-runs" / "small" / "report.html").read_text("utf-8"))
        classes = view["sets"][0]["classes"]
        assert classes["names"][: classes["seen"]] == [str(name) for name in model.cosmo.seen_classes_]

    def test_an_expert_that_files_do_not_know(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.delitem(KNOWN, "ESZSL")
        _, err = run_in(tmp_path, [str(folder)])
        written = tmp_path / "cosmo-runs" / "small"
        assert {path.name for path in written.iterdir()} == FILES - {"model.cosmo"}
        assert "no model.cosmo, the report is complete without it: " in err
        assert "ESZSL" in err.splitlines()[-1]

    def test_table(self, plain: Run):
        assert plain.results["dataset"]["name"] == "small"
        expected = [
            [
                row["name"],
                *(f"{100 * row[key]:.1f}" for key in ("acc_ts", "acc_tr", "acc_h")),
                " - ".join(f"{100 * end:.1f}" for end in row["acc_h_95"]),
                f"{100 * row['ausuc']:.1f}",
            ]
            for row in plain.results["results"]
        ]
        assert [row[0] for row in expected] == ROWS
        assert cells(plain.out) == expected

    def test_facts(self, plain: Run):
        said = " ".join(plain.out.split())
        for name, text in (
            ("seen_expert_accuracy", "seen expert {:.1f} %"),
            ("zsl_t1", "unseen expert {:.1f} % (T1)"),
            ("gate_auc", "gate AUC {:.1f},"),
            ("max_softmax_auc", "max-softmax {:.1f} "),
        ):
            assert text.format(100 * plain.results["facts"][name]) in said

    def test_progress(self, plain: Run):
        steps = [
            "loading",
            "17 seen + 7 unseen",
            "validation stage",
            "gate",
            "test stage",
            "test set",
            "report",
        ]
        places = [plain.err.find(step) for step in steps]
        assert -1 not in places
        assert places == sorted(places)
        assert all(re.match(r" +\d+\.\d s  ", line) for line in plain.err.splitlines())
        assert "│" not in plain.err

    @pytest.mark.usefixtures("plain")
    def test_logging_is_left_as_it_was(self):
        assert logging.getLogger("cosmo").handlers == []
        assert logging.getLogger("cosmo").level == logging.NOTSET

    def test_json_and_quiet(
        self, folder: Path, tmp_path: Path, plain: Run, capsys: pytest.CaptureFixture[str]
    ):
        assert main(["run", str(folder), "--out", str(tmp_path / "deep" / "out"), "--json", "-q"]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        results = strict(printed.out)
        assert results == strict((tmp_path / "deep" / "out" / "results.json").read_bytes())
        assert results == plain.results

    def test_built_in_data_is_the_default(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        seeds = []

        def small(*, seed: int) -> GZSLDataset:
            seeds.append(seed)
            return load_glyphs(n_classes=24, samples_per_class=12, seed=seed)

        monkeypatch.setattr("cosmo.cli._options.load_glyphs", small)
        assert main(["run", "--out", str(tmp_path), "--seed", "3", "--json", "-q"]) == 0
        results = strict(capsys.readouterr().out)
        assert seeds == [3]
        assert results["dataset"]["name"] == "glyphs"
        assert results["settings"]["seed"] == 3

    def test_any_name_is_printed_as_it_is(
        self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        # Markup of the library that prints: a tag, an end without a beginning, an emoji.
        odd = tmp_path / "[red]data[" / "b]:cat:"
        shutil.copytree(folder, odd)
        out = tmp_path / "out[v2]" / "x[" / "y]:cat:"
        assert main(["run", str(odd), "--out", str(out)]) == 0
        printed = capsys.readouterr()
        assert f"loading {odd}\n" in printed.err
        assert "GZSLDataset('b]:cat:': " in printed.err
        assert "b]:cat:: test accuracy" in printed.out
        assert f"report: {out / 'report.html'}" in printed.out.splitlines()


OPTIONS = [
    (["--unseen", "dap"], {"unseen": "dap"}),
    (["--gate", "max-softmax"], {"gate": "max-softmax"}),
    (["--gate", "confidence-auto"], {"gate": "confidence-auto"}),
    (["--smoothing", "constant"], {"smoothing": "constant"}),
    (["--smoothing", "none"], {"smoothing": "none"}),
    (["--seen", "lda"], {"seen": "lda"}),
    (["--seen", "knn"], {"seen": "knn"}),
]


@pytest.mark.parametrize(("options", "settings"), OPTIONS, ids=[" ".join(pair[0]) for pair in OPTIONS])
def test_option_is_used(
    options: list[str],
    settings: dict[str, str],
    folder: Path,
    plain: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    assert main(["run", str(folder), "--out", str(tmp_path), "--json", "-q", *options]) == 0
    results = strict(capsys.readouterr().out)
    assert results["settings"] == {**plain.results["settings"], **settings}
    rows = {row["name"]: row for row in results["results"]}
    before = {row["name"]: {**row} for row in plain.results["results"]}
    expert = settings.get("unseen", "eszsl").upper()
    assert list(rows) == [name.replace("ESZSL", expert) for name in ROWS]
    # What the option is about has changed ...
    assert rows["COSMO"] != before["COSMO"]
    # ... and what it has no part in has not.
    if "seen" not in settings and "unseen" not in settings:
        untouched = set(ROWS) - {"COSMO"} - ({"CB-Gating"} if "gate" in settings else set())
        assert {name: rows[name] for name in untouched} == {name: before[name] for name in untouched}
    if "seen" in settings:
        row, same = rows["CS + ESZSL"], before["CS + ESZSL"]
        # Linear experts are asked in one product, others each by itself: sums may round otherwise.
        assert row.pop("operating_point") == pytest.approx(same.pop("operating_point"), rel=1e-5)
        assert row == same
        assert results["facts"]["zsl_t1"] == plain.results["facts"]["zsl_t1"]
    if "unseen" in settings:
        assert results["facts"]["seen_expert_accuracy"] == plain.results["facts"]["seen_expert_accuracy"]
    if settings.get("smoothing") == "none":
        assert {**rows["COSMO"], "name": ""} == {**rows["CB-Gating"], "name": ""}
    if settings.get("gate") == "max-softmax":
        assert {**rows["COSMO"], "name": ""} == {**rows["Adaptive-Smoothing"], "name": ""}


def test_attribute_names_and_file_names(folder: Path, tmp_path: Path, plain: Run):
    other = tmp_path / "other"
    other.mkdir()
    for name, new in (("res101", "mine"), ("att_splits", "words")):
        (other / f"{new}.mat").write_bytes((folder / f"{name}.mat").read_bytes())
    out = tmp_path / "out"
    options = [
        "--features",
        "mine",
        "--descriptions",
        "words",
        "--attributes",
        str(folder / "attributes.txt"),
    ]
    assert main(["run", str(other), "--out", str(out), "-q", *options]) == 0
    results = strict((out / "results.json").read_bytes())
    assert results["results"] == plain.results["results"]


class TestSeed:
    def test_equal_seeds_equal_files_and_others_not(self, folder: Path, tmp_path: Path):
        def results(seed: int, name: str) -> bytes:
            out = tmp_path / name
            assert main(["run", str(folder), "--out", str(out), "-q", "--seed", str(seed)]) == 0
            return (out / "results.json").read_bytes()

        one, again, other = results(5, "one"), results(5, "again"), results(6, "other")
        assert one == again
        for name in ("curves.csv", "plane.png"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
        assert strict(one)["results"] != strict(other)["results"]


@pytest.fixture(scope="module")
def repeated(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("repeated")
    out, err = run_in(place, [str(folder), "--repeats", "2", "--seed", "4", "--out", "here"])
    return Run(place, strict((place / "here" / "results.json").read_bytes()), out, err)


class TestRepeats:
    def test_seeds_follow_each_other(self, repeated: Run):
        repeats = repeated.results["repeats"]
        assert [one["settings"]["seed"] for one in repeats] == [4, 5]
        assert repeated.results["results"] == repeats[0]["results"]
        assert repeats[0]["results"] != repeats[1]["results"]
        assert "seed 4: " in repeated.err
        assert "seed 5: " in repeated.err

    def test_means_are_printed(self, repeated: Run):
        words = " ".join(repeated.out.replace("│", " ").split())
        assert "2 seeds" in words
        names = {"acc_ts": "Acc_ts", "acc_tr": "Acc_tr", "acc_h": "Acc_H", "ausuc": "AUSUC"}
        for key, name in names.items():
            mean = sum(100 * one["results"][-1][key] for one in repeated.results["repeats"]) / 2
            assert repeated.results["summary_percent"]["COSMO"]["mean"][name] == pytest.approx(mean)
            assert re.search(rf"(?<![\d.]){mean:.1f} ±", words), key

    def test_methods_can_be_told_apart_in_80_columns(self, repeated: Run):
        assert "…" not in repeated.out
        first = "".join(row[0].replace(" ", "") for row in cells(repeated.out))  # long names may be wrapped
        assert first == "".join(ROWS).replace(" ", "")


class TestWrongInput:
    def fails(self, argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
        """Check status 2, nothing on stdout, one line (after the progress) on stderr; return it."""
        try:
            code: Any = main(["run", *argv])
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        assert code == 2
        assert printed.out == ""
        assert "Traceback" not in printed.err
        said = [line for line in printed.err.splitlines() if line.startswith("cosmo run: ")]
        assert len(said) == 1
        assert printed.err.endswith(said[0] + "\n")
        return said[0]

    def test_unknown_dataset(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        monkeypatch.chdir(tmp_path)
        message = self.fails(["glyps", "-q"], capsys)
        assert "'glyps'" in message
        assert "'glyphs'" in message

    def test_a_wrong_name_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        monkeypatch.chdir(tmp_path)
        self.fails(["glyps", "-q"], capsys)
        assert list(tmp_path.iterdir()) == []

    def test_folder_without_data(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        empty = tmp_path / "empty"
        empty.mkdir()
        message = self.fails([str(empty), "-q", "--out", str(tmp_path / "out")], capsys)
        assert "res101.mat" in message

    def test_folder_with_a_broken_file(
        self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        broken = tmp_path / "broken"
        broken.mkdir()
        content = (folder / "res101.mat").read_bytes()
        (broken / "res101.mat").write_bytes(content[: len(content) // 2])
        (broken / "att_splits.mat").write_bytes((folder / "att_splits.mat").read_bytes())
        message = self.fails([str(broken), "-q", "--out", str(tmp_path / "out")], capsys)
        assert "res101.mat" in message

    @pytest.mark.parametrize("option", ["--features", "--descriptions"])
    def test_missing_file(
        self, option: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        message = self.fails([str(folder), "-q", "--out", str(tmp_path), option, "nosuch"], capsys)
        assert "nosuch.mat" in message

    def test_missing_attribute_names(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        argv = [str(folder), "-q", "--out", str(tmp_path), "--attributes", str(tmp_path / "nosuch.txt")]
        assert "nosuch.txt" in self.fails(argv, capsys)

    @pytest.mark.parametrize("repeats", ["0", "-3"])
    def test_no_repeats(self, repeats: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        message = self.fails([str(folder), "--out", str(tmp_path), "--repeats", repeats], capsys)
        assert "--repeats" in message
        assert repeats in message

    def test_a_file_in_the_place_of_the_folder(
        self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        out = tmp_path / "out"
        out.write_text("mine")
        assert str(out) in self.fails([str(folder), "-q", "--out", str(out)], capsys)
        assert str(out) in self.fails([str(folder), "-q", "--out", str(out / "below")], capsys)
        assert out.read_text() == "mine"

    def test_a_folder_in_the_place_of_a_file(
        self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        (tmp_path / "results.json").mkdir()
        assert "results.json" in self.fails([str(folder), "-q", "--out", str(tmp_path)], capsys)
        assert not any(path.is_file() for path in tmp_path.rglob("*"))

    @pytest.mark.parametrize(
        "option",
        [["--seen", "x"], ["--gate", "x"], ["--smoothing", "x"], ["--seed", "x"]],
    )
    def test_unknown_choice(self, option: list[str], capsys: pytest.CaptureFixture[str]):
        with pytest.raises(SystemExit) as stop:
            main(["run", *option])
        assert stop.value.code == 2
        assert f"argument {option[0]}: invalid" in capsys.readouterr().err

    def test_negative_seed(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert "eed" in self.fails([str(folder), "-q", "--out", str(tmp_path), "--seed", "-1"], capsys)
