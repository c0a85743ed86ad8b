"""The paper's rows from the predictions that its authors published: score level, no training."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cosmo._core.cache import Cache
from cosmo.classifier.ways import CalibratedStacking
from cosmo.data import read_predictions, read_xlsa17_split
from cosmo.data.splits import authors_hold_out
from cosmo.evaluation.run import CALIBRATED, evaluate
from cosmo.metrics.accuracy import sampled_ausuc
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import conditional
from cosmo.paper.runner import Runner, find_inputs
from cosmo.paper.trials import STACKING_CONSTANTS, Trial

LABELS = {"CUB": "res50", "AWA1": "labels", "SUN": "labels"}


def outputs(folder, stage, seen_proba=None):
    """Published predictions as outputs; without a seen expert, the published one's own seen columns."""
    published = read_predictions(folder, stage)
    seen, unseen = np.sort(published.seen_classes), np.sort(published.unseen_classes)
    columns = pd.Index(np.concatenate([seen, unseen]))
    joint = published.proba[columns].to_numpy()
    if seen_proba is None:
        seen_proba = conditional(joint[:, : len(seen)])
    return ExpertOutputs.from_joint(
        seen_proba, joint, pd.Index(seen), pd.Index(unseen), target=columns.get_indexer(published.y)
    )


@pytest.mark.parametrize(
    ("expert", "dataset", "printed"),
    [
        ("LAGO", "CUB", (24.6, 64.8, 35.6)),
        ("LAGO", "AWA1", (21.8, 73.6, 33.7)),
        ("fCLSWGAN", "CUB", (45.1, 55.5, 49.8)),
        ("fCLSWGAN", "AWA1", (53.6, 67.0, 59.6)),
    ],
)
def test_rows_of_the_main_table(data_folder, expert, dataset, printed):
    test = outputs(data_folder / "predictions" / expert / dataset, "test")
    scores = evaluate(expert, CalibratedStacking(0.0).fit(test), test, test).scores
    assert tuple(round(100 * value, 1) for value in scores) == printed


@pytest.mark.parametrize(
    ("expert", "dataset", "printed"), [("fCLSWGAN", "CUB", 34.5), ("LAGO", "AWA1", 43.4)]
)
def test_area_under_the_curve(data_folder, expert, dataset, printed):
    test = outputs(data_folder / "predictions" / expert / dataset, "test")
    assert 100 * CalibratedStacking().curve(test).area == pytest.approx(printed, abs=0.1)


def test_no_reading_of_the_curve_gives_the_printed_area_of_lago_on_cub(data_folder):
    """It is printed as 34.3; the same readings give the other three areas (above)."""
    test = outputs(data_folder / "predictions" / "LAGO" / "CUB", "test")
    areas = {"exact": CalibratedStacking().curve(test).area}
    for name, constants in (("sweep", STACKING_CONSTANTS), ("largest score", np.linspace(-1, 1, 201))):
        acc_ts, acc_tr, _ = CalibratedStacking().curve(test).sample(constants)
        areas[name] = sampled_ausuc(acc_tr, acc_ts)
        areas[f"{name}, axes swapped as in their code"] = sampled_ausuc(acc_ts, acc_tr)
    for name, function in (("logarithms", np.log), ("square roots", np.sqrt)):
        scores = {side: function(getattr(test, side)) for side in ("stacking_seen", "stacking_unseen")}
        areas[name] = CalibratedStacking().curve(replace(test, **scores)).area
    assert 100 * areas["exact"] == pytest.approx(33.1, abs=0.05)
    assert 100 * max(areas.values()) == pytest.approx(33.5, abs=0.05)


@pytest.mark.parametrize("expert", ["LAGO", "fCLSWGAN"])
@pytest.mark.parametrize("dataset", ["CUB", "AWA1"])
def test_the_authors_draw_is_reproduced_row_by_row(data_folder, expert, dataset):
    published = read_predictions(data_folder / "predictions" / expert / dataset, "val")
    _, split = read_xlsa17_split(data_folder / "xlsa17" / dataset, labels=LABELS[dataset])
    held = authors_hold_out(split, published.seed)
    np.testing.assert_array_equal(held.gzsl_val, published.rows)


@pytest.mark.parametrize(
    ("dataset", "sizes"),
    [("AWA1", (8502, 4958, 6372)), ("CUB", (2938, 1764, 2355)), ("SUN", (6700, 2580, 1040))],
)
def test_sizes_of_the_validation_stage(data_folder, dataset, sizes):
    labels, split = read_xlsa17_split(data_folder / "xlsa17" / dataset, labels=LABELS[dataset])
    held = authors_hold_out(split, 1001)
    held.check(labels)
    assert (len(held.seen_train), len(held.seen_val), len(held.unseen_val)) == sizes


@pytest.fixture(scope="module")
def runner(data_folder, tmp_path_factory):
    return Runner(find_inputs(data_folder), Cache(tmp_path_factory.mktemp("cache")))


class TestCalibratedGate:
    """The calibrated method on the only hold-out that there is, on test.

    The validation matrix of f-CLSWGAN on AWA1 is at chance on unseen classes, so it cannot be used.
    """

    @pytest.mark.parametrize(
        ("expert", "dataset", "source"),
        [
            ("LAGO", "CUB", "scores"),
            ("LAGO", "AWA1", "scores"),
            ("f-CLSWGAN", "CUB", "scores"),
            ("f-CLSWGAN", "CUB", "predictions"),
        ],
    )
    def test_the_point_carries_over(self, runner, expert, dataset, source):
        trials = {rule: Trial(dataset, expert, source, rule) for rule in ("CS", "COSMO", CALIBRATED)}
        found = {rule: runner.result(trial) for rule, trial in trials.items()}
        assert found[CALIBRATED]["ausuc"] > max(found["CS"]["ausuc"], found["COSMO"]["ausuc"]) - 0.1
        assert found[CALIBRATED]["acc_h"] > found["COSMO"]["acc_h"] - 0.5
