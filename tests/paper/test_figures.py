from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cosmo.paper.figures import draw_planes, draw_splits, draw_walkthrough, instructive
from matplotlib.figure import Figure

from cosmo._core.cache import Cache
from cosmo.data import GZSLDataset, Split, write_xlsa17
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.paper.inputs import Missing, find_inputs
from cosmo.paper.runner import Runner
from cosmo.paper.trials import Trial, fitted


def texts(figure: Figure) -> str:
    """All words of a figure."""
    figure.draw_without_rendering()
    return "\n".join(text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text")))


def outputs(seen: np.ndarray, unseen: np.ndarray, target: list[int]) -> ExpertOutputs:
    return ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), seen, unseen, target=np.array(target))


class TestInstructive:
    def test_a_seen_class_before_a_surer_unseen_one(self):
        test = outputs(np.array([[0.6, 0.4], [0.5, 0.5]]), np.array([[0.1], [0.9]]), [0, 2])
        assert instructive(test, np.array([0, 2]), np.array([2, 0])) == 0

    def test_an_unseen_class_where_there_is_no_other(self):
        test = outputs(np.array([[0.6, 0.4], [0.5, 0.5]]), np.array([[0.1], [0.9]]), [0, 2])
        assert instructive(test, np.array([0, 2]), np.array([0, 0])) == 1

    def test_none(self):
        test = outputs(np.array([[0.6, 0.4]]), np.array([[0.1]]), [0])
        with pytest.raises(Missing, match="a sample that smoothing turns from wrong to right"):
            instructive(test, np.array([0]), np.array([0]))


class TestWalkthrough:
    def answers(self, runner: Runner) -> tuple[np.ndarray, np.ndarray, ExpertOutputs]:
        trials = [Trial("CUB", "LAGO", "predictions", rule) for rule in ("COSMO", "CB-Gating-3")]
        validation, test = runner.outputs(trials[0].case)
        smoothed, plain = (fitted(trial, validation).predict(test) for trial in trials)
        return smoothed, plain, test

    def test_default_is_one_that_smoothing_turns_right(self, runner: Runner):
        smoothed, plain, test = self.answers(runner)
        row = instructive(test, smoothed, plain)
        assert smoothed[row] == test.labels[row] != plain[row]
        words = texts(draw_walkthrough(runner, "CUB", "LAGO", "predictions"))
        assert f"CUB, COSMO + LAGO: test sample {row}" in words
        assert "(wrong)" in words
        assert "(right)" in words

    def test_any_sample(self, runner: Runner):
        _, _, test = self.answers(runner)
        for row in (0, len(test) - 1):
            words = texts(draw_walkthrough(runner, "CUB", "LAGO", "predictions", row=row))
            assert f"test sample {row}" in words
            assert str(test.classes[test.labels[row]]) in words

    @pytest.mark.parametrize("row", [-1, 200, 10**9])
    def test_out_of_range(self, runner: Runner, row: int):
        with pytest.raises(
            ValueError, match=f"CUB has 200 test samples, numbered from 0; there is no {row}$"
        ):
            draw_walkthrough(runner, "CUB", "LAGO", "predictions", row=row)

    def test_missing(self, runner: Runner):
        with pytest.raises(Missing, match="^features of AWA1"):
            draw_walkthrough(runner, "AWA1", "LAGO", "predictions")


class TestPlanes:
    def test_curves_and_what_was_published(self, runner: Runner):
        figure = draw_planes(runner, ["CUB"], "LAGO", "predictions")
        words = texts(figure)
        for name in ("COSMO + LAGO", "CS + LAGO", "ESZSL"):
            assert name in words

    def test_without_features_stacking_is_drawn(self, runner: Runner):
        words = texts(draw_planes(runner, ["AWA1"], "LAGO", "predictions"))
        assert "CS + LAGO" in words
        assert "COSMO + LAGO" not in words

    def test_nothing_but_published_points(self, runner: Runner):
        words = texts(draw_planes(runner, ["SUN"], "LAGO", "predictions"))
        assert "SUN (published points only)" in words

    def test_nothing_at_all(self, runner: Runner):
        with pytest.raises(Missing, match=r"^published predictions of LAGO: predictions/LAGO/glyphs/$"):
            draw_planes(runner, ["glyphs"], "LAGO", "predictions")

    def test_one_panel_for_each_data_set(self, runner: Runner):
        words = texts(draw_planes(runner, ["AWA1", "SUN", "CUB"], "LAGO", "predictions"))
        for name in ("AWA1", "SUN", "CUB"):
            assert name in words


class TestSplits:
    def test_with_and_without_features(self, runner: Runner):
        with_features, without = (texts(draw_splits(runner, name)) for name in ("CUB", "AWA1"))
        assert "CUB: cross-validation splits" in with_features
        assert "AWA1: cross-validation splits" in without
        for count in (28, 12):  # seen and unseen classes
            assert str(count) in with_features
            assert str(count) in without

    def test_missing(self, runner: Runner):
        with pytest.raises(Missing, match="^splits of SUN"):
            draw_splits(runner, "SUN")

    def test_neither_features_nor_validation_classes(self, tmp_path: Path, data: GZSLDataset):
        split = Split(data.split.trainval, data.split.test_seen, data.split.test_unseen)
        bare = GZSLDataset(np.zeros((len(data.labels), 1)), data.labels, data.descriptions, split)
        write_xlsa17(bare, tmp_path / "xlsa17" / "FLO", features="labels")
        with pytest.raises(Missing, match="^features of FLO"):
            draw_splits(Runner(find_inputs(tmp_path), Cache(tmp_path / "cache")), "FLO")
