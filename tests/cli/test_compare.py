from __future__ import annotations

import argparse
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from scipy.io import loadmat, savemat

import cosmo.cli.compare as command
from cosmo.cli import main
from cosmo.cli._options import load_dataset as load
from cosmo.data import GZSLDataset, load_glyphs, write_xlsa17
from cosmo.experts import ESZSL, LAGO, UNSEEN_EXPERTS, SimilarityExpert, make_unseen_expert
from cosmo.viz.page import read_view

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
ESZSL_QUICK, SJE_QUICK = "eszsl:gamma=1.0,lam=1.0", "sje:learning_rate=3.0,epochs=2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set in xlsa17 layout, under a name that papers know, with two description files."""
    path = tmp_path_factory.mktemp("data") / "CUB"
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    data = GZSLDataset(glyphs.features[:, ::6], glyphs.labels, glyphs.descriptions, glyphs.split)
    write_xlsa17(data, path)
    fields = loadmat(path / "att_splits.mat")
    fields = {name: value for name, value in fields.items() if not name.startswith("__")}
    lengths = np.linalg.norm(fields["att"], axis=0)
    savemat(path / "att_splits.mat", {**fields, "att": fields["att"] / lengths})
    # Like sentences: signed numbers, and nothing as recorded.
    del fields["original_att"]
    mixing = np.random.default_rng(0).normal(size=(30, len(fields["att"])))
    savemat(path / "sent_splits.mat", {**fields, "att": mixing @ fields["att"]})
    return path


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


class Run(NamedTuple):
    place: Path
    out: str
    err: str
    table: pd.DataFrame


def run_in(place: Path, argv: list[str]) -> Run:
    """Run the command in a working folder."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "80")
        patch.chdir(place)
        assert main(["compare", *argv]) == 0, err.getvalue()
    (path,) = place.rglob("compare.csv")
    return Run(place, out.getvalue(), err.getvalue(), pd.read_csv(path))


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two methods on two descriptions, one of which LAGO cannot take."""
    methods = [ESZSL_QUICK, "lago:variant=singletons,epochs=2"]
    options = ["--descriptions", "att_splits", "sent_splits", "--write", "deep/table.md", "--seen", "lda"]
    place = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LAGO, "as_recorded", True)
        return run_in(place, [str(folder), "--methods", *methods, "--jobs", "1", *options])


class TestOneRun:
    def test_files(self, plain: Run):
        names = {str(path.relative_to(plain.place)) for path in plain.place.rglob("*") if path.is_file()}
        kept = {name for name in names if name.startswith("cosmo-runs/cache/")}
        written = {f"cosmo-runs/CUB-compare/{name}" for name in ("compare.csv", "report.html")}
        assert names - kept == written | {"deep/table.md"}
        kinds = sorted(Path(name).name.split("-")[0] for name in kept)
        assert kinds == ["seen", "unseen", "unseen", "unseen"]  # one seen expert for both descriptions

    def test_csv(self, plain: Run):
        rows = list(plain.table[["descriptions", "method", "way"]].itertuples(index=False, name=None))
        assert rows == [
            (descriptions, method, way)
            for descriptions, method in (
                ("att_splits", "ESZSL gamma=1.0,lam=1.0"),
                ("att_splits", "LAGO singletons,epochs=2"),
                ("sent_splits", "ESZSL gamma=1.0,lam=1.0"),
            )
            for way in ("alone", "CS", "COSMO")
        ]
        found = plain.table.set_index(["descriptions", "method", "way"])["published_acc_h"]
        assert found["att_splits", "ESZSL gamma=1.0,lam=1.0", "alone"] == 21.0
        assert found.drop(index=("att_splits", "ESZSL gamma=1.0,lam=1.0", "alone")).isna().all()

    def test_page(self, plain: Run):
        view = read_view((plain.place / "cosmo-runs" / "CUB-compare" / "report.html").read_text("utf-8"))
        assert [one["name"] for one in view["sets"]] == ["CUB, att_splits", "CUB, sent_splits"]
        rows = [row for one in view["sets"] for row in one["tables"][0]["rows"]]
        assert [row[:2] for row in rows] == plain.table[["method", "way"]].to_numpy().tolist()
        assert [row[5] for row in rows] == pytest.approx(list(plain.table["acc_h"]), abs=1e-5)
        assert sum(len(one["curves"]) for one in view["sets"]) == len(rows)

    def test_printed(self, plain: Run):
        lines = plain.out.splitlines()
        assert "all numbers: cosmo-runs/CUB-compare/compare.csv" in lines
        assert "report: cosmo-runs/CUB-compare/report.html" in lines
        assert "tables: deep/table.md" in lines
        (left_out,) = [line for line in lines if "left out" in line]
        assert left_out.startswith("LAGO singletons,epochs=2: left out; LAGO takes descriptions for the prob")
        assert "CUB, att_splits: test, percent" in plain.out
        assert "CUB, sent_splits: test, percent" in plain.out
        for row in plain.table.itertuples():
            assert f"{row.acc_h:.1f} ({row.acc_h_low:.1f}–{row.acc_h_high:.1f})" in plain.out
            assert f"{row.ausuc:.1f} ({row.ausuc_low:.1f}–{row.ausuc_high:.1f})" in plain.out
        assert "12.6 / 63.8 / 21.0" in plain.out
        assert not re.search(r"\bnan\b", plain.out)

    def test_progress(self, plain: Run):
        lines = [re.sub(r"^ +\d+\.\d s  ", "", line) for line in plain.err.splitlines()]
        assert "0 of 3 experts are trained already" in lines
        assert "1 of 2 experts are trained already" in lines
        assert any(re.fullmatch(r"\d of 3: seen expert, \d+ CPU s", line) for line in lines)

    def test_markdown(self, plain: Run):
        text = (plain.place / "deep" / "table.md").read_text()
        assert text.endswith("\n")
        assert not re.search(r"\bnan\b", text)
        lines = text.splitlines()
        assert [line for line in lines if line.startswith("#")] == [
            "# CUB: every method side by side",
            "## att_splits",
            "## sent_splits",
        ]
        for number, line in enumerate(lines):
            if line.startswith("#"):
                assert lines[number + 1] == ""
        blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
        assert [len(block) for block in blocks] == [2 + 6, 2 + 3]
        for block in blocks:
            assert {line.count("|") for line in block} == {len(command._COLUMNS) + 1}
            assert all(line.startswith("|") and line.endswith("|") for line in block)
            assert re.fullmatch(r"(\|-+:?)+\|", block[1])
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in blocks[0][2:]]
        assert [row[0] for row in cells] == [
            "ESZSL gamma=1.0,lam=1.0",
            "",
            "",
            "LAGO singletons,epochs=2",
            "",
            "",
        ]
        assert [row[1] for row in cells] == ["alone", "+ CS", "+ COSMO"] * 2
        assert [row[3] for row in cells] == [f"{value:.1f}" for value in plain.table["acc_ts"][:6]]
        assert cells[0][9] == "12.6 / 63.8 / 21.0"
        assert re.search(r"\n\n(- .*\n)*- LAGO singletons,epochs=2: left out\. LAGO takes", text)

    def test_command_in_the_document_is_the_one_given(self, plain: Run):
        text = (plain.place / "deep" / "table.md").read_text()
        written = re.search(r"Written by `(cosmo compare CUB [^`]*)`", text)
        assert written is not None
        assert "--descriptions att_splits sent_splits" in written[1]

    def test_command_in_the_document_makes_the_same_table(self, plain: Run):
        text = (plain.place / "deep" / "table.md").read_text()
        assert f"--methods {ESZSL_QUICK} lago" in text
        assert "--seen lda" in text

    def test_again_and_quiet(self, plain: Run, folder: Path, monkeypatch: pytest.MonkeyPatch):
        def fails(*_args: object, **_options: object) -> None:
            raise AssertionError("trained again")

        monkeypatch.setattr("cosmo.evaluation.expert_cache.CachedExpert.expert_", None)
        monkeypatch.setattr("cosmo.evaluation.expert_cache.CachedClassifier.classifier_", None)
        again = run_in(
            plain.place, [str(folder), "--methods", ESZSL_QUICK, "--seen", "lda", "-q", "--jobs", "1"]
        )
        assert again.err == ""
        pd.testing.assert_frame_equal(again.table, plain.table[:3], check_dtype=False)

    def test_the_same_method_twice_is_one(self, plain: Run, folder: Path):
        found = run_in(
            plain.place,
            [str(folder), "-q", "--methods", ESZSL_QUICK, ESZSL_QUICK, "--seen", "lda", "--jobs", "1"],
        )
        assert len(found.table) == 3

    def test_glyphs_are_the_default(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        seeds = []

        def small(*, seed: int) -> GZSLDataset:
            seeds.append(seed)
            return load_glyphs(n_classes=24, samples_per_class=12, seed=seed)

        monkeypatch.setattr("cosmo.cli._options.load_glyphs", small)
        options = ["--methods", ESZSL_QUICK, "--seen", "lda", "--jobs", "1", "--seed", "3", "--out", "out"]
        found = run_in(tmp_path, [*options, "--descriptions", "sent_splits"])
        assert seeds == [3]
        assert set(found.table["descriptions"]) == {"attributes"}
        assert found.table.filter(like="published").isna().all(axis=None)

    def test_groups_have_every_expert_and_every_variant_of_lago(self):
        methods = command.parser().parse_args([]).methods
        assert methods == ["all"]
        assert not set(command.ALL) & set(command.GENERATIVE)
        assert command.GENERATIVE == ("f-clswgan", "cycle-wgan", "cycle-uwgan", "se-gzsl")
        experts = [make_unseen_expert(name) for name in (*command.ALL, *command.GENERATIVE)]
        assert {type(expert) for expert in experts} == {*UNSEEN_EXPERTS.values()} - {SimilarityExpert}
        variants = {expert.variant for expert in experts if isinstance(expert, LAGO)}
        assert variants == {"semantic-soft", "semantic-hard", "singletons", "k-soft"}


class TestLeftOut:
    def test_for_want_of_torch(self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        options = ["--methods", ESZSL_QUICK, "dem", "--seen", "lda", "--jobs", "1"]
        found = run_in(tmp_path, [str(folder), *options])
        assert set(found.table["method"]) == {"ESZSL gamma=1.0,lam=1.0"}
        assert re.search(r"^DEM: left out; .*pip install 'cosmo-gzsl\[torch\]'", found.out, re.MULTILINE)

    def test_nobody_is_left(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        options = ["--methods", "lago", "--descriptions", "sent_splits", "--out", str(tmp_path / "out")]
        assert main(["compare", str(folder), *options, "--cache", str(tmp_path / "cache")]) == 2
        assert "no method can take sent_splits: LAGO: " in capsys.readouterr().err
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--jobs", "0"], "--jobs must be at least 1, got 0"),
            (["--jobs", "-1"], "--jobs must be at least 1, got -1"),
            (["--features", "res7"], "res7.mat: no such file"),
            (["--descriptions", "nothing"], "nothing.mat: no such file"),
            (["--attributes", "nothing.txt"], "nothing.txt"),
        ],
    )
    def test_one_line(
        self,
        options: list[str],
        message: str,
        folder: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ):
        monkeypatch.chdir(tmp_path)
        assert main(["compare", str(folder), "--methods", ESZSL_QUICK, "-q", *options]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("cosmo compare: ")
        assert printed.err.count("\n") == 1
        assert message in printed.err
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_no_such_data(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.chdir(tmp_path)
        assert main(["compare", "CBU"]) == 2
        assert capsys.readouterr().err == "cosmo compare: 'CBU' is neither 'glyphs' nor a folder\n"
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--methods", "esszl"], "unknown unseen expert 'esszl'"),
            (["--methods", "eszsl:CUB"], "unknown preset 'CUB' of eszsl; there is none"),
            (["--methods", "eszsl:"], "unknown preset ''"),
            (["--methods", "eszsl:gama=1"], "eszsl has no parameter 'gama'; it has"),
            (["--methods"], "expected at least one argument"),
            (["--seen", "svm"], "invalid choice: 'svm'"),
            (["--jobs", "two"], "invalid int value: 'two'"),
            (["--colour"], "unrecognized arguments: --colour"),
        ],
    )
    def test_options(self, options: list[str], message: str, capsys: pytest.CaptureFixture[str]):
        with pytest.raises(SystemExit) as stop:
            main(["compare", *options])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("option", ["--out", "--cache"])
    def test_a_file_in_the_way(
        self, option: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        places = {"--out": str(tmp_path / "out"), "--cache": str(tmp_path / "cache")}
        Path(places[option]).touch()
        options = [word for pair in places.items() for word in pair]
        assert main(["compare", str(folder), "-q", "--methods", ESZSL_QUICK, *options]) == 2
        assert places[option] in capsys.readouterr().err

    def test_a_document_that_cannot_be_written(
        self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        options = ["--seen", "lda", "--jobs", "1", "--cache", str(tmp_path / "cache")]
        options += ["--out", str(tmp_path / "out"), "--write", str(tmp_path)]  # a folder
        assert main(["compare", str(folder), "-q", "--methods", ESZSL_QUICK, *options]) == 2
        assert str(tmp_path) in capsys.readouterr().err
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_a_worker_that_the_system_killed(
        self,
        folder: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ):
        def killed(*_args: object, **_options: object) -> Iterator[None]:
            raise TerminatedWorkerError("a worker was killed")
            yield

        monkeypatch.setattr("joblib.Parallel.__call__", killed)
        options = ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out"), "-q"]
        assert main(["compare", str(folder), "--methods", ESZSL_QUICK, *options]) == 2
        assert "--jobs" in capsys.readouterr().err


class TestNames:
    @pytest.mark.parametrize("name", ["eszsl:gamma=1,lam", "eszsl:gamma="])
    def test_a_parameter_without_a_value(self, name: str):
        with pytest.raises(ValueError, match="lam|gamma"):
            make_unseen_expert(name)

    def test_parameters(self):
        expert = make_unseen_expert("lago:variant=k-soft,n_groups=40,learning_rate=1e-2")
        assert isinstance(expert, LAGO)
        assert (expert.variant, expert.n_groups, expert.learning_rate) == ("k-soft", 40, 0.01)
        expert = make_unseen_expert("eszsl:centre=False,gamma=None")
        assert isinstance(expert, ESZSL)
        assert (expert.centre, expert.gamma) == (False, None)

    def test_presets(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(
            ESZSL, "presets", {"CUB": {"gamma": 100.0, "lam": 1.0}, "AWA one": {"gamma": 7.0}}
        )
        assert make_unseen_expert("eszsl:CUB").get_params()["gamma"] == 100.0
        assert make_unseen_expert("eszsl:AWA one").get_params()["gamma"] == 7.0
        with pytest.raises(ValueError, match="unknown preset 'SUN' of eszsl; there is 'CUB', 'AWA one'"):
            make_unseen_expert("eszsl:SUN")

    @pytest.mark.parametrize("name", UNSEEN_EXPERTS)
    def test_every_preset_can_be_asked_for(self, name: str):
        for preset, values in UNSEEN_EXPERTS[name].presets.items():
            expert = make_unseen_expert(f"{name}:{preset}")
            assert values.items() <= expert.get_params().items()

    @pytest.mark.parametrize("name", ["", "svm", "ESZSL", "svm:gamma=1", ":gamma=1"])
    def test_unknown(self, name: str):
        with pytest.raises(ValueError, match="unknown unseen expert '.*'; choose from eszsl, dap, "):
            make_unseen_expert(name)

    def test_examples_of_the_help_can_be_typed(self):
        lines = [line for line in command._EPILOG.splitlines() if line.startswith("  cosmo compare")]
        assert len(lines) >= 3
        for line in lines:
            words = line.replace('"', "").split()[2:]
            assert command.parser().parse_args(words).methods


class AsRecorded(ESZSL):
    """Wants percentages."""

    as_recorded = True


class TestLoad:
    def load(self, folder: Path, expert: ESZSL, descriptions: str, original: bool = False) -> np.ndarray:
        args = argparse.Namespace(dataset=str(folder), features="res101", attributes=None, roots=False)
        data = load(args, expert, descriptions=descriptions, original=original, seed=0)
        assert data.name == "CUB"
        return data.descriptions.to_numpy()

    def test_as_recorded_where_present(self, folder: Path):
        fields = loadmat(folder / "att_splits.mat")
        recorded, normalised = fields["original_att"].T, fields["att"].T
        np.testing.assert_allclose(self.load(folder, AsRecorded(), "att_splits"), recorded, rtol=1e-6)
        np.testing.assert_allclose(self.load(folder, ESZSL(), "att_splits"), normalised, rtol=1e-6)
        np.testing.assert_allclose(self.load(folder, ESZSL(), "att_splits", True), recorded, rtol=1e-6)

    def test_else_as_they_are(self, folder: Path):
        found = self.load(folder, AsRecorded(), "sent_splits")
        np.testing.assert_allclose(found, loadmat(folder / "sent_splits.mat")["att"].T, rtol=1e-6)

    def test_asked_for_but_not_there(self, folder: Path):
        with pytest.raises(ValueError, match="original_att"):
            self.load(folder, ESZSL(), "sent_splits", original=True)

    def test_lago_takes_them_as_recorded(self):
        assert LAGO.as_recorded


def start(folder: Path, place: Path, methods: list[str], jobs: int) -> subprocess.Popen[str]:
    """Start the command in a session of its own."""
    options = ["--methods", *methods, "--jobs", str(jobs), "--cache", str(place / "cache")]
    return subprocess.Popen(
        [sys.executable, "-m", "cosmo.cli", "compare", str(folder), "--out", str(place / "out"), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def wait_for(happened: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(0.01)
    return happened()


def alive(session: int) -> list[str]:
    """Return the processes of a session, zombies aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(state[3]) == session and state[0] != "Z":
            found.append(path.parent.name)
    return found


class TestStopped:
    def test_killed_in_the_middle(self, folder: Path, tmp_path: Path):
        methods = [ESZSL_QUICK, SJE_QUICK, "sync"]  # the last one takes longest
        process = start(folder, tmp_path, methods, jobs=1)
        cache = tmp_path / "cache"
        try:
            assert wait_for(lambda: len(list(cache.glob("unseen-*.npz"))) >= 1)
        finally:
            process.kill()
            process.communicate()
        assert not (tmp_path / "out" / "compare.csv").exists()
        kept = {path: path.stat().st_mtime_ns for path in cache.glob("*.npz")}
        assert 2 <= len(kept) < 4
        options = [str(folder), "--methods", *methods, "--jobs", "1"]
        resumed = run_in(tmp_path, [*options, "--cache", str(cache)])
        (tmp_path / "whole").mkdir()
        whole = run_in(tmp_path / "whole", options)
        assert f"{len(kept)} of 4 experts are trained already" in resumed.err
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        pd.testing.assert_frame_equal(
            resumed.table.drop(columns="cpu_seconds"), whole.table.drop(columns="cpu_seconds")
        )

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
    def test_ctrl_c_with_workers(self, folder: Path, tmp_path: Path):
        process = start(folder, tmp_path, [ESZSL_QUICK, "sync", "dap"], jobs=2)
        try:
            assert process.stderr is not None
            while "trained already" not in process.stderr.readline():
                assert process.poll() is None
            # The process, two workers and what looks after them, once both workers are at work: one that is
            # just being started dies with a traceback that is not ours.
            assert wait_for(lambda: len(alive(process.pid)) >= 4)
            assert wait_for(lambda: len(list(tmp_path.rglob("*.npz"))) >= 2)
            os.killpg(process.pid, signal.SIGINT)  # what a terminal does: everybody hears it
            _, err = process.communicate(timeout=60)
            assert process.returncode == 130
            assert "Traceback" not in err
            assert err.splitlines()[-1] == "cosmo: stopped; nothing was written half"
            assert wait_for(lambda: not alive(process.pid), 20)
        finally:
            if alive(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path for path in files if path.name.startswith(".")] == []
        assert not (tmp_path / "out" / "compare.csv").exists()
        for path in tmp_path.rglob("*.npz"):
            with np.load(path) as arrays:
                assert {"validation", "test", "cpu_seconds", "decided"} <= {*arrays}
