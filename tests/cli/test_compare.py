"""`cosmo compare` and `cosmo gates`."""

import argparse
import os
import re
import signal
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from scipy.io import loadmat

import cosmo.cli.compare as command
from cosmo.cli._options import load_dataset
from cosmo.data import load_glyphs
from cosmo.experts import ESZSL, LAGO, UNSEEN_EXPERTS, SimilarityExpert, make_unseen_expert
from cosmo.gates import GATES

ESZSL_QUICK, SJE_QUICK = "eszsl:gamma=1.0,lam=1.0", "sje:learning_rate=3.0,epochs=2"
QUICK = ["--methods", ESZSL_QUICK, "--seen", "lda", "--jobs", "1"]


@pytest.fixture(scope="session")
def compare(cosmo):
    """Run the command in a folder; return what it printed, and its table."""

    def run(place, *words):
        out, err = cosmo("compare", *words, folder=place)
        (path,) = place.rglob("compare.csv")
        return SimpleNamespace(place=place, out=out, err=err, table=pd.read_csv(path))

    return run


@pytest.fixture(scope="module")
def plain(benchmark, compare, tmp_path_factory):
    """Two methods on two descriptions, one of which LAGO cannot use."""
    methods = [ESZSL_QUICK, "lago:variant=singletons,epochs=2"]
    options = ["--descriptions", "att_splits", "sent_splits", "--write", "deep/table.md", "--seen", "lda"]
    place = tmp_path_factory.mktemp("plain")
    return compare(place, benchmark, "--methods", *methods, "--jobs", "1", *options)


class TestOneRun:
    def test_files(self, plain):
        names = {str(path.relative_to(plain.place)) for path in plain.place.rglob("*") if path.is_file()}
        cached = {name for name in names if name.startswith("cosmo-runs/cache/")}
        written = {f"cosmo-runs/CUB-compare/{name}" for name in ("compare.csv", "report.html")}
        assert names - cached == written | {"deep/table.md"}

    def test_csv(self, plain):
        rows = list(plain.table[["descriptions", "method", "way"]].itertuples(index=False, name=None))
        assert rows == [
            (descriptions, method, way)
            for descriptions, method in (
                ("att_splits", "ESZSL gamma=1.0,lam=1.0"),
                ("att_splits", "LAGO singletons,epochs=2"),
                ("sent_splits", "ESZSL gamma=1.0,lam=1.0"),
            )
            for way in ("alone", "CS", "COSMO", "calibrated")
        ]
        # Figures are published for attributes, and of variants for the best one.
        assert plain.table["published_acc_h"][0] == 21.0
        assert plain.table["published_acc_h"][1:].isna().all()

    def test_printed(self, plain):
        lines = plain.out.splitlines()
        assert "all figures: cosmo-runs/CUB-compare/compare.csv" in lines
        assert "report: cosmo-runs/CUB-compare/report.html" in lines
        assert "tables: deep/table.md" in lines
        (left_out,) = [line for line in lines if "left out" in line]
        assert left_out.strip().startswith("LAGO singletons,epochs=2: left out. LAGO reads descriptions")
        assert "CUB, sent_splits: test, percent" in plain.out
        for row in plain.table.itertuples():
            assert f"{row.acc_h:.1f} ({row.acc_h_low:.1f}–{row.acc_h_high:.1f})" in plain.out
            assert f"{row.ausuc:.1f} ({row.ausuc_low:.1f}–{row.ausuc_high:.1f})" in plain.out
        assert "12.6 / 63.8 / 21.0" in plain.out
        assert not re.search(r"\bnan\b", plain.out)

    def test_markdown(self, plain):
        text = (plain.place / "deep" / "table.md").read_text()
        assert not re.search(r"\bnan\b", text)
        headings = ["# CUB: every method side by side", "## att_splits", "## sent_splits"]
        assert [line for line in text.splitlines() if line.startswith("#")] == headings
        blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
        assert [len(block) for block in blocks] == [2 + 8, 2 + 4]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in blocks[0][2:]]
        methods = ["ESZSL gamma=1.0,lam=1.0", "", "", "", "LAGO singletons,epochs=2", "", "", ""]
        assert [row[0] for row in cells] == methods
        assert [row[1] for row in cells] == ["alone", "+ CS", "+ COSMO", "+ COSMO, calibrated"] * 2
        assert [row[3] for row in cells] == [f"{value:.1f}" for value in plain.table["acc_ts"][:8]]
        assert cells[0][9] == "12.6 / 63.8 / 21.0"
        assert re.search(r"\n\n(- .*\n)*- LAGO singletons,epochs=2: left out\. LAGO reads", text)
        command = re.search(r"Written by `(cosmo compare CUB [^`]*)`", text)
        for option in (
            "--descriptions att_splits sent_splits",
            f"--methods {ESZSL_QUICK} lago",
            "--seen lda",
        ):
            assert option in command[1]

    def test_again_and_quiet(self, plain, benchmark, compare, monkeypatch):
        def fails(*_args, **_options):
            raise AssertionError("trained again")

        monkeypatch.setattr(ESZSL, "fit", fails)
        again = compare(plain.place, benchmark, *QUICK, "-q")
        assert again.err == ""
        pd.testing.assert_frame_equal(again.table, plain.table[:4], check_dtype=False)

    def test_glyphs_are_the_default(self, compare, tmp_path, monkeypatch):
        def small(*, seed):
            assert seed == 3
            return load_glyphs(n_classes=24, samples_per_class=12, seed=seed)

        monkeypatch.setattr("cosmo.cli._options.load_glyphs", small)
        found = compare(tmp_path, *QUICK, "--methods", ESZSL_QUICK, ESZSL_QUICK, "--seed", "3")
        assert len(found.table) == 4  # a method that is given twice is trained once
        assert set(found.table["descriptions"]) == {"attributes"}
        assert found.table.filter(like="published").isna().all(axis=None)

    def test_groups_have_every_expert_and_every_variant_of_lago(self):
        assert command.compare_parser().parse_args([]).methods == ["all"]
        assert not set(command.ALL) & set(command.GENERATIVE)
        experts = [make_unseen_expert(name) for name in (*command.ALL, *command.GENERATIVE)]
        assert {type(expert) for expert in experts} == {*UNSEEN_EXPERTS.values()} - {SimilarityExpert}
        variants = {expert.variant for expert in experts if isinstance(expert, LAGO)}
        assert variants == {"semantic-soft", "semantic-hard", "singletons", "k-soft"}


def test_methods_that_are_left_out(benchmark, compare, refuse, tmp_path, monkeypatch):
    refuse(
        ["compare", benchmark, "-q", "--methods", "lago", "--descriptions", "sent_splits"],
        "no method can use sent_splits: LAGO: ",
        tmp_path,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    monkeypatch.setitem(sys.modules, "torch", None)
    found = compare(tmp_path, benchmark, *QUICK, "--methods", ESZSL_QUICK, "dem")
    assert set(found.table["method"]) == {"ESZSL gamma=1.0,lam=1.0"}
    assert re.search(r"^ *DEM: left out\. .*pip install 'torch", found.out, re.MULTILINE)


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--jobs", "0"], "--jobs must be at least 1, got 0"),
            (["--features", "res7"], "res7.mat: no such file"),
            (["--descriptions", "nothing"], "nothing.mat: no such file"),
            (["--attributes", "nothing.txt"], "nothing.txt"),
            (["--methods", "esszl"], "unknown unseen expert 'esszl'"),
            (["--methods", "eszsl:CUB"], "unknown preset 'CUB' of eszsl; there is none"),
            (["--methods", "eszsl:gama=1"], "eszsl has no parameter 'gama'; it has"),
            (["--methods"], "expected at least one argument"),
            (["--seen", "svm"], "invalid choice: 'svm'"),
            (["--jobs", "two"], "invalid int value: 'two'"),
            (["--colour"], "unrecognized arguments: --colour"),
        ],
    )
    def test_options(self, options, message, benchmark, refuse, tmp_path):
        refuse(["compare", benchmark, "--methods", ESZSL_QUICK, "-q", *options], message, tmp_path)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_no_such_data(self, refuse, tmp_path):
        refuse(["compare", "CBU"], "'CBU' is neither 'glyphs' nor a folder", tmp_path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("option", ["--out", "--cache", "--write"])
    def test_places_that_are_taken(self, option, benchmark, refuse, tmp_path):
        taken = tmp_path / "taken"
        taken.mkdir() if option == "--write" else taken.touch()
        refuse(["compare", benchmark, "-q", *QUICK, option, taken], str(taken), tmp_path)

    def test_a_worker_that_the_system_killed(self, benchmark, refuse, tmp_path, monkeypatch):
        def killed(*_args, **_options):
            raise TerminatedWorkerError("a worker was killed")
            yield

        monkeypatch.setattr("joblib.Parallel.__call__", killed)
        refuse(["compare", benchmark, "--methods", ESZSL_QUICK, "--jobs", "2", "-q"], "jobs", tmp_path)


class TestNames:
    def test_parameters(self):
        expert = make_unseen_expert("lago:variant=k-soft,n_groups=40,learning_rate=1e-2")
        assert (expert.variant, expert.n_groups, expert.learning_rate) == ("k-soft", 40, 0.01)
        expert = make_unseen_expert("eszsl:centre=False,gamma=None")
        assert (expert.centre, expert.gamma) == (False, None)
        for name in ("eszsl:gamma=1,lam", "eszsl:gamma="):
            with pytest.raises(ValueError, match="lam|gamma"):
                make_unseen_expert(name)

    def test_presets(self, monkeypatch):
        for name, kind in UNSEEN_EXPERTS.items():
            for preset, values in kind.presets.items():
                assert values.items() <= make_unseen_expert(f"{name}:{preset}").get_params().items()
        monkeypatch.setattr(ESZSL, "presets", {"CUB": {"gamma": 100.0, "lam": 1.0}, "AWA one": {}})
        with pytest.raises(ValueError, match="unknown preset 'SUN' of eszsl; there is 'CUB', 'AWA one'"):
            make_unseen_expert("eszsl:SUN")

    @pytest.mark.parametrize("name", ["", "ESZSL", "svm:gamma=1", ":gamma=1"])
    def test_unknown(self, name):
        with pytest.raises(ValueError, match="unknown unseen expert '.*'; choose from eszsl, dap, "):
            make_unseen_expert(name)


def test_original_attributes(benchmark):
    class NeedsOriginal(ESZSL):
        as_recorded = True

    def load(expert, descriptions, **options):
        args = argparse.Namespace(dataset=str(benchmark), features="res101", attributes=None, roots=False)
        return load_dataset(args, expert, descriptions=descriptions, **options).descriptions.to_numpy()

    fields = loadmat(benchmark / "att_splits.mat")
    original, normalised = fields["original_att"].T, fields["att"].T
    np.testing.assert_allclose(load(NeedsOriginal(), "att_splits"), original, rtol=1e-6)
    np.testing.assert_allclose(load(ESZSL(), "att_splits"), normalised, rtol=1e-6)
    np.testing.assert_allclose(load(ESZSL(), "att_splits", original=True), original, rtol=1e-6)
    sentences = loadmat(benchmark / "sent_splits.mat")["att"].T
    np.testing.assert_allclose(load(NeedsOriginal(), "sent_splits"), sentences, rtol=1e-6)
    with pytest.raises(ValueError, match="original_att"):
        load(ESZSL(), "sent_splits", original=True)


def alive(session):
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
    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
    def test_ctrl_c_with_workers(self, benchmark, start, wait_for, tmp_path):
        methods = [ESZSL_QUICK, "sync", "dap"]
        options = ["--methods", *methods, "--jobs", "2", "--cache", "cache"]
        process = start("compare", benchmark, *options, folder=tmp_path)
        try:
            # Both workers must be at work: one that is just being started dies with a traceback of its own.
            assert wait_for(lambda: len(alive(process.pid)) >= 4)
            assert wait_for(lambda: len(list(tmp_path.glob("cache/*seen-*"))) >= 2)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            _, err = process.communicate(timeout=60)
            assert process.returncode == 130
            assert "Traceback" not in err
            assert err.splitlines()[-1].startswith("cosmo: stopped")
            assert wait_for(lambda: not alive(process.pid), 20)
        finally:
            if alive(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
        assert not list(tmp_path.rglob("compare.csv"))


@pytest.fixture(scope="module", autouse=True)
def small_glyphs():
    data = cache(lambda seed: load_glyphs(n_classes=40, samples_per_class=12, seed=seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cosmo.cli._options.load_glyphs", data)
        yield


@pytest.fixture(scope="module")
def gates(cosmo, tmp_path_factory):
    """Run the command with one cache for all tests; return what it printed, and its table."""
    cached = tmp_path_factory.mktemp("cache")

    def run(place, *options):
        out, _ = cosmo("gates", "-q", "--cache", cached, "--out", "out", *options, folder=place)
        return SimpleNamespace(place=place, out=out, table=pd.read_csv(place / "out" / "gates.csv"))

    return run


@pytest.fixture(scope="module")
def whole(gates, tmp_path_factory):
    return gates(tmp_path_factory.mktemp("whole"), "--write", "gates.md")


def test_table_and_figure(whole):
    table = whole.table.set_index("gate")
    more = {"confidence, 3 folds", "evidence, 3 folds", "calibrated"}
    assert set(table.index) == {*GATES, *more} - {"novelty"}
    assert table.drop(columns="auc").notna().all().all()
    assert table.to_numpy().min() >= 0
    assert table.to_numpy().max() <= 100
    assert all(name in whole.out for name in table.index)
    assert (whole.place / "out" / "gates.png").read_bytes().startswith(b"\x89PNG")
    text = (whole.place / "gates.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| confidence |"))
    assert f"{table.loc['confidence', 'test_auc']:.1f}" in row
    assert GATES["confidence"] in row
    assert "`cosmo gates glyphs`" in text


def test_again_from_the_cache(whole, gates, tmp_path, monkeypatch):
    monkeypatch.setattr(ESZSL, "fit", None)  # nothing may be trained
    again = gates(tmp_path, "--gates", "confidence", "--folds", "1", "--write", "gates.md")
    expected = whole.table[whole.table["gate"].isin(["confidence", "calibrated"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(again.table, expected)
    assert "##" not in (tmp_path / "gates.md").read_text()


def test_the_experts_own_gate(gates, tmp_path):
    pytest.importorskip("torch")
    found = gates(tmp_path, "--unseen", "cmt:epochs=2,hidden=16", "--gates", "max-softmax", "novelty")
    assert found.table["gate"].tolist() == ["max-softmax", "novelty", "calibrated"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gates", "confidence", "--folds", "99"], "folds must be between 1 and"),
        (["--gates", "novelty"], "use CMT"),
        (["--gates", "nosuch"], "invalid choice: 'nosuch'"),
        (["--write", "."], "--write . is a folder; name a file"),
        (["nowhere"], "'nowhere' is neither 'glyphs' nor a folder"),
    ],
)
def test_errors(options, message, refuse, tmp_path):
    refuse(["gates", "-q", *options], message, tmp_path)
