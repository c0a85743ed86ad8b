"""The file of published numbers: typed right, consistent, and found by the names of our experts."""

import numpy as np
import pytest

from cosmo.evaluation.compare import published_numbers, published_rows
from cosmo.experts import UNSEEN_EXPERTS, GaussianExpert, SimilarityExpert

KEY = ["table", "method", "dataset", "metric"]
MISPRINTS = {("ALE", "FLO"), ("RN", "CUB"), ("f-CLSWGAN", "AWA"), ("cycle-(U)WGAN", "AWA")}

# Column sums, taken from the printed tables and not from the file: Acc_H alone would not notice a slip of 0.1
# in the larger of Acc_ts and Acc_tr.
SUMS = {
    ("main", "acc_ts"): {"AWA": 614.4, "SUN": 460.0, "CUB": 563.6, "FLO": 307.9},
    ("main", "acc_tr"): {"AWA": 1409.7, "SUN": 568.4, "CUB": 1126.9, "FLO": 459.5},
    ("main", "acc_h"): {"AWA": 764.4, "SUN": 507.7, "CUB": 754.9, "FLO": 343.0},
    ("benchmark", "acc_ts"): {"AWA": 114.2, "SUN": 130.5, "CUB": 100.6, "FLO": 118.3},
    ("benchmark", "acc_tr"): {"AWA": 303.8, "SUN": 147.9, "CUB": 239.0, "FLO": 143.6},
    ("benchmark", "acc_h"): {"AWA": 121.7, "SUN": 123.8, "CUB": 120.4, "FLO": 129.6},
    ("zsl", "t1"): {"AWA": 715.0, "AWA2": 64.7, "SUN": 664.3, "CUB": 741.9, "FLO": 336.3},
    ("lago", "t1"): {"AWA2": 307.0, "SUN": 265.4, "CUB": 281.1},
    ("ausuc", "ausuc"): {"AWA": 283.4, "SUN": 118.5, "CUB": 210.7, "FLO": 193.8},
    ("gating", "acc_h"): {"AWA": 269.5, "SUN": 195.2, "CUB": 220.6},
    ("gating", "auc"): {"AWA": 445.5, "SUN": 336.1, "CUB": 385.4},
    ("gating", "fpr"): {"AWA": 285.7, "SUN": 432.3, "CUB": 387.2},
    ("smoothing", "acc_h"): {"AWA": 160.2, "SUN": 118.4, "CUB": 132.7},
    ("combination", "acc_h"): {"AWA": 307.5, "SUN": 193.9, "CUB": 240.3},
    ("joint", "acc_ts"): {"CUB": 0.1},
    ("joint", "acc_tr"): {"CUB": 198.6},
    ("joint", "acc_h"): {"CUB": 28.2},
}


@pytest.fixture
def numbers():
    return published_numbers()


def triples(numbers, *, corrected):
    """Acc_ts, Acc_tr and Acc_H of every method and data set that has all three."""
    numbers = numbers[numbers["table"].isin(["main", "benchmark"])]
    value = numbers["corrected"].fillna(numbers["value"]) if corrected else numbers["value"]
    wide = numbers.assign(value=value).pivot(index=["method", "dataset"], columns="metric", values="value")
    return wide.dropna()


def inconsistent(wide):
    """Rows whose Acc_H is none that Acc_ts and Acc_tr can have before they are rounded to 0.1."""

    def harmonic(half):
        ts, tr = wide["acc_ts"] + half, wide["acc_tr"] + half
        return 2 * ts * tr / (ts + tr)

    low, high = harmonic(-0.05), harmonic(0.05)
    wrong = (low > wide["acc_h"] + 0.05 + 1e-9) | (high < wide["acc_h"] - 0.05 - 1e-9)
    return set(wide.index[wrong])


def test_columns(numbers):
    assert not numbers.duplicated(KEY).any()
    assert not numbers.drop(columns="corrected").isna().any(axis=None)
    assert set(numbers["dataset"]) == {"CUB", "AWA", "AWA2", "SUN", "FLO"}
    assert set(numbers["metric"]) == {"acc_ts", "acc_tr", "acc_h", "ausuc", "t1", "auc", "fpr"}
    assert set(numbers["kind"]) >= {"non-generative", "generative", "combination", "gate"}
    validation = numbers["split"] == "validation"
    assert set(numbers[validation]["table"]) == {"gating", "smoothing"}
    assert (numbers["split"] == "test").sum() == len(numbers) - validation.sum()
    for column in ("value", "corrected"):
        given = numbers[column].dropna()
        assert given.between(0, 100).all()
        np.testing.assert_allclose(given, given.round(1))  # nothing is printed finer
    assert (numbers["note"][numbers["corrected"].notna()] != "").all()


def test_sums_of_the_printed_columns(numbers):
    for (table, metric), expected in SUMS.items():
        column = numbers[(numbers["table"] == table) & (numbers["metric"] == metric)]
        assert column.groupby("dataset")["value"].sum().round(1).to_dict() == expected, (table, metric)


def test_harmonic_means_agree_except_for_the_misprints(numbers):
    printed = triples(numbers, corrected=False)
    assert len(printed) == 78
    # RN on CUB is misprinted too, but by so little that rounding hides it.
    assert inconsistent(printed) == MISPRINTS - {("RN", "CUB")}
    assert inconsistent(triples(numbers, corrected=True)) == set()


def test_chosen_on_test(numbers):
    chosen = numbers["note"].str.contains("chosen on test")
    assert set(numbers[chosen]["method"]) == {"DEM", "RN", "Kernel", "f-CLSWGAN"}


def test_rows_of_our_experts():
    # Two are not methods of the paper's tables.
    for expert in {*UNSEEN_EXPERTS.values()} - {SimilarityExpert, GaussianExpert}:
        row = published_rows(expert.__name__, "CUB").loc["alone"]
        assert np.isfinite(row["acc_h"]), expert
        if expert.__name__ not in ("Kernel", "TRIPLE", "ICINESS", "CycleWGAN"):  # no T1 known of those
            assert np.isfinite(row["t1"]), expert


@pytest.mark.parametrize(
    ("expert", "dataset", "acc_ts"),
    [
        ("FCLSWGAN", "CUB", 43.7),
        ("f-CLSWGAN*", "CUB", 45.1),
        ("CycleUWGAN", "SUN", 47.2),
        ("CycleWGAN", "SUN", 48.3),
        ("SEGZSL", "CUB", 41.5),
        ("CMT", "CUB", 7.2),
        ("CMT*", "CUB", 4.7),
        ("RN", "AWA1", 31.4),
        ("Kernel", "AWA", 18.3),
    ],
)
def test_names_of_classes(expert, dataset, acc_ts):
    assert published_rows(expert, dataset).loc["alone", "acc_ts"] == acc_ts


def test_rows_of_f_clswgan():
    right = published_rows("FCLSWGAN", "AWA")
    assert right.loc["alone", "acc_ts"] == 57.9  # printed: 59.7
    assert right.loc["alone", "note"].count("chosen on test") == 1
    assert "swapped" in right.loc["alone", "note"]
    assert right.loc["COSMO", "ausuc"] == 55.9
    assert "re-run" in right.loc["COSMO", "note"]


def test_nothing_published():
    for rows in (published_rows("Mine", "CUB"), published_rows("ESZSL", "glyphs")):
        assert rows.drop(columns="note").isna().all(axis=None)
        assert (rows["note"] == "").all()
    assert list(published_rows("Mine", "CUB").index) == ["alone", "CS", "COSMO"]


def test_a_copy_is_returned(numbers):
    numbers["value"] = 0.0
    assert published_rows("LAGO", "CUB").loc["alone", "acc_h"] == 35.6
    assert published_numbers()["value"].max() > 90
