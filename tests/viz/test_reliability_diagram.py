import numpy as np
import pytest

from cosmo.metrics.calibration import calibration
from cosmo.viz.reliability import plot_reliability


def test_a_panel_for_each_curve():
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
