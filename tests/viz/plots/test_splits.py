import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from cosmo.data import Split, load_glyphs
from cosmo.data.splits import HoldOut, Protocol
from cosmo.viz.plots.walkthrough import plot_hold_out


@pytest.fixture(scope="module")
def protocol():
    return Protocol(load_glyphs(n_classes=40, samples_per_class=12))


@pytest.fixture(scope="module")
def figure(protocol):
    data = protocol.dataset
    return plot_hold_out(data.labels, data.split, protocol.hold_out, title=data.name)


def rectangles(figure):
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def legend(figure):
    return dict(text.get_text().split(": ") for text in figure.legends[0].get_texts())


def test_counts_are_those_of_the_split(protocol, figure):
    found = legend(figure)
    held, split, codes = protocol.hold_out, protocol.dataset.split, protocol.dataset.codes
    for name, rows in {
        "Seen-Train": held.seen_train,
        "Seen-Val": held.seen_val,
        "Unseen-Val": held.unseen_val,
        "GZSL-Val = Seen-Val + Unseen-Val": held.gzsl_val,
        "Gating-Train, plain": held.gating_train,
        "Gating-Val, hatched": held.gating_val,
        "Test, seen": split.test_seen,
        "Test, unseen": split.test_unseen,
    }.items():
        assert found.pop(name) == f"{len(rows):,} rows of {len(np.unique(codes[rows]))} classes"
    assert not found


def test_areas_are_proportional_to_rows(protocol, figure):
    held, split, codes = protocol.hold_out, protocol.dataset.split, protocol.dataset.codes
    areas = [one.get_width() * one.get_height() for one in rectangles(figure)]
    of_held = np.isin(codes[split.test_seen], codes[held.unseen_val])
    in_gating = np.isin(held.gzsl_val, held.gating_val)
    seen_gating, unseen_gating = np.split(in_gating, [len(held.seen_val)])
    expected = [
        len(held.seen_train),
        (~seen_gating).sum(),
        seen_gating.sum(),
        (~of_held).sum(),
        (~unseen_gating).sum(),
        unseen_gating.sum(),
        of_held.sum(),
        len(split.test_unseen),
    ]
    np.testing.assert_allclose(areas, expected)


def uneven(n_train, n_val, n_unseen):
    """Five rows a class, of seen classes one for the test."""
    n_seen = n_train + n_val
    labels = np.repeat(np.arange(n_seen + n_unseen), 5)
    rows, within = np.arange(len(labels)), np.arange(len(labels)) % 5
    is_seen, trained = labels < n_seen, labels < n_train
    split = Split(rows[is_seen & (within < 4)], rows[is_seen & (within == 4)], rows[~is_seen])
    held = HoldOut(
        rows[trained & (within < 3)], rows[trained & (within == 3)], rows[is_seen & ~trained & (within < 4)]
    )
    return plot_hold_out(labels, split, held, title="uneven")


@pytest.mark.parametrize("sizes", [(1, 1, 1), (900, 3, 5), (3, 400, 2), (2, 2, 1000)])
def test_texts_are_inside_and_apart(sizes):
    figure = uneven(*sizes)
    axes = figure.axes[0]
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    around = [one.get_window_extent(renderer) for one in rectangles(figure)]
    for text in axes.texts:
        box = text.get_window_extent(renderer)
        assert sum(one.overlaps(box) for one in around) == 1
    names = [label.get_window_extent(renderer) for label in axes.get_yticklabels()]
    assert not any(one.overlaps(other) for i, one in enumerate(names) for other in names[:i])
    assert min(box.x0 for box in names) >= 0
    outer = figure.legends[0].get_window_extent(renderer)
    assert outer.x0 >= 0
    assert outer.x1 <= figure.bbox.x1


def test_without_test_rows_of_seen_classes():
    figure = plot_hold_out(
        list("aabbc"), Split([0, 1, 2, 3], [], [4]), HoldOut([0], [1], [2, 3]), title="small"
    )
    assert "Test, seen" not in legend(figure)
    assert legend(figure)["Test, unseen"] == "1 row of 1 class"
