"""Labels beside points of a crowded plot, placed so that none hides another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Annotation
from numpy.typing import ArrayLike, NDArray

from cosmo.viz.plots.style import shorten

__all__ = ["freeze_layout", "place_labels"]

_ANGLES = np.deg2rad(np.arange(0, 360, 22.5))
_REACHES = np.array([5.0, 9, 14, 20, 27, 36, 46, 58, 72, 88, 106, 128, 155])  # points, marker to label
_LEADER = 10.0  # a label further off than this is joined to its marker by a line
_MARKER = 4.0  # half the size of a marker, in points

# What a place costs. A label upon another or outside is next to forbidden, upon a marker is bad, upon a
# line is untidy, nearer to a foreign marker misleads; the rest keeps labels near and leaders apart.
_OUTSIDE, _LABELS, _MARKERS, _LINE, _MISTAKEN = 1e5, 1e4, 300.0, 6.0, 7.0
_CROSSED, _CROSSING, _REACH = 300.0, 150.0, 0.6


def freeze_layout(figure: Figure) -> RendererBase:
    """Compute the layout now and keep it, so that places in pixels stay true; return what measures texts."""
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return canvas.get_renderer()  # type: ignore[no-untyped-call]


def place_labels(
    axes: Axes,
    points: ArrayLike,
    names: Sequence[str],
    renderer: RendererBase,
    *,
    lines: Sequence[ArrayLike] = (),
    markers: ArrayLike = (),
    fontsize: float = 7.0,
) -> list[Annotation]:
    """Write a name beside each point, clear of the other names and markers, and of lines where possible.

    Every label tries places around its point, near ones first, and takes the cheapest given all others;
    this is repeated until no label wants to move. The same input gives the same places.

    Parameters
    ----------
    axes : Axes
    points : array of shape (n, 2)
        Where the markers are, in data coordinates.
    names : sequence of length n
        Long ones are shortened.
    renderer : RendererBase
        From `freeze_layout`, after which the layout of the figure is final.
    lines : sequence of arrays of shape (m, 2)
        Drawn curves that labels should not cover.
    markers : array of shape (k, 2)
        Further markers to keep clear of.

    Examples
    --------
    >>> figure = Figure()
    >>> axes = figure.add_subplot()
    >>> labels = place_labels(axes, [[0.5, 0.5], [0.5, 0.5]], ["one", "two"], freeze_layout(figure))
    >>> [label.get_text() for label in labels]
    ['one', 'two']
    """
    at = np.asarray(points, dtype=float).reshape(-1, 2)
    texts = [shorten(name, 26) for name in names]
    if len(at) != len(texts):
        raise ValueError(f"{len(at)} points but {len(texts)} names")
    if not texts:
        return []
    pixel = float(renderer.points_to_pixels(1))  # type: ignore[arg-type]
    spots = axes.transData.transform(at)
    sizes = _text_sizes(renderer, texts, fontsize) + 3 * pixel
    others = np.concatenate([at, np.asarray(markers, dtype=float).reshape(-1, 2)])
    centres, reach = _candidates(spots, sizes, pixel)
    problem = _Problem(spots, sizes, centres, reach)
    problem.fixed = _fixed_costs(
        problem,
        np.array(axes.get_window_extent().padded(-pixel).extents, dtype=np.float64),
        axes.transData.transform(others),
        _densified([axes.transData.transform(np.asarray(line, dtype=float)) for line in lines], 2 * pixel),
        pixel,
    )
    chosen = problem.solve()
    labels = []
    for i, text in enumerate(texts):
        far = reach[chosen[i]] > _LEADER
        labels.append(
            axes.annotate(
                text,
                xy=tuple(at[i]),
                xytext=tuple((centres[i, chosen[i]] - spots[i]) / pixel),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=fontsize,
                color="#222222",
                parse_math=False,
                annotation_clip=False,
                zorder=6,
                arrowprops={
                    "arrowstyle": "-",
                    "color": "#777777",
                    "linewidth": 0.5,
                    "shrinkA": 0,
                    "shrinkB": 2.5,
                }
                if far
                else None,
            )
        )
    return labels


def _text_sizes(renderer: RendererBase, texts: Sequence[str], fontsize: float) -> NDArray[np.float64]:
    """Return width and height of each text in pixels; the height is that of tall letters."""
    font = FontProperties(size=fontsize)
    _, tall, _ = renderer.get_text_width_height_descent("(Ág)", font, ismath=False)
    wide = [renderer.get_text_width_height_descent(text or " ", font, ismath=False)[0] for text in texts]
    return np.column_stack([wide, np.full(len(texts), tall)])


def _candidates(
    spots: NDArray[np.float64], sizes: NDArray[np.float64], pixel: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return centres of possible boxes (n, places, 2), and each place's distance from the marker."""
    reach, angle = (grid.ravel() for grid in np.meshgrid(_REACHES, _ANGLES, indexing="ij"))
    towards = np.column_stack([np.cos(angle), np.sin(angle)])
    away = reach[:, None] * pixel * towards
    centres = spots[:, None] + away + np.clip(1.5 * towards, -1, 1) * sizes[:, None] / 2
    return centres, reach


def _densified(lines: Sequence[NDArray[np.float64]], step: float) -> NDArray[np.float64]:
    """Return points along all lines, at most about `step` apart."""
    found = [np.empty((0, 2))]
    for line in lines:
        length = np.hypot(*np.diff(line, axis=0).T)
        along = np.concatenate([[0.0], np.cumsum(length)])
        places = np.linspace(0, along[-1], int(along[-1] / step) + 2)
        found.append(np.column_stack([np.interp(places, along, values) for values in line.T]))
    return np.concatenate(found)


def _fixed_costs(
    problem: _Problem,
    inside: NDArray[np.float64],
    markers: NDArray[np.float64],
    line: NDArray[np.float64],
    pixel: float,
) -> NDArray[np.float64]:
    """Return what each place costs whatever the other labels do, shape (n, places)."""
    margin = _MARKER * pixel
    cost = np.empty(problem.centres.shape[:2])
    for i, (spot, centres) in enumerate(zip(problem.spots, problem.centres, strict=True)):
        half = problem.sizes[i] / 2
        outside = ((centres - half < inside[:2]) | (centres + half > inside[2:])).any(axis=-1)
        gap = abs(markers - centres[:, None]) - half
        covered = _within(markers, centres[:, None], half + margin).sum(axis=1)
        foreign = np.hypot(*(markers - spot).T) > 2 * margin
        apart = np.hypot(*np.moveaxis(np.maximum(gap, 0), -1, 0))[:, foreign]
        own = np.hypot(*np.maximum(abs(spot - centres) - half, 0).T)
        # A leader that touches a foreign marker, or a label nearer to it, would seem to belong to that one.
        touched = np.hypot(*np.moveaxis(problem.leaders[i][:, :, None] - markers[foreign], -1, 0)) < margin
        mistaken = np.where(problem.far, 0, (apart < 1.5 * own[:, None]).sum(axis=1))
        cost[i] = (
            _REACH * problem.reach
            + _OUTSIDE * outside
            + _MARKERS * covered
            + _LINE * _within(line, centres[:, None], half).sum(axis=1)
            + _CROSSED * touched.any(axis=1).sum(axis=1) * problem.far
            + _MISTAKEN * mistaken
        )
    return cost


class _Problem:
    """Places to choose from: boxes of fixed sizes around given spots."""

    def __init__(
        self,
        spots: NDArray[np.float64],
        sizes: NDArray[np.float64],
        centres: NDArray[np.float64],
        reach: NDArray[np.float64],
    ) -> None:
        self.spots, self.sizes, self.centres, self.reach = spots, sizes, centres, reach
        self.far = reach > _LEADER
        share = np.linspace(0.1, 0.9, 8)[:, None]
        self.leaders = share * spots[:, None, None] + (1 - share) * centres[:, :, None]  # (n, places, 8, 2)
        self.fixed = np.zeros(centres.shape[:2])

    def pairwise(
        self, i: int, chosen: NDArray[np.intp], places: slice | NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return what places of label `i` cost because of where the others are."""
        others = np.flatnonzero(np.arange(len(chosen)) != i)
        taken = chosen[others]
        boxes, half, mine = self.centres[others, taken], self.sizes[others] / 2, self.centres[i, places]
        far = self.far[places]
        upon = _within(mine[:, None], boxes, half + self.sizes[i] / 2)
        through = _within(self.leaders[i, places][:, :, None], boxes, half).any(axis=1)
        cost = _LABELS * upon.sum(axis=1) + _CROSSED * far * through.sum(axis=1)
        joined = self.far[taken]
        if joined.any():
            lines = self.leaders[others[joined], taken[joined]]
            hidden = _within(lines, mine[:, None, None], self.sizes[i] / 2).any(axis=-1)
            crossing = _cross(mine[:, None], self.spots[i], boxes[joined], self.spots[others[joined]])
            cost = cost + _CROSSED * hidden.sum(axis=1) + _CROSSING * far * crossing.sum(axis=1)
        return cost

    def solve(self) -> NDArray[np.intp]:
        """Return the best place of each label, over several orders of asking them."""
        n = len(self.spots)
        generator = np.random.default_rng(0)
        best, least = np.zeros(n, dtype=np.intp), np.inf
        for _ in range(4):
            chosen = self.fixed.argmin(axis=1)
            for _ in range(20):
                before = chosen.copy()
                for i in generator.permutation(n):
                    chosen[i] = (self.fixed[i] + self.pairwise(i, chosen, slice(None))).argmin()
                if (chosen == before).all():
                    break
            total = sum(
                self.fixed[i, k] + self.pairwise(i, chosen, chosen[i : i + 1])[0] / 2
                for i, k in enumerate(chosen)
            )
            if total < least - 1e-9:
                best, least = chosen, total
        return best


def _within(
    points: NDArray[np.float64], centres: NDArray[np.float64], half: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return whether points are in boxes of the given half widths and heights."""
    apart = abs(points - centres)
    return (apart[..., 0] < half[..., 0]) & (apart[..., 1] < half[..., 1])


def _cross(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64], d: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return whether the segments a-b and c-d cross; points are in the last axis."""

    def side(p: NDArray[np.float64], q: NDArray[np.float64], r: NDArray[np.float64]) -> NDArray[np.float64]:
        u, v = q - p, r - p
        return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]

    return (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
