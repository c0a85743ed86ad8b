from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from cosmo.viz.plots.labels import freeze_layout, place_labels


@pytest.fixture
def empty() -> tuple[Axes, RendererBase]:
    figure = Figure(figsize=(4, 4))
    axes = figure.add_subplot(xlim=(0, 1), ylim=(0, 1))
    return axes, freeze_layout(figure)


def box(label: Annotation, renderer: RendererBase) -> Bbox:
    label.update_positions(renderer)
    return Text.get_window_extent(label, renderer)


def test_a_single_label_is_beside_its_point(empty: tuple[Axes, RendererBase]):
    axes, renderer = empty
    (label,) = place_labels(axes, [[0.5, 0.5]], ["name"], renderer)
    x, y = axes.transData.transform((0.5, 0.5))
    found = box(label, renderer)
    assert not found.contains(x, y)
    assert found.padded(14).contains(x, y)
    assert label.arrow_patch is None


@pytest.mark.parametrize("corner", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_label_stays_inside(corner: tuple[int, int], empty: tuple[Axes, RendererBase]):
    axes, renderer = empty
    (label,) = place_labels(axes, [corner], ["a long name in a corner"], renderer)
    inside, found = axes.get_window_extent(), box(label, renderer)
    assert inside.x0 <= found.x0 < found.x1 <= inside.x1
    assert inside.y0 <= found.y0 < found.y1 <= inside.y1


def test_a_line_is_avoided(empty: tuple[Axes, RendererBase]):
    axes, renderer = empty
    line = np.array([[0.52, 0], [0.52, 1]])
    (label,) = place_labels(axes, [[0.5, 0.5]], ["name"], renderer, lines=[line])
    found, across = box(label, renderer), axes.transData.transform((0.52, 0.5))[0]
    assert found.x1 < across or found.x0 > across


def test_further_markers_are_avoided(empty: tuple[Axes, RendererBase]):
    axes, renderer = empty
    around = [[0.6, 0.5], [0.4, 0.5], [0.5, 0.54], [0.56, 0.53]]
    (label,) = place_labels(axes, [[0.5, 0.5]], ["name"], renderer, markers=around)
    assert not box(label, renderer).count_contains(axes.transData.transform(around))


def test_many_labels_of_one_point_are_apart_and_joined_to_it(empty: tuple[Axes, RendererBase]):
    axes, renderer = empty
    labels = place_labels(axes, [[0.5, 0.5]] * 9, [f"method {i}" for i in range(9)], renderer)
    boxes = [box(label, renderer) for label in labels]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    x, y = axes.transData.transform((0.5, 0.5))
    for label, found in zip(labels, boxes, strict=True):
        assert label.arrow_patch is not None or found.padded(16).contains(x, y)
    assert any(label.arrow_patch is not None for label in labels)


def test_the_same_input_gives_the_same_places(empty: tuple[Axes, RendererBase]):
    axes, renderer = empty
    at = np.random.default_rng(0).random((15, 2)) / 3 + 0.3
    first, second = (
        [label.get_position() for label in place_labels(axes, at, ["name"] * 15, renderer)] for _ in range(2)
    )
    assert first == second


def test_no_labels(empty: tuple[Axes, RendererBase]):
    assert place_labels(empty[0], [], [], empty[1]) == []


def test_points_and_names_must_agree(empty: tuple[Axes, RendererBase]):
    with pytest.raises(ValueError, match="2 points but 1 names"):
        place_labels(empty[0], [[0, 0], [1, 1]], ["a"], empty[1])
