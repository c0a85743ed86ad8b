import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation

from cosmo.classifier.combinations import OperatingPoint
from cosmo.evaluation.run import Evaluation
from cosmo.metrics.accuracy import GZSLScores, Interval
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.viz.plots import LINES, save_figure
from cosmo.viz.plots.plane import PlanePanel, PublishedPoint, plot_plane, plot_planes, published_points


def made_curve(seed, n=60):
    rng = np.random.default_rng(seed)
    seen, right = rng.random(n) < 0.5, rng.random(n) < 0.7
    gains = np.where(seen & right, 1 / seen.sum(), 0), np.where(~seen & right, 1 / (~seen).sum(), 0)
    return SeenUnseenCurve(rng.normal(size=n) + seen, *gains)


def names(axes):
    """Labels of published methods; the values of equal means are annotations."""
    return {text.get_text(): text for text in axes.texts if not isinstance(text, Annotation)}


def boxes(axes):
    figure = axes.figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    return [label.get_window_extent(renderer) for label in names(axes).values()]


def marks(axes, marker):
    found = [line for line in axes.lines if line.get_marker() == marker and line.get_linestyle() == "None"]
    return np.array([[line.get_xdata()[0], line.get_ydata()[0]] for line in found]).reshape(-1, 2)


def curves(axes):
    return [line for line in axes.lines if len(line.get_xdata()) > 1]


def assert_inside(one, outer):
    assert outer.count_contains([one.min, one.max]) == 2


def assert_labels_are_apart(axes):
    found = boxes(axes)
    inside = axes.get_window_extent()
    for i, one in enumerate(found):
        assert_inside(one, inside)
        for other in found[:i]:
            assert not one.overlaps(other)


@pytest.fixture(scope="module")
def panel():
    first, second = made_curve(0, 3000), made_curve(1, 3000)
    chosen = {"COSMO": first.best(), "CS": second.best(), "expert alone": GZSLScores(0.2, 0.6, 0.3)}
    return PlanePanel("CUB", {"COSMO": first, "CS": second}, chosen, published_points("CUB"))


@pytest.fixture(scope="module")
def axes(panel):
    return plot_planes([panel]).axes[0]


class TestData:
    def test_a_curve_is_its_own_points_thinned_beyond_sight(self, axes, panel):
        drawn = curves(axes)
        assert len(drawn) == 2
        for line, curve in zip(drawn, panel.curves.values(), strict=True):
            exact = 100 * np.column_stack([curve.acc_tr, curve.acc_ts])
            shown = np.column_stack(line.get_data())
            assert {*map(tuple, shown)} <= {*map(tuple, exact)}
            np.testing.assert_array_equal(shown[[0, -1]], exact[[0, -1]])
            furthest = abs(shown[:, None] - exact).max(axis=2).min(axis=0).max()
            assert furthest <= 0.05 + 1e-9
            assert len(shown) < len(exact)

    def test_squares_are_at_the_chosen_points(self, axes, panel):
        expected = [[100 * at.acc_tr, 100 * at.acc_ts] for at in panel.chosen.values()]
        np.testing.assert_allclose(marks(axes, "s"), expected)

    def test_triangles_and_crosses_are_the_published_points(self, axes, panel):
        for marker, kind in (("^", "non-generative"), ("X", "generative")):
            expected = [[100 * p.acc_tr, 100 * p.acc_ts] for p in panel.published if p.kind == kind]
            np.testing.assert_allclose(marks(axes, marker), expected)
        assert list(names(axes)) == [point.name for point in panel.published]

    def test_lines_of_equal_means(self, axes):
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
    def test_labels_do_not_overlap(self, name):
        assert_labels_are_apart(plot_planes([PlanePanel(name, published=CROWDS[name])]).axes[0])

    def test_labels_keep_off_markers_and_each_other(self, axes, panel):
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
    def test_number_of_panels(self, n):
        figure = plot_planes([PlanePanel(str(i), {"a": ([0.5, 0.0], [0.0, 0.5])}) for i in range(n)])
        assert [axes.get_title() for axes in figure.axes if axes.axison] == [str(i) for i in range(n)]
        legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
        assert len(legends) == 1
        assert figure.get_figwidth() <= 11

    def test_nothing_is_cut_off(self, panel):
        figure = plot_planes([panel])
        (legend,) = figure.legends
        renderer = FigureCanvasAgg(figure).get_renderer()
        for box in (figure.axes[0].get_tightbbox(renderer), legend.get_window_extent(renderer)):
            assert_inside(box, figure.bbox)


class TestOddInputs:
    def test_names_with_dollars_and_line_breaks(self, tmp_path):
        odd = [PublishedPoint(name, 0.5, 0.5) for name in ("$x_1", "two\nlines", "")]
        panel = PlanePanel("$a title", {"$c$_{": ([0.5, 0], [0, 0.5])}, published=odd)
        figure = plot_planes([panel])
        save_figure(figure, tmp_path / "odd")
        assert list(names(figure.axes[0])) == ["$x_1", "two lines", ""]


def evaluation(name, curve, threshold=None):
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
