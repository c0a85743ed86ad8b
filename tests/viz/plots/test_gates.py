from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosmo.evaluation.gates import GateResult
from cosmo.viz.plots import save_figure
from cosmo.viz.plots.walkthrough import plot_gates


def made(name: str, n: int = 200) -> GateResult:
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
    figure = plot_gates([made("confidence"), made("odin")], title="gates")
    assert [axes.get_title() for axes in figure.axes] == ["confidence: AUC 81.2", "odin: AUC 81.2"]
    assert figure.get_suptitle() == "gates"


def test_seen_samples_are_to_the_right():
    (axes,) = plot_gates([made("confidence")]).axes
    seen, unseen = (
        np.average([patch.get_x() for patch in bars], weights=[patch.get_height() for patch in bars])
        for bars in axes.containers
        if len(bars) == 25
    )
    assert seen > unseen + 20


@pytest.mark.parametrize("n", [4, 5, 7])
def test_places_without_a_gate_are_empty(n: int):
    figure = plot_gates([made(str(i), 20) for i in range(n)])
    assert sum(axes.get_visible() for axes in figure.axes) == n


def test_odd_names(tmp_path: Path):
    png, _ = save_figure(plot_gates([made("$a gate_" * 20)], title="$"), tmp_path / "gates")
    assert png.stat().st_size > 1000
