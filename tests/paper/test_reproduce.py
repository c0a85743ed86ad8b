from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosmo.paper.document import Section
from cosmo.paper.reproduce import PARTS, Reproduction, _findings, _joint_cells
from cosmo.paper.runner import Runner
from cosmo.paper.tables import TABLES
from cosmo.paper.trials import Source

QUICK = [name for name in PARTS if name != "joint"]


def reproduce(runner: Runner, out: Path, names: list[str], **options: object) -> dict[str, Section]:
    made = Reproduction(
        runner,
        out,
        ["AWA1", "CUB"],
        ["LAGO"],
        ["predictions", "scores"],
        **options,  # type: ignore[arg-type]
    )
    return {section.name: section for section in made.sections(names)}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def sections(runner: Runner, out: Path) -> dict[str, Section]:
    return reproduce(runner, out, QUICK)


class TestSections:
    def test_order_and_titles(self, sections: dict[str, Section]):
        assert list(sections) == QUICK
        assert [section.title for section in sections.values()] == [PARTS[name] for name in QUICK]

    def test_files(self, sections: dict[str, Section], out: Path):
        tables = {path.name for path in (out / "tables").iterdir()}
        assert tables == {f"{name}.{suffix}" for name in TABLES for suffix in ("csv", "tex")}
        figures = {path.name for path in (out / "figures").iterdir()}
        names = ("planes-LAGO-predictions", "walkthrough-CUB-LAGO", "splits-AWA1", "splits-CUB")
        assert figures == {f"{name}.{suffix}" for name in names for suffix in ("png", "svg")}
        assert {path.name for path in out.iterdir()} == {"tables", "figures"}

    def test_what_is_missing(self, sections: dict[str, Section]):
        features = ["features of AWA1: xlsa17/AWA1/res101.mat"]
        for name, section in sections.items():
            expected = [] if name in ("scores", "planes", "splits") else features
            assert section.missing == expected, name

    def test_the_same_bytes_again(
        self, runner: Runner, out: Path, sections: dict[str, Section], tmp_path: Path
    ):
        reproduce(runner, tmp_path, ["main", "planes", "walkthrough"])
        files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*.*")]
        assert len(files) == 2 + 2 * 2
        for file in files:
            assert (tmp_path / file).read_bytes() == (out / file).read_bytes(), file

    def test_ablation_in_words(self, sections: dict[str, Section], out: Path):
        rows = pd.read_csv(out / "tables" / "combination.csv").dropna(subset=["value"])
        order = rows.sort_values("value", ascending=False, kind="stable")["row"]
        assert f"CUB, LAGO, predictions: {' > '.join(order)}." in sections["combination"].text
        values = (
            pd.read_csv(out / "tables" / "smoothing.csv").dropna(subset=["value"]).set_index("row")["value"]
        )
        gain = values["Adaptive-Smoothing"] - values
        assert f"over none {gain['No-Smoothing']:+.1f}, over constant {gain['Const-Smoothing']:+.1f}." in (
            sections["smoothing"].text
        )

    def test_no_expert_of_the_table(self, runner: Runner, tmp_path: Path):
        made = Reproduction(runner, tmp_path, ["CUB"], ["RN"], ["predictions"])
        (section,) = made.sections(["ausuc"])
        assert section.missing == ["an expert or source of this table"]
        assert list((tmp_path / "tables").iterdir()) == []

    def test_no_source_of_the_figures(self, runner: Runner, tmp_path: Path):
        made = Reproduction(runner, tmp_path, ["CUB"], ["LAGO"], ["scores"])
        for section in made.sections(["planes", "walkthrough"]):
            assert section.missing == ["a source of these figures"]
            assert section.pictures == []

    def test_experts_of_planes_are_trained_side_by_side(self, runner: Runner, tmp_path: Path):
        made = Reproduction(runner, tmp_path, ["CUB", "SUN"], ["LAGO"])
        assert [trial.case[:3] for trial in made._trials("planes")] == [
            (dataset, "LAGO", source) for dataset in ("CUB", "SUN") for source in ("predictions", "features")
        ]

    def test_a_sample_that_is_not_there(self, runner: Runner, tmp_path: Path):
        with pytest.raises(ValueError, match="there is no 5000"):
            reproduce(runner, tmp_path, ["walkthrough"], sample=5000)


def line(slope: float, start: float, dataset: str = "CUB") -> pd.DataFrame:
    """A table of seen experts whose accuracy is worth `slope`."""
    about = {"dataset": dataset, "expert": "LAGO", "source": "predictions", "missing": ""}
    return pd.DataFrame(
        [
            {**about, "row": f"expert {x}", "metric": metric, "value": value}
            for x in (60.0, 65.0, 70.0)
            for metric, value in (
                ("seen_accuracy", x),
                ("acc_h", start + slope * x),
                ("ausuc", start / 2 + slope * x),
            )
        ]
    )


class TestView:
    def test_planes(self, runner: Runner, sections: dict[str, Section], tmp_path: Path):
        made = Reproduction(runner, tmp_path, ["AWA1", "CUB"], ["LAGO"], ["predictions"])
        view = made.view("cosmo paper all")
        assert view is not None
        awa, cub = view["sets"]
        assert (awa["name"], cub["name"]) == ("AWA1", "CUB")
        for one in (awa, cub):
            assert [curve["name"] for curve in one["curves"]] == ["COSMO + LAGO", "CS + LAGO", "LAGO"]
            assert one["curves"][0]["main"]
            assert {point["name"] for point in one["points"]} >= {"ESZSL (published)", "LAGO (published)"}
        # Without features there is no seen expert: its predictions stand in.
        assert [fact[0] for fact in awa["facts"]] == ["from scores alone"]
        assert [fact[0] for fact in cub["facts"]] == ["from the authors' predictions"]

    def test_an_expert_from_two_sources(self, runner: Runner, tmp_path: Path):
        both = Reproduction(runner, tmp_path, ["CUB"], ["LAGO"], ["predictions", "features"])
        shown: list[tuple[str, Source]] = [("LAGO", "predictions"), ("LAGO", "features")]
        ways = both._ways("CUB", "LAGO", "predictions", shown)
        assert ways[0].name == "COSMO + LAGO (the authors' predictions)"
        assert {way.family for way in ways} == {"LAGO (the authors' predictions)"}

    def test_nothing_was_asked(self, runner: Runner, tmp_path: Path):
        fresh = Runner(runner.holdings, runner.cache)
        assert Reproduction(fresh, tmp_path, ["CUB"]).view("cosmo paper splits") is None
        assert fresh.asked == []


class TestFindings:
    def test_the_line_through_seen_experts(self):
        said = _findings("gap", line(0.5, 10.0))
        assert "worth 0.50 of Acc_H and 0.50 of AUSUC" in said
        assert f"gives Acc_H {10 + 0.5 * 72.8:.1f} and AUSUC {5 + 0.5 * 72.8:.1f} at 72.8 %" in said

    def test_the_papers_seen_expert_is_known_on_cub_only(self):
        assert _findings("gap", line(0.5, 10.0, "AWA1")) == ""

    @pytest.mark.parametrize("name", TABLES)
    def test_nothing_computed(self, name: str):
        frame = line(0.5, 10.0).assign(missing="features", value=np.nan)
        assert _findings(name, frame) == ""


class TestJoint:
    @pytest.mark.parametrize(("dataset", "printed"), [("CUB", "26.3"), ("glyphs", "")])
    def test_cells(self, dataset: str, printed: str):
        row = {"acc_ts": 0.1, "acc_tr": 0.2, "acc_h": 0.134, "seen_expert_accuracy": 0.5, "gate_auc": 0.6}
        names = ["COSMO, trained apart", "joint, held out", "joint, all seen"]
        cells = _joint_cells(pd.DataFrame([row] * 3, index=names), dataset).set_index("")
        assert list(cells["H"]) == ["13.4"] * 3
        assert cells.loc["joint, held out", "H printed"] == printed
        assert cells.loc["joint, held out", "seen expert printed"] == ""

    def test_missing(self, runner: Runner, tmp_path: Path):
        (section,) = Reproduction(runner, tmp_path, ["AWA1"]).sections(["joint"])
        assert section.missing == ["features of AWA1: xlsa17/AWA1/res101.mat"]
        assert section.tables == []
