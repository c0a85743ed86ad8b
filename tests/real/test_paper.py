"""Numbers of the paper that its authors' predictions give without any features."""

import pytest

from cosmo._core.cache import Cache
from cosmo.paper.document import Selection, fill
from cosmo.paper.reproduce import draw_splits
from cosmo.paper.runner import Runner, find_inputs


@pytest.fixture(scope="module")
def runner(data_folder, tmp_path_factory):
    """The release without features, so that nothing can be trained."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "predictions").symlink_to(data_folder / "predictions")
    (folder / "xlsa17").mkdir()
    for name in ("AWA1", "SUN"):
        (folder / "xlsa17" / name).symlink_to(data_folder / "xlsa17" / name)
    return Runner(find_inputs(folder), Cache(tmp_path_factory.mktemp("cache")))


def wide(frame, column):
    """One decimal, as printed."""
    table = frame.pivot(index=["dataset", "row"], columns="metric", values=column)
    return table[list(frame["metric"].unique())].round(1)


@pytest.fixture(scope="module")
def table(runner):
    return fill("main", runner, Selection(["CUB", "AWA1"], sources=["predictions"], search="authors"))


@pytest.mark.parametrize(
    ("dataset", "row", "printed"),
    [
        ("CUB", "LAGO", (24.6, 64.8, 35.6)),
        ("AWA1", "LAGO", (21.8, 73.6, 33.7)),
        ("CUB", "f-CLSWGAN*", (45.1, 55.5, 49.8)),
        ("AWA1", "f-CLSWGAN*", (53.6, 67.0, 59.6)),
        ("AWA1", "CS + LAGO", (45.4, 68.2, 54.5)),
    ],
)
def test_rows_of_the_main_table(table, dataset, row, printed):
    assert tuple(wide(table, "value").loc[dataset, row]) == printed
    assert tuple(wide(table, "published").loc[dataset, row]) == printed


def test_stacking_on_cub(table):
    assert wide(table, "value").loc[("CUB", "CS + LAGO"), "acc_h"] == 47.9


@pytest.mark.parametrize("dataset", ["CUB", "AWA1"])
def test_the_rest_takes_features(table, dataset):
    needs = table[(table["dataset"] == dataset) & (table["missing"] != "")]
    rows = "COSMO + LAGO", "COSMO + f-CLSWGAN"
    assert {*needs["row"]} == {*rows, *(f"{row}, calibrated" for row in rows)}
    assert {*needs["missing"]} == {f"features of {dataset}: xlsa17/{dataset}/res101.mat"}


@pytest.mark.parametrize("search", ["exact", "authors"])
def test_area_under_the_curve(runner, search):
    frame = fill("ausuc", runner, Selection(["CUB", "AWA1"], sources=["predictions"], search=search))
    found = wide(frame, "value")["ausuc"]
    assert found["AWA1", "LAGO"] == pytest.approx(43.4, abs=0.1)
    assert found["CUB", "f-CLSWGAN"] == pytest.approx(34.5, abs=0.1)
    have = frame["value"].notna()
    assert (frame["low"] < frame["value"])[have].all()
    assert (frame["value"] < frame["high"])[have].all()


def test_exact_search_is_not_worse_on_validation(runner):
    frame = fill("search", runner, Selection(["CUB", "AWA1"])).query("metric == 'val_acc_h'")
    found = frame.pivot(index=["dataset", "expert"], columns="row", values="value")
    assert found.shape[0] == 4
    assert (found["CS, exact"] >= found["CS, authors"]).all()


@pytest.mark.parametrize("dataset", ["AWA1", "SUN"])
def test_splits_are_drawn_without_features(runner, dataset):
    figure = draw_splits(runner, dataset)
    figure.draw_without_rendering()
    words = " ".join(text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text")))
    assert f"{dataset}: cross-validation splits" in words


def test_the_whole_release_is_seen(data_folder):
    found = find_inputs(data_folder)
    assert found["CUB"].features == "res50"
    for dataset in ("CUB", "AWA1"):
        for method in ("LAGO", "f-CLSWGAN"):
            assert found[dataset].published_predictions(method).is_dir()
