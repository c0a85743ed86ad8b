from __future__ import annotations

import io
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

import cosmo.cli.paper as command
from cosmo.cli import main
from cosmo.data import load_glyphs
from cosmo.paper.inputs import DATASETS
from cosmo.paper.reproduce import PARTS
from cosmo.paper.runner import EXPERTS
from cosmo.viz.page import read_view

write_release = runpy.run_path(str(Path(__file__).parents[1] / "paper" / "conftest.py"))["write_release"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
FEATURES_OF_AWA1 = "features of AWA1: xlsa17/AWA1/res101.mat"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(autouse=True)
def no_data_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COSMO_DATA", raising=False)


class Run(NamedTuple):
    out: str
    err: str


def run_in(place: Path, argv: list[str]) -> Run:
    """Run the command in a working folder."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "80")
        patch.chdir(place)
        assert main(["paper", *argv, "--jobs", "1"]) == 0, err.getvalue()
    return Run(out.getvalue(), err.getvalue())


CHOICE = ["--dataset", "AWA1", "CUB", "--expert", "LAGO", "--source", "predictions"]
TABLES = ("main", "smoothing", "combination")
ARGUMENTS = [*TABLES, "walkthrough", "splits", *CHOICE, "--write", "deep/results/paper.md"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def plain(release: Path, place: Path) -> Run:
    return run_in(place, [*ARGUMENTS, "--data", str(release)])


def written(place: Path) -> Path:
    return place / "cosmo-runs" / "paper"


class TestOneRun:
    def test_files(self, plain: Run, place: Path):
        names = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
        kept = {name for name in names if name.startswith("cosmo-runs/cache/")}
        figures = ("walkthrough-CUB-LAGO", "splits-AWA1", "splits-CUB")
        assert names - kept == {
            "deep/results/paper.md",
            "cosmo-runs/paper/paper.md",
            "cosmo-runs/paper/paper.html",
            "cosmo-runs/paper/report.html",
            *(f"cosmo-runs/paper/tables/{name}.{suffix}" for name in TABLES for suffix in ("csv", "tex")),
            *(f"cosmo-runs/paper/figures/{name}.{suffix}" for name in figures for suffix in ("png", "svg")),
        }
        assert {Path(name).name.split("-")[0] for name in kept} == {"seen", "trial"}

    def test_numbers_agree(self, plain: Run, place: Path):
        out = written(place)
        texts = {name: (out / name).read_text() for name in ("paper.md", "paper.html")}
        short = (place / "deep" / "results" / "paper.md").read_text()
        for name in TABLES:
            latex = (out / "tables" / f"{name}.tex").read_text()
            frame = pd.read_csv(out / "tables" / f"{name}.csv").dropna(subset=["value"])
            assert len(frame) > 0
            for row in frame.itertuples():
                cell = f"{row.value:.1f} ({row.low:.1f}–{row.high:.1f})"
                printed = [] if pd.isna(row.published) else [f"{row.published:.1f}", f"{row.difference:+.1f}"]
                if printed:
                    assert row.difference == pytest.approx(row.value - row.published)
                mark = [printed[0], cell, printed[1]] if printed else [cell]
                for text in (texts["paper.md"], short):
                    lines = [line for line in text.splitlines() if line.startswith(f"| {row.row} |")]
                    assert any(" | ".join(mark) in line for line in lines)
                html = "".join(f"<td>{word}</td>" for word in mark)
                assert html in texts["paper.html"]
                assert " & ".join(mark).replace("–", "--") in latex
                assert cell in plain.out

    def test_document(self, plain: Run, place: Path):
        text = (written(place) / "paper.md").read_text()
        assert not re.search(r"\bnan\b|None", text)
        assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
            PARTS[name] for name in (*TABLES, "walkthrough", "splits")
        ]
        pictures = re.findall(r"!\[[^]]*\]\((.*)\)", text)
        assert len(pictures) == 3
        for picture in pictures:
            assert (written(place) / picture).is_file()
        assert "![" not in (place / "deep" / "results" / "paper.md").read_text()

    def test_no_folders_of_this_machine(self, plain: Run, place: Path, release: Path):
        for path in written(place).rglob("*.*"):
            content = path.read_bytes()
            assert str(release).encode() not in content
            assert str(place).encode() not in content

    def test_command_in_the_document_can_be_typed(self, plain: Run, place: Path):
        found = re.search(r"Written by `cosmo paper ([^`]*)`", (written(place) / "paper.md").read_text())
        assert found is not None
        args = command.parser().parse_args(found[1].split())
        assert args.parts == [*TABLES, "walkthrough", "splits"]
        assert (args.dataset, args.expert, args.source) == (["AWA1", "CUB"], ["LAGO"], ["predictions"])

    def test_what_is_missing_is_named(self, plain: Run, place: Path):
        line = f"not computed, for want of: {FEATURES_OF_AWA1}"
        # In every table and in the walk-through; splits need no features.
        assert plain.out.splitlines().count(line) == 4
        assert (written(place) / "paper.md").read_text().splitlines().count(f"- {FEATURES_OF_AWA1}") == 4

    def test_page_is_self_contained(self, plain: Run, place: Path):
        text = (written(place) / "paper.html").read_text()
        assert not re.search(r"https?:|<script|<link|url\(", text)
        sources = re.findall(r'src="([^"]*)"', text)
        assert len(sources) == 3
        assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)

    def test_planes_to_play_with(self, plain: Run, place: Path):
        view = read_view((written(place) / "report.html").read_text("utf-8"))
        assert '<a href="report.html">' in (written(place) / "paper.html").read_text()
        assert "report: cosmo-runs/paper/report.html" in plain.out.splitlines()
        shown = {one["name"]: one for one in view["sets"]}
        assert "CUB" in shown
        names = [curve["name"] for curve in shown["CUB"]["curves"]]
        assert names == ["COSMO + LAGO", "CS + LAGO", "LAGO"]
        frame = pd.read_csv(written(place) / "tables" / "main.csv").dropna(subset=["value"])
        frame = frame[(frame["dataset"] == "CUB") & (frame["metric"] == "acc_h")].set_index("row")["value"]
        rows = {row[0]: row[3] for row in shown["CUB"]["tables"][0]["rows"]}
        for name in names:
            assert rows[name] == pytest.approx(frame[name], abs=1e-5)
        assert any(point["name"] == "ESZSL (published)" for point in shown["CUB"]["points"])

    def test_progress(self, plain: Run):
        lines = [re.sub(r"^ +\d+\.\d s  ", "", line) for line in plain.err.splitlines()]
        assert lines[0] == "0 of 1 experts are trained already"
        assert lines[-1] == PARTS["splits"]

    def test_again(self, plain: Run, place: Path, release: Path, monkeypatch: pytest.MonkeyPatch):
        def fails(*_args: object, **_options: object) -> None:
            raise AssertionError("this was done before")

        before = {path: path.read_bytes() for path in written(place).rglob("*.*")}
        shutil.rmtree(written(place))
        monkeypatch.setattr("cosmo.paper.runner.measure", fails)
        monkeypatch.setattr("cosmo.evaluation.expert_cache.CachedClassifier.classifier_", None)
        again = run_in(place, [*ARGUMENTS, "--data", str(release), "-q"])
        assert (again.out, again.err) == (plain.out, "")
        for path, content in before.items():
            assert path.read_bytes() == content, path


class TestChoices:
    def frame(self, place: Path, name: str) -> pd.DataFrame:
        return pd.read_csv(written(place) / "tables" / f"{name}.csv", keep_default_na=False)

    def test_authors_search(self, release: Path, tmp_path: Path, place: Path, plain: Run):
        options = ["--dataset", "CUB", "--expert", "LAGO", "--source", "predictions", "--search", "authors"]
        cache = ["--cache", str(place / "cosmo-runs" / "cache")]
        run_in(tmp_path, ["main", "--data", str(release), *options, *cache])
        frame = self.frame(tmp_path, "main")
        assert {*frame["search"]} == {"authors"}
        exact = self.frame(place, "main").query("dataset == 'CUB'")
        assert list(frame["row"]) == list(exact["row"])
        assert list(frame["value"]) != list(exact["value"])
        assert "--search authors`" in (written(tmp_path) / "paper.md").read_text()

    def test_data_from_the_environment(self, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COSMO_DATA", str(release))
        run_in(tmp_path, ["main", "--dataset", "AWA1", "--expert", "LAGO", "--source", "predictions"])
        assert (self.frame(tmp_path, "main")["value"] != "").sum() == 6

    def test_names_that_are_repeated(self, release: Path, tmp_path: Path):
        options = ["--dataset", "AWA1", "AWA1", "--expert", "LAGO", "LAGO", "--source", "scores", "scores"]
        run_in(tmp_path, ["scores", "scores", "--data", str(release), *options])
        frame = self.frame(tmp_path, "scores")
        assert not frame.duplicated(["row", "metric"]).any()
        assert len(frame) == 11 * 4

    def test_glyphs_without_data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        fewer = partial(load_glyphs, n_classes=40, samples_per_class=12)
        monkeypatch.setattr("cosmo.paper.inputs.load_glyphs", fewer)
        found = run_in(
            tmp_path, ["gating", "--dataset", "glyphs", "--expert", "ESZSL", "--source", "features"]
        )
        frame = self.frame(tmp_path, "gating")
        assert len(frame) == 5 * 3
        assert (frame["value"] != "").all()
        assert "not computed" not in found.out

    def test_nothing_is_there(self, tmp_path: Path):
        (tmp_path / "data" / "xlsa17" / "CUB").mkdir(parents=True)
        parts = [name for name in PARTS if name != "planes"]  # which has published points
        found = run_in(tmp_path, [*parts, "--data", "data", "-q"])
        needs = {line for line in found.out.splitlines() if line.startswith("not computed")}
        for need in (
            "features of CUB: xlsa17/CUB/res101.mat",
            "splits of SUN: xlsa17/SUN/att_splits.mat",
            "published predictions of LAGO: predictions/LAGO/AWA1/",
            "published predictions of f-CLSWGAN: predictions/fCLSWGAN/FLO/",
        ):
            assert f"not computed, for want of: {need}" in needs
        assert list((written(tmp_path) / "figures").iterdir()) == []
        assert not re.search(r"\bnan\b|None", (written(tmp_path) / "paper.md").read_text())
        assert (written(tmp_path) / "paper.html").is_file()


class TestWrongInput:
    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["mian"], "invalid choice: 'mian'"),
            ([], "the following arguments are required: PART"),
            (["main", "--dataset", "AWA"], "invalid choice: 'AWA'"),
            (["main", "--expert", "lago"], "invalid choice: 'lago'"),
            (["main", "--source", "paper"], "invalid choice: 'paper'"),
            (["main", "--search", "grid"], "invalid choice: 'grid'"),
            (["walkthrough", "--sample", "first"], "invalid int value: 'first'"),
            (["main", "--jobs", "two"], "invalid int value: 'two'"),
            (["main", "--colour"], "unrecognized arguments: --colour"),
        ],
    )
    def test_options(self, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]):
        with pytest.raises(SystemExit) as stop:
            main(["paper", *argv])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err

    def fails(self, argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
        assert main(["paper", *argv, "-q"]) == 2
        found = capsys.readouterr()
        assert found.out == ""
        assert found.err.startswith("cosmo paper: ")
        assert found.err.count("\n") == 1
        return found.err

    @pytest.fixture(autouse=True)
    def elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def test_no_data(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        for options in ([], ["--dataset", "CUB"], ["--dataset", "CUB", "glyphs"]):
            assert "--data" in self.fails(["main", *options], capsys)
        assert list(tmp_path.iterdir()) == []

    def test_no_such_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert "nowhere: no such folder" in self.fails(["main", "--data", "nowhere"], capsys)
        assert list(tmp_path.iterdir()) == []

    def test_another_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        (tmp_path / "music").mkdir()
        assert "music: holds none of AWA1, SUN, CUB, FLO" in self.fails(["main", "--data", "music"], capsys)

    def test_features(self, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert "res11.mat" in self.fails(["main", "--data", str(release), "--features", "res11"], capsys)
        assert list(tmp_path.iterdir()) == []

    def test_jobs(self, release: Path, capsys: pytest.CaptureFixture[str]):
        assert "--jobs must be at least 1, got 0" in self.fails(
            ["main", "--data", str(release), "--jobs", "0"], capsys
        )

    @pytest.mark.parametrize("option", ["--out", "--cache"])
    def test_a_file_in_the_way(
        self, option: str, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        (tmp_path / "taken").touch()
        assert "taken" in self.fails(["main", "--data", str(release), option, "taken"], capsys)

    def test_a_document_that_cannot_be_written(
        self, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        (tmp_path / "docs").mkdir()
        message = self.fails(["main", "--data", str(release), "--write", "docs"], capsys)
        assert "--write docs is a folder; name a file" in message
        assert list(tmp_path.rglob("*.*")) == []

    @pytest.mark.parametrize("sample", ["-1", "200"])
    def test_a_sample_that_is_not_there(
        self, release: Path, sample: str, place: Path, plain: Run, capsys: pytest.CaptureFixture[str]
    ):
        options = ["--dataset", "CUB", "--expert", "LAGO", "--source", "predictions", f"--sample={sample}"]
        options += ["--cache", str(place / "cosmo-runs" / "cache"), "--jobs", "1"]
        message = self.fails(["walkthrough", "--data", str(release), *options], capsys)
        assert f"CUB has 200 test samples, numbered from 0; there is no {sample}" in message

    def test_a_damaged_file(self, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        own = Path(shutil.copytree(release, tmp_path / "own"))
        (own / "predictions" / "LAGO" / "AWA1" / "pred_gzsl_val.npz").write_bytes(b"nothing")
        options = ["--dataset", "AWA1", "--expert", "LAGO", "--source", "predictions"]
        assert "pred_gzsl_val.npz" in self.fails(["main", "--data", str(own), *options], capsys)


class TestHelp:
    def test_names_everything(self, capsys: pytest.CaptureFixture[str]):
        with pytest.raises(SystemExit) as stop:
            main(["paper", "--help"])
        assert stop.value.code == 0
        words = re.split(r"[\s,]+", capsys.readouterr().out)
        assert {*PARTS, *EXPERTS, *DATASETS, "glyphs"} <= {*words}

    def test_examples_can_be_typed(self):
        text = command.parser().epilog
        assert text is not None
        lines = [line.partition("   no data")[0] for line in text.splitlines() if line.startswith("  cosmo ")]
        assert len(lines) >= 4
        for line in lines:
            assert command.parser().parse_args(line.split()[2:]).parts


# Of these the last takes longest.
LONG = ["main", "--dataset", "CUB", "--source", "features", "--expert", "ESZSL", "SynC"]


def start(release: Path, place: Path) -> subprocess.Popen[str]:
    """Start the command in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "cosmo.cli", "paper", *LONG, "--data", str(release), "--jobs", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        cwd=place,
        start_new_session=True,
    )


def wait_for(happened: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.01)
    return happened()


class TestStopped:
    def test_in_the_middle_and_going_on(self, release: Path, tmp_path: Path):
        process = start(release, tmp_path)
        cache = tmp_path / "cosmo-runs" / "cache"
        try:
            assert wait_for(lambda: len(list(cache.glob("*seen-*.npz"))) >= 2)
            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130
        assert "Traceback" not in err
        assert err.splitlines()[-1] == "cosmo: stopped; nothing was written half"
        files = {path for path in tmp_path.rglob("*") if path.is_file()}
        kept = {path: path.stat().st_mtime_ns for path in cache.glob("*seen-*.npz")}
        assert len(kept) == 2
        assert not [path for path in files if path.parent != cache or path.name.startswith(".")]

        resumed = run_in(tmp_path, [*LONG, "--data", str(release)])
        assert "2 of 3 experts are trained already" in resumed.err
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        (tmp_path / "whole").mkdir()
        run_in(tmp_path / "whole", [*LONG, "--data", str(release)])
        for name in ("paper.md", "paper.html", "tables/main.csv", "tables/main.tex"):
            whole = written(tmp_path / "whole") / name
            assert (written(tmp_path) / name).read_bytes() == whole.read_bytes()
