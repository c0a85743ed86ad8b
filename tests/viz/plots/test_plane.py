from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox, BboxBase

from cosmo.classifier.combinations import OperatingPoint
from cosmo.evaluation.run import Evaluation
from cosmo.metrics.accuracy import GZSLScores, Interval
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.viz.plots import LINES, save_figure
from cosmo.viz.plots.plane import PlanePanel, PublishedPoint, plot_plane, plot_planes, published_points


def made_curve(seed: int, n: int = 60) -> SeenUnseenCurve:
    rng = np.random.default_rng(seed)
    seen, right = rng.random(n) < 0.5, rng.random(n) < 0.7
    gains = np.where(seen & right, 1 / seen.sum(), 0), np.where(~seen & right, 1 / (~seen).sum(), 0)
    return SeenUnseenCurve(rng.normal(size=n) + seen, *gains)


def names(axes: Axes) -> dict[str, Text]:
    """Labels of published methods; the values of equal means are annotations."""
    return {text.get_text(): text for text in axes.texts if not isinstance(text, Annotation)}


def boxes(axes: Axes) -> list[Bbox]:
    figure = axes.figure
    assert isinstance(figure, Figure)
    renderer = FigureCanvasAgg(figure).get_renderer()
    return [label.get_window_extent(renderer) for label in names(axes).values()]


def marks(axes: Axes, marker: str) -> np.ndarray:
    found = [line for line in axes.lines if line.get_marker() == marker and line.get_linestyle() == "None"]
    return np.array([[line.get_xdata()[0], line.get_ydata()[0]] for line in found]).reshape(-1, 2)


def curves(axes: Axes) -> list[Line2D]:
    return [line for line in axes.lines if len(line.get_xdata()) > 1]


def assert_inside(one: BboxBase | None, outer: BboxBase) -> None:
    assert one is not None
    assert outer.count_contains([one.min, one.max]) == 2


def assert_labels_are_apart(axes: Axes) -> None:
    found = boxes(axes)
    inside = axes.get_window_extent()
    for i, one in enumerate(found):
        assert_inside(one, inside)
        for other in found[:i]:
            assert not one.overlaps(other)


@pytest.fixture(scope="module")
def panel() -> PlanePanel:
    first, second = made_curve(0, 3000), made_curve(1, 3000)
    chosen = {"COSMO": first.best(), "CS": second.best(), "expert alone": GZSLScores(0.2, 0.6, 0.3)}
    return PlanePanel("CUB", {"COSMO": first, "CS": second}, chosen, published_points("CUB"))


@pytest.fixture(scope="module")
def axes(panel: PlanePanel) -> Axes:
    return plot_planes([panel]).axes[0]


class TestPublishedPoints:
    def test_all_methods_with_both_accuracies(self):
        found = published_points("CUB")
        assert len(found) == 16
        assert "ICINESS" not in {point.name for point in found}  # only its Acc_H was printed
        assert sum(point.kind == "generative" for point in found) == 4

    def test_misprints_are_put_right(self):
        (found,) = [point for point in published_points("AWA1") if point.name == "f-CLSWGAN"]
        assert found == PublishedPoint("f-CLSWGAN", 0.579, 0.614, "generative")


class TestData:
    def test_a_curve_is_its_own_points_thinned_beyond_sight(self, axes: Axes, panel: PlanePanel):
        drawn = curves(axes)
        assert len(drawn) == 2
        for line, curve in zip(drawn, panel.curves.values(), strict=True):
            assert isinstance(curve, SeenUnseenCurve)
            exact = 100 * np.column_stack([curve.acc_tr, curve.acc_ts])
            shown = np.column_stack(line.get_data())
            assert {*map(tuple, shown)} <= {*map(tuple, exact)}
            np.testing.assert_array_equal(shown[[0, -1]], exact[[0, -1]])
            furthest = abs(shown[:, None] - exact).max(axis=2).min(axis=0).max()
            assert furthest <= 0.05 + 1e-9
            assert len(shown) < len(exact)

    def test_squares_are_at_the_chosen_points(self, axes: Axes, panel: PlanePanel):
        expected = [[100 * at.acc_tr, 100 * at.acc_ts] for at in panel.chosen.values()]
        np.testing.assert_allclose(marks(axes, "s"), expected)

    def test_triangles_and_crosses_are_the_published_points(self, axes: Axes, panel: PlanePanel):
        for marker, kind in (("^", "non-generative"), ("X", "generative")):
            expected = [[100 * p.acc_tr, 100 * p.acc_ts] for p in panel.published if p.kind == kind]
            np.testing.assert_allclose(marks(axes, marker), expected)
        assert list(names(axes)) == [point.name for point in panel.published]

    def test_everything_is_inside(self, axes: Axes):
        right, top = axes.get_xlim()[1], axes.get_ylim()[1]
        for line in axes.lines:
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            assert ((x >= 0) & (x <= right + 1e-9) & (y >= 0) & (y <= top + 1e-9)).all()

    def test_lines_of_equal_means(self, axes: Axes):
        (lines,) = axes.collections
        found = [path.vertices for path in lines.get_paths()]
        values = [int(t.get_text().split()[1]) for t in axes.texts if t.get_text().startswith("H ")]
        assert len(values) == len(found) >= 4
        for points, mean in zip(found, values, strict=True):
            x, y = np.asarray(points).T
            np.testing.assert_allclose(2 * x * y / (x + y), mean)
            assert (x[-1], y[0]) == pytest.approx((axes.get_xlim()[1], axes.get_ylim()[1]))


CROWDS = {
    "AWA": published_points("AWA"),
    "the same point": [PublishedPoint(f"method {i}", 0.4, 0.5) for i in range(6)],
    "perfect": [PublishedPoint("best", 1, 1)],
}


class TestLooks:
    @pytest.mark.parametrize("name", CROWDS)
    def test_labels_do_not_overlap(self, name: str):
        assert_labels_are_apart(plot_planes([PlanePanel(name, published=CROWDS[name])]).axes[0])

    def test_labels_keep_off_markers_and_each_other(self, axes: Axes, panel: PlanePanel):
        assert_labels_are_apart(axes)
        spots = [*panel.published, *panel.chosen.values()]
        at = axes.transData.transform([[100 * spot.acc_tr, 100 * spot.acc_ts] for spot in spots])
        for box in boxes(axes):
            assert not box.count_contains(at)

    def test_a_curve_looks_the_same_in_all_panels(self):
        one, two = made_curve(0), made_curve(1)
        figure = plot_planes(
            [PlanePanel("a", {"COSMO": one, "CS": two}), PlanePanel("b", {"CS": one, "COSMO": two})]
        )
        first, second = (curves(axes) for axes in figure.axes)
        colours = [line.get_color() for line in first]
        assert colours == [LINES[0].colour, LINES[1].colour]
        assert [line.get_color() for line in second] == colours[::-1]
        assert curves(figure.axes[0])[0].get_zorder() > curves(figure.axes[0])[1].get_zorder()

    @pytest.mark.parametrize("n", [1, 3, 4])
    def test_number_of_panels(self, n: int):
        figure = plot_planes([PlanePanel(str(i), {"a": ([0.5, 0.0], [0.0, 0.5])}) for i in range(n)])
        assert [axes.get_title() for axes in figure.axes if axes.axison] == [str(i) for i in range(n)]
        legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
        assert len(legends) == 1
        assert figure.get_figwidth() <= 11

    def test_nothing_is_cut_off(self, panel: PlanePanel):
        figure = plot_planes([panel], title="a title of the whole figure")
        (legend,) = figure.legends
        renderer = FigureCanvasAgg(figure).get_renderer()
        for box in (figure.axes[0].get_tightbbox(renderer), legend.get_window_extent(renderer)):
            assert_inside(box, figure.bbox)

    def test_legend(self, axes: Axes):
        figure = axes.figure
        assert isinstance(figure, Figure)
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        published = ["published, non-generative", "published, generative"]
        assert texts == ["COSMO", "CS", "expert alone", "square: point chosen on GZSL-Val", *published]


class TestFiles:
    def test_the_same_data_give_the_same_bytes(self, panel: PlanePanel, tmp_path: Path):
        first = save_figure(plot_planes([panel]), tmp_path / "a")
        second = save_figure(plot_planes([panel]), tmp_path / "b")
        for one, two in zip(first, second, strict=True):
            assert one.read_bytes() == two.read_bytes()


class TestOddInputs:
    def test_names_with_dollars_and_line_breaks(self, tmp_path: Path):
        odd = [PublishedPoint(name, 0.5, 0.5) for name in ("$x_1", "two\nlines", "")]
        panel = PlanePanel("$a title", {"$c$_{": ([0.5, 0], [0, 0.5])}, published=odd)
        figure = plot_planes([panel])
        save_figure(figure, tmp_path / "odd")
        assert list(names(figure.axes[0])) == ["$x_1", "two lines", ""]


def evaluation(name: str, curve: SeenUnseenCurve, threshold: float | None = None) -> Evaluation:
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


class TestPlotPlane:
    def test_curves_points_and_legend(self):
        alone, *others = [
            evaluation("ESZSL alone", made_curve(0), threshold=-0.4),
            *(evaluation(name, made_curve(i)) for i, name in enumerate(["CS + ESZSL", "COSMO"])),
        ]
        figure = plot_plane([alone, *others], title="a title")
        (axes,) = figure.axes
        strongest_first = [*reversed(others), alone]
        assert axes.get_title() == "a title"
        assert len(curves(axes)) == 2  # an expert alone has no threshold to choose
        assert curves(axes)[0].get_linewidth() > curves(axes)[1].get_linewidth()
        expected = [[100 * one.scores.acc_tr, 100 * one.scores.acc_ts] for one in strongest_first]
        np.testing.assert_allclose(marks(axes, "s"), expected)
        assert [text.get_text() for text in figure.legends[0].get_texts()][:3] == [
            f"{one.name}: H {100 * one.scores.acc_h:.1f}, AUSUC {100 * one.ausuc:.1f}"
            for one in strongest_first
        ]

    @pytest.mark.parametrize(
        "steps",
        [
            ([np.inf, -np.inf], [0.5, 0], [0, 0.5]),
            ([0.1, 0.2], [0, 0], [0, 0]),
        ],
        ids=["no finite threshold", "never right"],
    )
    def test_poor_curves(self, steps: tuple[list[float], ...], tmp_path: Path):
        curve = SeenUnseenCurve(*steps)
        figure = plot_plane([evaluation("expert", curve), evaluation("COSMO", curve)])
        save_figure(figure, tmp_path / "poor")
        (x, y), axes = marks(figure.axes[0], "s")[0], figure.axes[0]
        assert 0 <= x <= axes.get_xlim()[1]
        assert 0 <= y <= axes.get_ylim()[1]
