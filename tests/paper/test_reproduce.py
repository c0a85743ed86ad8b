import numpy as np
import pandas as pd
import pytest

from cosmo._core.cache import Cache
from cosmo.data import GZSLDataset, Split, write_xlsa17
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.paper.document import TABLES, Selection
from cosmo.paper.reproduce import (
    PARTS,
    Reproduction,
    corrected_sample,
    draw_planes,
    draw_splits,
    draw_walkthrough,
)
from cosmo.paper.runner import Runner, find_inputs
from cosmo.paper.trials import Missing, Trial, fitted


def reproduce(runner, out, names, **options):
    selected = Selection(["AWA1", "CUB"], ["LAGO"], ["predictions", "scores"])
    made = Reproduction(runner, out, selected, **options)
    return {section.name: section for section in made.sections(names)}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def sections(runner, out):
    return reproduce(runner, out, list(PARTS))


class TestSections:
    def test_titles_and_files(self, sections, out):
        assert list(sections) == list(PARTS)
        assert [section.title for section in sections.values()] == [PARTS[name] for name in PARTS]
        tables = {path.name for path in (out / "tables").iterdir()}
        assert tables == {f"{name}.{suffix}" for name in TABLES for suffix in ("csv", "tex")}
        figures = {path.name for path in (out / "figures").iterdir()}
        names = ("planes-LAGO-predictions", "walkthrough-CUB-LAGO", "splits-AWA1", "splits-CUB")
        assert figures == {f"{name}.{suffix}" for name in names for suffix in ("png", "svg")}

    def test_missing(self, sections):
        features = ["features of AWA1: xlsa17/AWA1/res101.mat"]
        for name, section in sections.items():
            expected = [] if name in ("scores", "planes", "splits") else features
            assert section.missing == expected, name

    def test_neither_expert_nor_source(self, runner, tmp_path):
        (section,) = Reproduction(runner, tmp_path, Selection(["CUB"], ["RN"], ["predictions"])).sections(
            ["ausuc"]
        )
        assert section.missing == ["an expert or source of this table"]
        assert list((tmp_path / "tables").iterdir()) == []
        made = Reproduction(runner, tmp_path, Selection(["CUB"], ["LAGO"], ["scores"]))
        for section in made.sections(["planes", "walkthrough"]):
            assert section.missing == ["a source of these figures"]
            assert section.pictures == []

    def test_experts_of_planes_are_trained_in_parallel(self, runner, tmp_path):
        made = Reproduction(runner, tmp_path, Selection(["CUB", "SUN"], ["LAGO"]))
        assert [trial.case for trial in made._trials("planes")] == [
            (dataset, "LAGO", source) for dataset in ("CUB", "SUN") for source in ("predictions", "features")
        ]


def texts(figure):
    """All words of a figure."""
    figure.draw_without_rendering()
    return "\n".join(text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text")))


class TestWalkthrough:
    @pytest.mark.parametrize(("plain", "expected"), [([2, 0], 0), ([0, 0], 1)])
    def test_corrected_samples_of_seen_classes_come_first(self, plain, expected):
        seen, unseen = np.array([[0.6, 0.4], [0.5, 0.5]]), np.array([[0.1], [0.9]])
        classes = pd.Index(["a", "b"]), pd.Index(["z"])
        test = ExpertOutputs(*classes, seen, unseen, target=np.array([0, 2]))
        assert corrected_sample(test, np.array([0, 2]), np.array(plain)) == expected
        with pytest.raises(Missing, match="a sample that smoothing corrects"):
            corrected_sample(test, np.array([0, 2]), np.array([0, 2]))

    def test_default_and_chosen_sample(self, runner):
        trials = [Trial("CUB", "LAGO", "predictions", rule) for rule in ("COSMO", "CB-Gating-3")]
        validation, test = runner.outputs(trials[0].case)
        row = corrected_sample(test, *(fitted(trial, validation).predict(test) for trial in trials))
        words = texts(draw_walkthrough(runner, "CUB", "LAGO", "predictions"))
        assert f"CUB, COSMO + LAGO: test sample {row}" in words
        assert "(wrong)" in words
        assert "(right)" in words
        words = texts(draw_walkthrough(runner, "CUB", "LAGO", "predictions", row=len(test) - 1))
        assert str(test.classes[test.labels[-1]]) in words

    @pytest.mark.parametrize("row", [-1, 200])
    def test_errors(self, runner, row):
        with pytest.raises(ValueError, match=f"CUB has test samples 0 to 199; there is no {row}$"):
            draw_walkthrough(runner, "CUB", "LAGO", "predictions", row=row)
        with pytest.raises(Missing, match="^features of AWA1"):
            draw_walkthrough(runner, "AWA1", "LAGO", "predictions")


class TestPlanes:
    def test_curves_and_published_points(self, runner):
        words = texts(draw_planes(runner, Selection(["CUB", "SUN"]), "LAGO", "predictions"))
        for name in ("COSMO + LAGO", "CS + LAGO", "ESZSL", "SUN (published points only)"):
            assert name in words


class TestSplits:
    @pytest.mark.parametrize("name", ["CUB", "AWA1"])
    def test_with_and_without_features(self, runner, name):
        words = texts(draw_splits(runner, name))
        assert f"{name}: cross-validation splits" in words
        assert "28" in words  # seen classes
        assert "12" in words  # unseen classes

    def test_missing(self, runner, data, tmp_path):
        with pytest.raises(Missing, match="^splits of SUN"):
            draw_splits(runner, "SUN")
        split = Split(data.split.trainval, data.split.test_seen, data.split.test_unseen)
        bare = GZSLDataset(np.zeros((len(data.labels), 1)), data.labels, data.descriptions, split)
        write_xlsa17(bare, tmp_path / "xlsa17" / "FLO", features="labels")
        with pytest.raises(Missing, match="^features of FLO"):
            draw_splits(Runner(find_inputs(tmp_path), Cache(tmp_path / "cache")), "FLO")
