"""`cosmo paper`."""

import re
import runpy
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import cosmo.cli.paper as command
from cosmo.data import load_glyphs
from cosmo.paper.reproduce import PARTS

write_release = runpy.run_path(str(Path(__file__).parents[1] / "paper" / "conftest.py"))["write_release"]
FEATURES_OF_AWA1 = "features of AWA1: xlsa17/AWA1/res101.mat"
LAGO = ["--expert", "LAGO", "--source", "predictions"]
TABLES = ("main", "smoothing", "combination")
ARGUMENTS = [*TABLES, "walkthrough", "splits", "--dataset", "AWA1", "CUB", *LAGO, "--write", "deep/paper.md"]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return write_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def paper(cosmo):
    """Run the command in a folder."""

    def run(place, *words):
        out, err = cosmo("paper", *words, "--jobs", "1", folder=place)
        return SimpleNamespace(place=place, folder=place / "cosmo-runs" / "paper", out=out, err=err)

    return run


@pytest.fixture(scope="module")
def plain(release, paper, tmp_path_factory):
    return paper(tmp_path_factory.mktemp("place"), *ARGUMENTS, "--data", release)


def read_table(run, name):
    return pd.read_csv(run.folder / "tables" / f"{name}.csv", keep_default_na=False)


class TestOneRun:
    def test_files(self, plain, release):
        names = {str(path.relative_to(plain.place)) for path in plain.place.rglob("*") if path.is_file()}
        figures = ("walkthrough-CUB-LAGO", "splits-AWA1", "splits-CUB")
        assert {name for name in names if not name.startswith("cosmo-runs/cache/")} == {
            "deep/paper.md",
            *(f"cosmo-runs/paper/{name}" for name in ("paper.md", "paper.html")),
            *(f"cosmo-runs/paper/tables/{name}.{suffix}" for name in TABLES for suffix in ("csv", "tex")),
            *(f"cosmo-runs/paper/figures/{name}.{suffix}" for name in figures for suffix in ("png", "svg")),
        }
        for path in plain.folder.rglob("*.*"):
            content = path.read_bytes()
            assert str(release).encode() not in content
            assert str(plain.place).encode() not in content

    def test_figures_agree(self, plain):
        texts = [(plain.folder / "paper.md").read_text(), (plain.place / "deep" / "paper.md").read_text()]
        html = (plain.folder / "paper.html").read_text()
        for name in TABLES:
            latex = (plain.folder / "tables" / f"{name}.tex").read_text()
            frame = pd.read_csv(plain.folder / "tables" / f"{name}.csv").dropna(subset=["value"])
            assert len(frame) > 0
            for row in frame.itertuples():
                cells = [f"{row.value:.1f} ({row.low:.1f}–{row.high:.1f})"]
                assert cells[0] in plain.out
                if not pd.isna(row.published):
                    assert row.difference == pytest.approx(row.value - row.published)
                    cells = [f"{row.published:.1f}", *cells, f"{row.difference:+.1f}"]
                for text in texts:
                    lines = [line for line in text.splitlines() if line.startswith(f"| {row.row} |")]
                    assert any(" | ".join(cells) in line for line in lines)
                assert "".join(f"<td>{cell}</td>" for cell in cells) in html
                assert " & ".join(cells).replace("–", "--") in latex

    def test_document(self, plain):
        text = (plain.folder / "paper.md").read_text()
        assert not re.search(r"\bnan\b|None", text)
        assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
            PARTS[name] for name in (*TABLES, "walkthrough", "splits")
        ]
        pictures = re.findall(r"!\[[^]]*\]\((.*)\)", text)
        assert len(pictures) == 3
        assert all((plain.folder / picture).is_file() for picture in pictures)
        assert "![" not in (plain.place / "deep" / "paper.md").read_text()
        written_by = re.search(r"Written by `cosmo paper ([^`]*)`", text)
        args = command.paper_parser().parse_args(written_by[1].split())
        assert args.parts == [*TABLES, "walkthrough", "splits"]
        assert (args.dataset, args.expert, args.source) == (["AWA1", "CUB"], ["LAGO"], ["predictions"])
        # In every table and in the walk-through; splits need no features.
        assert text.splitlines().count(f"- {FEATURES_OF_AWA1}") == 4
        assert plain.out.splitlines().count(f"not computed, missing: {FEATURES_OF_AWA1}") == 4

    def test_again_and_quiet(self, plain, paper, release, monkeypatch):
        def fails(*_args, **_options):
            raise AssertionError("computed again")

        before = {path: path.read_bytes() for path in plain.folder.rglob("*.*")}
        shutil.rmtree(plain.folder)
        monkeypatch.setattr("cosmo.paper.runner.measure", fails)
        again = paper(plain.place, *ARGUMENTS, "--data", release, "-q")
        assert (again.out, again.err) == (plain.out, "")
        assert {path: path.read_bytes() for path in before} == before


class TestChoices:
    def test_authors_search(self, release, tmp_path, paper, plain):
        cache = ["--cache", plain.place / "cosmo-runs" / "cache"]
        options = ["--dataset", "CUB", *LAGO, "--search", "authors"]
        found = paper(tmp_path, "main", "--data", release, *options, *cache)
        frame, exact = read_table(found, "main"), read_table(plain, "main").query("dataset == 'CUB'")
        calibrated = frame["row"].str.endswith("calibrated")
        assert {*frame["search"][~calibrated]} == {"authors"}
        assert list(frame["row"]) == list(exact["row"])
        assert list(frame["value"]) != list(exact["value"])
        assert "--search authors`" in (found.folder / "paper.md").read_text()

    def test_glyphs_without_data(self, tmp_path, paper, monkeypatch):
        fewer = partial(load_glyphs, n_classes=40, samples_per_class=12)
        monkeypatch.setattr("cosmo.paper.runner.load_glyphs", fewer)
        found = paper(tmp_path, "gating", "--dataset", "glyphs", "--expert", "ESZSL", "--source", "features")
        frame = read_table(found, "gating")
        assert len(frame) == 6 * 3
        assert (frame["value"] != "").all()
        assert "not computed" not in found.out

    def test_damaged_files_are_left_out(self, release, tmp_path, cosmo):
        data = Path(shutil.copytree(release, tmp_path / "data"))
        damaged = data / "xlsa17" / "CUB" / "res101.mat"
        damaged.write_bytes(damaged.read_bytes()[:2000])
        options = ("--dataset", "AWA1", "CUB", *LAGO, "--data", "data", "--jobs", "1", "-q")
        out, _ = cosmo("paper", "main", "combination", *options, folder=tmp_path, status=1)
        assert out.splitlines()[-1].startswith("damaged: data/xlsa17/CUB/res101.mat: ")
        assert out.count("damaged: ") == 1
        assert "not computed, missing: undamaged files of CUB" in out.splitlines()
        frame = pd.read_csv(tmp_path / "cosmo-runs/paper/tables/main.csv").dropna(subset=["value"])
        assert {*frame["dataset"]} == {"AWA1", "CUB"}  # those rows that need no features

    def test_no_inputs(self, tmp_path, paper):
        (tmp_path / "data" / "xlsa17" / "CUB").mkdir(parents=True)
        parts = [name for name in PARTS if name != "planes"]  # which has published points
        found = paper(tmp_path, *parts, "--data", "data", "-q")
        for need in (
            "features of CUB: xlsa17/CUB/res101.mat",
            "splits of SUN: xlsa17/SUN/att_splits.mat",
            "published predictions of LAGO: predictions/LAGO/AWA1/",
            "published predictions of f-CLSWGAN: predictions/fCLSWGAN/FLO/",
        ):
            assert f"not computed, missing: {need}" in found.out.splitlines()
        assert list((found.folder / "figures").iterdir()) == []
        assert not re.search(r"\bnan\b|None", (found.folder / "paper.md").read_text())


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["mian"], "invalid choice: 'mian'"),
            ([], "the following arguments are required: PART"),
            (["main", "--dataset", "AWA"], "invalid choice: 'AWA'"),
            (["main", "--expert", "lago"], "invalid choice: 'lago'"),
            (["main", "--source", "paper"], "invalid choice: 'paper'"),
            (["main", "--search", "grid"], "invalid choice: 'grid'"),
            (["main"], "give the folder with the paper's data by --data"),
            (["main", "--dataset", "CUB", "glyphs"], "give the folder with the paper's data by --data"),
            (["main", "--data", "nowhere"], "nowhere: no such folder"),
            (["main", "--data", "."], ".: has none of AWA1, SUN, CUB, FLO"),
        ],
    )
    def test_before_the_data_is_read(self, words, message, refuse, tmp_path):
        refuse(["paper", *words], message, tmp_path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--features", "res11"], "res11.mat"),
            (["--jobs", "0"], "--jobs must be at least 1, got 0"),
            (["--out", "taken"], "taken"),
            (["--cache", "taken"], "taken"),
            (["--write", "."], "--write . is a folder; name a file"),
        ],
    )
    def test_options(self, options, message, release, refuse, tmp_path):
        (tmp_path / "taken").touch()
        refuse(["paper", "main", "-q", "--data", release, "--jobs", "1", *options], message, tmp_path)

    def test_inputs(self, release, refuse, plain, tmp_path):
        cache = ["--cache", plain.place / "cosmo-runs" / "cache", "--jobs", "1", "-q"]
        options = ["--dataset", "CUB", *LAGO, "--sample=200", *cache]
        refuse(
            ["paper", "walkthrough", "--data", release, *options],
            "CUB has test samples 0 to 199; there is no 200",
            tmp_path,
        )
