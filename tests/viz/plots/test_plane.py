from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cosmo.classifier.combinations import OperatingPoint
from cosmo.evaluation.run import Evaluation
from cosmo.metrics.accuracy import Interval
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.viz.plots import plot_plane

NAMES = ["ESZSL alone", "CS + ESZSL", "Independent-Hard", "CB-Gating", "COSMO"]


def made(name: str, curve: SeenUnseenCurve, threshold: float | None = None) -> Evaluation:
    at = curve.best().threshold if threshold is None else threshold
    scores = curve.at(at)
    whole = Interval(0.0, 1.0)
    return Evaluation(
        name=name,
        scores=scores,
        intervals=(whole, whole, whole),
        ausuc=curve.area,
        ausuc_interval=whole,
        point=OperatingPoint(at),
        validation=scores,
        curve=curve,
    )


@pytest.fixture(scope="module")
def evaluations(made_curve: Callable[..., SeenUnseenCurve]) -> list[Evaluation]:
    curves = [made_curve(0), *(made_curve(seed) for seed in range(4))]
    return [made(NAMES[0], curves[0], threshold=-0.4)] + [
        made(name, curve) for name, curve in zip(NAMES[1:], curves[1:], strict=True)
    ]


@pytest.fixture(scope="module")
def axes(evaluations: list[Evaluation]) -> Axes:
    figure = plot_plane(evaluations, title="a title")
    (found,) = figure.axes
    return found


def points(line: Line2D) -> np.ndarray:
    return np.column_stack(line.get_data())


def curves(axes: Axes) -> list[Line2D]:
    return [line for line in axes.lines if len(points(line)) > 1]


def marks(axes: Axes) -> list[Line2D]:
    return [line for line in axes.lines if line.get_linestyle() in ("None", "none", "")]


def shown(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=50)
    return file.getvalue()


def test_one_curve_for_every_method_with_a_choice(axes: Axes, evaluations: list[Evaluation]):
    drawn = curves(axes)
    assert len(drawn) == len(evaluations) - 1
    for line, one in zip(drawn, evaluations[1:], strict=True):
        np.testing.assert_allclose(
            points(line), 100 * np.column_stack([one.curve.acc_tr, one.curve.acc_ts]), err_msg=one.name
        )


def test_operating_points(axes: Axes, evaluations: list[Evaluation]):
    drawn = marks(axes)
    assert len(drawn) == len(evaluations)
    for line, one in zip(drawn, evaluations, strict=True):
        np.testing.assert_allclose(points(line), [[100 * one.scores.acc_tr, 100 * one.scores.acc_ts]])
    assert [line.get_marker() for line in drawn] == ["^"] + ["s"] * (len(evaluations) - 1)


def test_all_is_inside_the_axes(axes: Axes):
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert (left, bottom) == (0, 0)
    for line in [*curves(axes), *marks(axes)]:
        x, y = points(line).T
        assert ((x >= 0) & (x < right) & (y >= 0) & (y < top)).all()


def test_a_point_and_its_curve_have_one_colour(axes: Axes):
    drawn = curves(axes)
    colours = [line.get_color() for line in drawn]
    assert [line.get_color() for line in marks(axes)[1:]] == colours
    assert len({*colours, marks(axes)[0].get_color()}) == len(colours) + 1


def test_the_last_method_is_drawn_strongest(axes: Axes):
    *others, last = curves(axes)
    assert last.get_linestyle() == "-"
    assert all(line.get_linewidth() < last.get_linewidth() for line in others)
    assert all(line.get_zorder() < last.get_zorder() for line in others)
    assert all(line.get_linestyle() != "-" for line in others)


def test_labels(axes: Axes, evaluations: list[Evaluation]):
    assert axes.get_title() == "a title"
    assert re.search(r"\bseen.*Acc_tr.*%", axes.get_xlabel())
    assert re.search(r"\bunseen.*Acc_ts.*%", axes.get_ylabel())
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        f"{one.name}: H {100 * one.scores.acc_h:.1f}, AUSUC {100 * one.ausuc:.1f}" for one in evaluations
    ]


def test_thin_lines_join_equal_harmonic_means(axes: Axes):
    (lines,) = axes.collections
    values = [int(text.get_text().removeprefix("H ")) for text in axes.texts]
    assert values[:3] == [10, 20, 30]
    for mean, path in zip(values, lines.get_paths(), strict=True):
        x, y = np.asarray(path.vertices).T
        np.testing.assert_allclose(2 * x * y / (x + y), mean)


def test_can_be_saved_twice(evaluations: list[Evaluation]):
    figure = plot_plane(evaluations)
    assert shown(figure) == shown(figure)


def test_more_methods_than_colours(made_curve: Callable[..., SeenUnseenCurve]):
    many = [made(f"method {i}", made_curve(i, 20)) for i in range(12)]
    (axes,) = plot_plane(many).axes
    assert len(curves(axes)) == 11


def test_a_single_method_is_drawn_with_its_curve(made_curve: Callable[..., SeenUnseenCurve]):
    """It is not "a method that has no choice" only because it comes first."""
    one = made("COSMO", made_curve(0))
    (axes,) = plot_plane([one]).axes
    assert len(curves(axes)) == 1
    assert [line.get_marker() for line in marks(axes)] == ["s"]


INF = np.inf
SMALL: dict[str, tuple[Any, Any, Any]] = {
    "all seen": ([INF, INF], [0.5, 0.5], [0, 0]),
    "all unseen": ([-INF, -INF], [0, 0], [0.5, 0.5]),
    "decided": ([INF, -INF], [0.5, 0], [0, 0.5]),
    "never right": ([0.1, 0.2], [0, 0], [0, 0]),
    "no sample": ([], [], []),
    "tiny": ([0.1, 0.2, 0.3], [0, 0.001, 0.002], [0.001, 0, 0]),
}


@pytest.mark.parametrize("case", SMALL)
def test_poor_curves_can_be_drawn(case: str):
    curve = SeenUnseenCurve(*SMALL[case])
    if case in ("all seen", "all unseen", "decided", "no sample"):
        assert len(curve.acc_ts) == 1
    figure = plot_plane([made("expert", curve), made("COSMO", curve)])
    assert shown(figure).startswith(b"\x89PNG")
    (axes,) = figure.axes
    last = points(marks(axes)[-1])[0]
    assert axes.get_xlim()[0] <= last[0] <= axes.get_xlim()[1]
    assert axes.get_ylim()[0] <= last[1] <= axes.get_ylim()[1]
