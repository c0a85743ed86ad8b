import csv
import json
from dataclasses import replace
from html import escape

import numpy as np
import pytest

from cosmo.data import GZSLDataset
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.viz.page import experiment_view, read_view, write_report

FILES = ["curves.csv", "plane.png", "reliability.png", "report.html", "results.json"]


@pytest.fixture(scope="module")
def folder(experiment, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "deep" / "down"
    write_report(experiment, path)
    return path


class TestFiles:
    def test_extra_results(self, experiment, tmp_path):
        write_report(experiment, tmp_path, extra={"repeats": [1, 2]})
        assert sorted(path.name for path in tmp_path.iterdir()) == FILES
        results = json.loads((tmp_path / "results.json").read_text("utf-8"))
        assert results == {**experiment.to_dict(), "repeats": [1, 2]}

    def test_curves(self, experiment, folder):
        with (folder / "curves.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["method", "threshold", "acc_ts", "acc_tr", "acc_h"]
        assert list(dict.fromkeys(row["method"] for row in rows)) == [e.name for e in experiment.evaluations]
        for one in experiment.evaluations:
            points = [row for row in rows if row["method"] == one.name]
            for key in ("acc_ts", "acc_tr", "acc_h"):
                written = [float(row[key]) for row in points]
                np.testing.assert_allclose(written, getattr(one.curve, key), atol=1e-6)

    def test_the_threshold_of_a_curve_point_gives_its_accuracies(self, experiment, tmp_path):
        # Among thousands of samples some flips are this close, and nobody can tell which.
        close = SeenUnseenCurve(
            0.7 + 1e-9 * np.arange(6), [0.5, 0, 0, 0, 0.5, 0], [0, 0.25, 0.25, 0.25, 0, 0]
        )
        evaluations = [*experiment.evaluations[:-1], replace(experiment.evaluations[-1], curve=close)]
        write_report(replace(experiment, evaluations=evaluations), tmp_path)
        with (tmp_path / "curves.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        for one in evaluations:
            points = [row for row in rows if row["method"] == one.name]
            acc_ts, acc_tr, _ = one.curve.sample([float(row["threshold"]) for row in points])
            np.testing.assert_allclose([float(row["acc_ts"]) for row in points], acc_ts, atol=1e-6)
            np.testing.assert_allclose([float(row["acc_tr"]) for row in points], acc_tr, atol=1e-6)


class TestPage:
    def test_carries_the_view(self, experiment, folder):
        page = (folder / "report.html").read_text("utf-8")
        assert read_view(page) == experiment_view(experiment)
        assert len(page) < 1_000_000

    def test_same_run_same_bytes(self, experiment, folder, tmp_path):
        write_report(experiment, tmp_path)
        for name in FILES:
            assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


class TestOddData:
    @pytest.mark.parametrize("name", ["100 % in $_$ {x} \\frac", "データ", "<b>bold</b>"])
    def test_any_name_can_be_drawn(self, name, experiment, tmp_path):
        data = experiment.dataset
        named = GZSLDataset(data.features, data.labels, data.descriptions, data.split, name=name)
        write_report(replace(experiment, dataset=named), tmp_path)
        assert json.loads((tmp_path / "results.json").read_text("utf-8"))["dataset"]["name"] == name
        page = (tmp_path / "report.html").read_text("utf-8")
        assert read_view(page)["title"] == f"Generalized zero-shot learning on {name}"
        assert f"<h1>Generalized zero-shot learning on {escape(name)}</h1>" in page
