import pandas as pd
import pytest

from cosmo._core.cache import Cache
from cosmo.classifier.ways import WAYS
from cosmo.evaluation.compare import published_numbers
from cosmo.evaluation.run import CALIBRATED
from cosmo.paper.document import TABLES, Selection, fill, trials
from cosmo.paper.runner import DATASETS, EXPERTS, Holding, Runner, find_inputs
from cosmo.paper.trials import Trial

LAGO = {"experts": ["LAGO"], "sources": ["predictions"]}


def printed(name):
    numbers = published_numbers()
    return {*numbers.loc[numbers["table"] == name, "method"]}


class TestDeclared:
    def test_rows_that_the_paper_does_not_print(self):
        assert printed("main") <= {row.name for row in TABLES["main"].rows}
        extra = {row.name for row in TABLES["main"].rows if row.rule != CALIBRATED} - printed("main")
        assert extra == {f"COSMO + {name}" for name in EXPERTS if name not in ("LAGO", "f-CLSWGAN")}
        for name in ("ausuc", "gating", "smoothing", "combination"):
            assert {row.name for row in TABLES[name].rows if row.rule != CALIBRATED} == printed(name)

    @pytest.mark.parametrize("name", ["main", "ausuc", "gating", "combination", "scores"])
    def test_both_methods_are_shown(self, name):
        """In a table of gates, the paper's method is that of learnt confidences."""
        rows = TABLES[name].rows
        paper = "CB-Gating-3" if name == "gating" else "COSMO"
        both = [
            {(row.expert, *row.sources) for row in rows if row.rule == rule} for rule in (paper, CALIBRATED)
        ]
        assert both[0] == both[1]
        assert len(both[0]) > 0
        for name in ("scores", "search"):
            assert printed(name) == set()

    def test_every_printed_metric_is_there(self):
        numbers = published_numbers()
        for name, table in TABLES.items():
            assert {*numbers.loc[numbers["table"] == name, "metric"]} <= {*table.metrics}

    def test_rules_of_the_tables(self):
        # As in the authors' list of experiments.
        rules = {(name, row.name): row.rule for name, table in TABLES.items() for row in table.rows}
        assert rules["combination", "Independent-Soft"] == rules["smoothing", "No-Smoothing"]
        assert WAYS[rules["combination", "Independent-Hard"]].hard
        for where in (("main", "COSMO + LAGO"), ("combination", "COSMO"), ("ausuc", "COSMO + LAGO")):
            rule = WAYS[rules[where]]
            assert rule.smoothing == "adaptive"
            assert type(rule.gate).__name__ == "ConfidenceGate"
        for key, rule in rules.items():
            assert key[0] != "gating" or rule == CALIBRATED or WAYS[rule].smoothing == "none"
        assert rules["main", "CMT*"] == "own gate"


class TestTrials:
    @pytest.mark.parametrize("name", TABLES)
    def test_expert_and_source(self, name):
        found = trials(name, Selection(["CUB"], **LAGO))
        assert bool(found) == ("predictions" in TABLES[name].sources)
        assert {(trial.expert, trial.source) for trial in found} <= {("LAGO", "predictions")}

    def test_data_sets_and_other_experts(self):
        assert len(trials("gating", Selection(["CUB", "SUN"], sources=["features"]))) == 2 * 2 * 6
        found = trials("gating", Selection(["glyphs"], experts=["ESZSL"], sources=["features"]))
        assert [trial.expert for trial in found] == ["ESZSL"] * 6
        assert trials("ausuc", Selection(["CUB"], experts=["RN"])) == []

    def test_rows_of_published_predictions_only(self):
        found = trials("main", Selection(["CUB"], experts=["f-CLSWGAN"]))
        assert [(trial.source, trial.rule) for trial in found] == [
            ("features", "alone"),
            ("predictions", "alone"),
            ("predictions", "COSMO"),
            ("features", "COSMO"),
            ("predictions", CALIBRATED),
            ("features", CALIBRATED),
        ]

    def test_rows_about_the_search(self):
        found = trials("search", Selection(["CUB"], experts=["LAGO"], search="authors"))
        assert {trial.search for trial in found} == {"exact", "authors", "textbook"}
        searches = {
            trial.search
            for trial in trials("main", Selection(["CUB"], search="authors"))
            if trial.rule != CALIBRATED
        }
        assert searches == {"authors"}


@pytest.fixture(scope="module")
def main(runner):
    return fill("main", runner, Selection(["AWA1", "SUN", "CUB"], **LAGO))


@pytest.fixture
def nothing(tmp_path):
    (tmp_path / "xlsa17" / "CUB").mkdir(parents=True)
    return Runner(find_inputs(tmp_path), Cache(tmp_path / "cache"))


class TestFill:
    def test_rows(self, main):
        assert list(main.columns) == [
            *("table", "dataset", "expert", "row", "source", "search", "metric"),
            *("value", "low", "high", "published", "difference", "note", "missing"),
        ]
        for dataset in ("AWA1", "SUN", "CUB"):
            rows = main[main["dataset"] == dataset]
            assert list(rows["row"].unique()) == [
                "LAGO",
                "CS + LAGO",
                "COSMO + LAGO",
                "COSMO + LAGO, calibrated",
            ]
            assert list(rows["metric"]) == ["acc_ts", "acc_tr", "acc_h"] * 4

    def test_what_needs_no_features_is_there_without_them(self, main):
        needs = main.drop_duplicates(["dataset", "row"]).set_index(["dataset", "row"])["missing"]
        assert needs["AWA1", "LAGO"] == needs["AWA1", "CS + LAGO"] == ""
        assert needs["AWA1", "COSMO + LAGO"] == "features of AWA1: xlsa17/AWA1/res101.mat"
        assert {*needs["SUN"]} == {"published predictions of LAGO: predictions/LAGO/SUN/"}
        assert {*needs["CUB"]} == {""}

    def test_ours_minus_printed(self, main):
        pd.testing.assert_series_equal(
            main["difference"], main["value"] - main["published"], check_names=False
        )
        cub = main[(main["dataset"] == "CUB") & (main["row"] == "LAGO")].set_index("metric")
        assert cub["published"].to_dict() == {"acc_ts": 24.6, "acc_tr": 64.8, "acc_h": 35.6}

    def test_misprints_are_corrected(self, nothing):
        numbers = published_numbers()
        wrong = numbers[(numbers["table"] == "main") & numbers["corrected"].notna()]
        assert {*zip(wrong["method"], wrong["dataset"], strict=True)} == {
            ("ALE", "FLO"),
            ("RN", "CUB"),
            ("f-CLSWGAN", "AWA"),
            ("cycle-(U)WGAN", "AWA"),
        }
        frame = fill("main", nothing, Selection(DATASETS)).set_index(["dataset", "row", "metric"])
        for one in wrong.itertuples():
            dataset = "AWA1" if one.dataset == "AWA" else one.dataset
            row = frame.loc[[(dataset, one.method, one.metric)]].iloc[0]
            assert row["published"] == one.corrected != one.value
            assert row["note"] == one.note != ""

    def test_all_that_is_printed_is_shown(self, nothing):
        numbers = published_numbers()
        for name in TABLES:
            frame = fill(name, nothing, Selection(DATASETS))
            frame = frame[frame["published"].notna()].drop_duplicates(["dataset", "row", "metric"])
            assert len(frame) == (numbers["table"] == name).sum()

    def test_printed_ablations_are_lagos(self, runner):
        frame = fill("combination", runner, Selection(["CUB"], sources=["predictions"]))
        known = frame.groupby("expert")["published"].count()
        assert known.to_dict() == {"LAGO": 5, "f-CLSWGAN": 0}
        assert {*frame.loc[frame["expert"] == "f-CLSWGAN", "missing"]} == {
            "published predictions of f-CLSWGAN: predictions/fCLSWGAN/CUB/"
        }

    def test_validation_and_test_accuracies_are_not_mixed_up(self, runner):
        gates, whole = (
            fill(name, runner, Selection(["CUB"], **LAGO)).set_index(["row", "metric"])["value"]
            for name in ("gating", "combination")
        )
        found = runner.result(Trial("CUB", "LAGO", "predictions", "CB-Gating-3"))
        assert gates["CB-Gating-3", "acc_h"] == found["val_acc_h"]
        assert whole["CB-Gating", "acc_h"] == found["acc_h"] != found["val_acc_h"]

    def test_no_published_grid(self, release, cache):
        runner = Runner({"own": Holding("own", release / "xlsa17" / "CUB", "res101")}, cache)
        frame = fill("main", runner, Selection(["own"], experts=["ESZSL"], search="authors"))
        needs = frame.drop_duplicates("row").set_index("row")["missing"]
        grid = "a published grid for own"
        assert needs.to_dict() == {"ESZSL": "", "COSMO + ESZSL": grid, "COSMO + ESZSL, calibrated": ""}
        assert list(frame.drop_duplicates("row")["search"]) == ["authors", "authors", "exact"]
        assert frame["published"].isna().all()
