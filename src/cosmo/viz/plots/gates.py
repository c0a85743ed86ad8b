"""What gates see: the scores of samples of seen and of unseen classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from cosmo.evaluation.gates import GateResult
from cosmo.viz.plots.style import SEEN, UNSEEN, shorten

__all__ = ["plot_gates"]


def plot_gates(results: Sequence[GateResult], *, title: str = "") -> Figure:
    """Draw, for each gate, how its scores on test are spread over samples of seen and unseen classes.

    Horizontal: the share of all samples with a lower score, so that gates on different scales compare.

    Examples
    --------
    >>> gate = GateResult(name="max-softmax", about="", measures={"test_auc": 75.0},
    ...                   scores=np.array([0.1, 0.4, 0.2, 0.9]), is_seen=np.array([False, True, True, True]))
    >>> plot_gates([gate]).axes[0].get_title()
    'max-softmax: AUC 75.0'
    """
    if not results:
        raise ValueError("there is no gate to draw: results is empty")
    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(max(3.2 * columns, 4.0), 2.4 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    bins = np.linspace(0, 100, 26)
    for one, place in zip(results, axes, strict=False):
        share = 100 * (rankdata(one.scores) - 0.5) / len(one.scores)
        for seen, colour, hatch, label in (
            (True, SEEN, "", "seen classes"),
            (False, UNSEEN, "//", "unseen classes"),
        ):
            part = share[one.is_seen == seen]
            place.hist(part, bins, density=True, histtype="step", color=colour, linewidth=1.4, label=label)
            place.hist(part, bins, density=True, color=colour, alpha=0.25, hatch=hatch)
        place.set_title(
            f"{shorten(one.name, 30)}: AUC {one.measures['test_auc']:.1f}", fontsize=9, parse_math=False
        )
        place.set_yticks([])
    for place in axes[len(results) :]:
        place.set_visible(False)
    axes[0].legend(fontsize=7, loc="upper left")
    figure.supxlabel("rank of the gate's score on test (%), right = looks seen", fontsize=9)
    figure.supylabel("samples of each kind", fontsize=9)
    figure.suptitle(title, parse_math=False)
    return figure
