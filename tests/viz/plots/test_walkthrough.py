import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from cosmo.classifier._prediction import Explanation
from cosmo.evaluation.compare import GateResult
from cosmo.metrics.calibration import calibration
from cosmo.mixture.smoothing import combine, smooth
from cosmo.viz.plots import SEEN, UNSEEN, save_figure
from cosmo.viz.plots.walkthrough import plot_gates, plot_reliability, plot_walkthrough

SEEN_NAMES = [f"seen {i}" for i in range(8)]
UNSEEN_NAMES = [f"unseen {i}" for i in range(6)]


def explained(seen, unseen, p_unseen, names=(SEEN_NAMES, UNSEEN_NAMES), smoothing="adaptive"):
    scores = combine(seen, unseen, p_unseen, smoothing=smoothing)
    return Explanation(
        pd.Index(names[0]),
        pd.Index(names[1]),
        seen,
        unseen,
        1 - p_unseen,
        p_unseen,
        smooth(seen, 1 - p_unseen, smoothing),
        smooth(unseen, p_unseen, smoothing),
        scores / scores.sum(axis=1, keepdims=True),
    )


@pytest.fixture(scope="module")
def explanation():
    """Two samples; in the first smoothing turns a wrong answer right, as in the paper's example."""
    rng = np.random.default_rng(0)
    seen = rng.dirichlet(np.full(8, 0.3), 2)
    seen[0] = [0.02, 0.9, 0.03, 0.01, 0.01, 0.01, 0.01, 0.01]
    unseen = 0.05 * rng.dirichlet(np.full(6, 0.3), 2)
    unseen[0] = [0.001, 0.0002, 0.04, 0.0003, 0.0004, 0.0001]
    return explained(seen, unseen, np.array([0.6, 0.3]))


def bars(axes):
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def shown(axes):
    labels = [label.get_text() for label in axes.get_yticklabels()]
    return dict(zip(labels, [bar.get_width() for bar in bars(axes)], strict=True))


def test_panels_carry_the_data(explanation):
    axes = plot_walkthrough(explanation, 0, truth="seen 1").axes
    found = shown(axes[0])
    assert next(iter(found)) == "▸ seen 1"
    assert list(found.values()) == pytest.approx(sorted(explanation.seen[0], reverse=True)[:5])
    assert shown(axes[1])["unseen 2"] == pytest.approx(0.04)
    assert shown(axes[2]) == pytest.approx({"p(S)": 0.4, "p(U)": 0.6})
    assert shown(axes[4])["unseen 2"] == pytest.approx(0.04 / explanation.unseen[0].sum())
    assert shown(axes[6])["▸ seen 1"] == pytest.approx(explanation.smoothed_seen[0, 1])
    assert shown(axes[7])["unseen 2"] == pytest.approx(explanation.smoothed_unseen[0, 2])
    assert list(shown(axes[8]).values()) == pytest.approx(sorted(explanation.proba[0], reverse=True)[:5])


def test_smoothing_turns_the_answer_right(explanation):
    axes = plot_walkthrough(explanation, 0, truth="seen 1").axes
    assert axes[5].get_title(loc="right") == "answer: unseen 2 (wrong)"
    assert axes[8].get_title(loc="right") == "answer: seen 1 (right)"
    plain = combine(explanation.seen, explanation.unseen, explanation.p_unseen, smoothing="none")
    assert list(shown(axes[5]).values()) == pytest.approx(sorted(plain[0], reverse=True)[:5])


def test_the_answer_of_another_model(explanation):
    other = explained(explanation.seen, explanation.unseen, np.array([0.1, 0.9]), smoothing="none")
    axes = plot_walkthrough(explanation, 0, truth="seen 1", other=other).axes
    assert axes[5].get_title(loc="right") == "answer: seen 1 (right)"
    assert list(shown(axes[5]).values()) == pytest.approx(sorted(other.proba[0], reverse=True)[:5])
    assert shown(axes[2]) == pytest.approx(
        {"p(S) of (b)": 0.9, "p(U) of (b)": 0.1, "p(S) of (c)": 0.4, "p(U) of (c)": 0.6}
    )


def test_the_true_class_is_shown_with_its_rank_wherever_it_is(explanation):
    order = np.argsort(-explanation.seen[0])
    truth = SEEN_NAMES[order[-1]]
    axes = plot_walkthrough(explanation, 0, truth=truth, top=3).axes
    rank = 1 + int((explanation.seen[0] > explanation.seen[0, order[-1]]).sum())
    assert list(shown(axes[0]))[-1] == f"▸ {truth} (#{rank})"
    assert len(shown(axes[0])) == 3
    framed = [bar.get_linewidth() > 0 for bar in bars(axes[0])]
    assert framed == [False, False, True]
    assert [label.get_fontweight() for label in axes[0].get_yticklabels()] == ["normal", "normal", "bold"]


def test_without_the_truth(explanation):
    axes = plot_walkthrough(explanation, 1).axes
    assert "right" not in axes[8].get_title(loc="right")
    assert not any("▸" in name for panel in axes for name in shown(panel))


def test_colours_tell_the_domains(explanation):
    axes = plot_walkthrough(explanation, 0).axes
    for name, bar in zip(shown(axes[8]), bars(axes[8]), strict=True):
        colour = SEEN if name.startswith("seen") else UNSEEN
        assert bar.get_facecolor()[:3] == pytest.approx([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        assert bool(bar.get_hatch()) == name.startswith("unseen")


def assert_nothing_overlaps(figure):
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    boxes = []
    for axes in figure.axes:
        texts = [*axes.get_yticklabels(), axes.title, axes._right_title, axes.yaxis.label]
        texts += [text for text in axes.texts if isinstance(text, Annotation)]
        boxes += [text.get_window_extent(renderer) for text in texts if text.get_text()]
    for i, one in enumerate(boxes):
        assert one.x0 >= 0
        assert one.x1 <= figure.bbox.x1
        assert not any(one.overlaps(other) for other in boxes[:i])


def test_long_names(explanation, tmp_path):
    names = ([f"$a_very {'long ' * 30}name {i}" for i in range(8)], [f"{'ß' * 90}{i}" for i in range(6)])
    long = explained(explanation.seen, explanation.unseen, explanation.p_unseen, names)
    figure = plot_walkthrough(long, 0, truth=names[0][1], title="$ " + "title " * 5)
    assert_nothing_overlaps(figure)
    save_figure(figure, tmp_path / "long")


def test_numbers_as_classes_and_one_class_each():
    one = explained(np.array([[1.0]]), np.array([[0.2]]), np.array([0.5]), ([3], [7]))
    axes = plot_walkthrough(one, truth=7).axes
    assert list(shown(axes[1])) == ["▸ 7"]
    assert list(shown(axes[0])) == ["3"]


def made_gate(name, n=200):
    rng = np.random.default_rng(0)
    is_seen = rng.random(n) < 0.5
    return GateResult(
        name=name,
        about="",
        measures={"test_auc": 81.25},
        scores=rng.normal(size=n) + 2 * is_seen,
        is_seen=is_seen,
    )


def test_a_panel_for_each_gate():
    figure = plot_gates([made_gate("confidence"), made_gate("odin")], title="gates")
    assert [axes.get_title() for axes in figure.axes] == ["confidence: AUC 81.2", "odin: AUC 81.2"]
    assert figure.get_suptitle() == "gates"


def test_seen_samples_are_to_the_right():
    (axes,) = plot_gates([made_gate("confidence")]).axes
    seen, unseen = (
        np.average([patch.get_x() for patch in bars], weights=[patch.get_height() for patch in bars])
        for bars in axes.containers
        if len(bars) == 25
    )
    assert seen > unseen + 20


@pytest.mark.parametrize("n", [4, 5, 7])
def test_places_without_a_gate_are_empty(n):
    figure = plot_gates([made_gate(str(i), 20) for i in range(n)])
    assert sum(axes.get_visible() for axes in figure.axes) == n


def test_calibrated_method_has_one_row_that_multiplies_out():
    rng = np.random.default_rng(0)
    seen, unseen = rng.dirichlet(np.ones(8), 1), rng.dirichlet(np.ones(6), 1)
    p_unseen = np.array([0.7])
    proba = combine(seen, unseen, p_unseen, smoothing="none")
    names = pd.Index(SEEN_NAMES), pd.Index(UNSEEN_NAMES)
    one = Explanation(*names, seen, unseen, np.array([0.2]), p_unseen, seen, unseen, proba)
    experts, others, gate, result = plot_walkthrough(one, truth="unseen 2", top=8).axes
    assert experts.get_title() == "seen expert, p(y|S)"
    assert others.get_title() == "unseen expert, p(y|U)"
    both = {**shown(experts), **shown(others)}
    weights = {"seen": shown(gate)["p(S)"], "unseen": shown(gate)["p(U)"]}
    for name, probability in shown(result).items():
        domain = name.removeprefix("▸ ").split()[0]
        assert both[name] * weights[domain] == pytest.approx(probability)


def test_a_reliability_diagram_for_each_curve():
    rng = np.random.default_rng(0)
    proba = rng.random(300)
    curves = {name: calibration(proba, rng.random(300) < proba) for name in ("p(y)", "p($U)")}
    figure = plot_reliability(curves, title="$x")
    figure.draw_without_rendering()
    assert figure.get_suptitle() == "$x"
    for axes, (name, curve) in zip(figure.axes, curves.items(), strict=True):
        expected = f"{name}: ECE {100 * curve.error:.1f} %, by chance {100 * curve.chance:.1f} %"
        assert axes.get_title() == expected
        diagonal, line = axes.lines
        assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 100]
        assert line.get_xdata() == pytest.approx(100 * curve.probability)
        assert line.get_ydata() == pytest.approx(100 * curve.frequency)
