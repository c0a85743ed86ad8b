"""One set of a view: curves, gates and samples of some ways to combine two experts, as plain values."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmo.classifier.combinations import Combination, GatedMixture
from cosmo.data.splits import gating_split
from cosmo.gates import ConfidenceGate, Gate
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.viz.page.packing import Arrays, plain

__all__ = ["Way", "set_view"]

_SHOWN = 5  # classes of each expert in a walk-through


@dataclass(frozen=True, eq=False)
class Way:
    """A fitted combination and what both experts said about the samples that it is shown on.

    Parameters
    ----------
    name : str
    combination : Combination
    outputs : ExpertOutputs or OutputsSummary
        Labelled.
    validation : ExpertOutputs or OutputsSummary, optional
        Of the validation stage, where the gate is measured.
    family : str, optional
        The expert, where there are several.
    """

    name: str
    combination: Combination
    outputs: Any
    validation: Any = None
    family: str | None = None


def set_view(
    arrays: Arrays,
    name: str,
    ways: Sequence[Way],
    classes: Iterable[Hashable],
    *,
    main: Way | None = None,
    counted: tuple[int, int] | None = None,
    facts: Sequence[tuple[str, str]] = (),
    tables: Sequence[Mapping[str, Any]] = (),
    points: Sequence[Mapping[str, Any]] = (),
    descriptions: Mapping[Hashable, str] | None = None,
    samples: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return one set of a view.

    Parameters
    ----------
    arrays : Arrays
        Of the view; grows.
    ways : sequence of Way
        On the same samples, in the same order, with equally many seen and unseen classes.
    classes : labels
        Of the columns of `[seen | unseen]`.
    main : Way, optional
        Selected when the page opens; the walk-through is its own, the gates are those of its family.
        Default: the last.
    counted : (int, int), optional
        Over how many seen and unseen classes accuracies are averaged. Default: all.
    facts, tables, points
        As the page has them.
    descriptions : dict, optional
        Sentences by class.
    samples : dict, optional
        `names`, `texts` and `pictures`, where there are any.

    Examples
    --------
    >>> import pandas as pd
    >>> from cosmo.classifier.combinations import CalibratedStacking
    >>> seen, joint = np.array([[0.9, 0.1]]), np.array([[0.3, 0.5, 0.2]])
    >>> said = ExpertOutputs.from_joint(
    ...     seen, joint, pd.Index(["a", "b"]), pd.Index(["z"]), target=np.array([1]))
    >>> way = Way("alone", CalibratedStacking(0.0).fit(said), said)
    >>> found = set_view(Arrays(), "few", [way], said.classes)
    >>> found["classes"], found["counted"], found["curves"][0]["chosen_on"]
    ({'names': ['a', 'b', 'z'], 'seen': 2, 'descriptions': None}, [2, 1], 'no data (fixed at 0)')
    """
    main = ways[-1] if main is None else main
    outputs = main.outputs
    n_seen, target = outputs.n_seen, outputs.labels
    for way in ways:
        if way.outputs.n_seen != n_seen or not np.array_equal(way.outputs.labels, target):
            raise ValueError(f"{way.name} and {main.name} are not on the same samples of the same classes")
    labels = list(classes)
    code = "u2" if len(labels) <= 65536 else "u4"
    counted = counted or (n_seen, len(labels) - n_seen)
    return {
        "name": name,
        "facts": [[str(label), str(text)] for label, text in facts],
        "tables": plain(list(tables)),
        "classes": {
            "names": [str(label) for label in labels],
            "seen": n_seen,
            "descriptions": descriptions and [plain(descriptions.get(label)) for label in labels],
        },
        "counted": [int(number) for number in counted],
        "samples": {
            "target": arrays.add(target, code),
            **{part: (samples or {}).get(part) for part in ("names", "texts", "pictures")},
        },
        "curves": [_curve(arrays, way, code, main=way is main) for way in ways],
        "points": plain(list(points)),
        "gates": _gates(arrays, [way for way in ways if way.family == main.family], main),
        "walk": _walk(arrays, main, code),
    }


def _curve(arrays: Arrays, way: Way, code: str, *, main: bool) -> dict[str, Any]:
    rule, outputs = way.combination, way.outputs
    gated = isinstance(rule, GatedMixture)
    fixed = getattr(rule, "constant", None)
    return {
        "name": way.name,
        "family": way.family,
        "flips": arrays.add(rule.flips(outputs), "f8"),
        "seen": arrays.add(rule.seen_choice(outputs), code),
        "unseen": arrays.add(outputs.unseen_choice + outputs.n_seen, code),
        **{name: float(value) for name, value in rule.operating_point_._asdict().items()},
        "smoothing": rule.smoothing if gated else None,
        "hard": gated and rule.hard,
        "chosen_on": "validation" if fixed is None else f"no data (fixed at {fixed:g})",
        "main": main,
    }


def _gates(arrays: Arrays, ways: Sequence[Way], main: Way) -> list[dict[str, Any]]:
    """Return every gate once, with the threshold of the first way that uses it; that of `main` first."""
    found: dict[int, dict[str, Any]] = {}
    for way in sorted(ways, key=lambda one: one is not main):
        if not isinstance(way.combination, GatedMixture):
            continue
        scores = arrays.add(way.combination.gate_score(way.outputs), "f8")
        if scores not in found:
            gate = way.combination.gate_
            found[scores] = {
                "name": _gate_name(gate),
                "scores": scores,
                "threshold": float(way.combination.operating_point_.threshold),
                "note": _gate_note(way.combination, way.validation),
                "weights": _gate_weights(gate),
                "main": way is main,
            }
    return list(found.values())


def _gate_name(gate: Gate) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(gate).__name__.removesuffix("Gate")).lower()
    temperature = getattr(gate, "temperature", 1.0)
    return words if temperature == 1.0 else f"{words}, T = {temperature:g}"


def _gate_note(mixture: GatedMixture, validation: Any) -> str:
    if validation is None:
        return ""
    part = gating_split(len(validation))[1]
    is_seen = validation.is_seen[part]
    if is_seen.all() or not is_seen.any():
        return "Gating-Val has samples of one domain only."
    score = mixture.gate_score(validation)[part]
    return (
        f"Gating-Val: AUC {100 * gate_auc(is_seen, score):.1f}, "
        f"FPR at 95 % TPR {100 * fpr_at_tpr(is_seen, score):.1f}"
    )


def _gate_weights(gate: Gate) -> dict[str, Any] | None:
    if not isinstance(gate, ConfidenceGate) or gate.k is None or gate.temperatures is None:
        return None
    ranks = range(1, gate.k + 1)
    labels = [f"unseen {rank}" for rank in ranks] if gate.use_unseen else []
    labels += [
        f"seen {rank}" + (f", T = {t:g}" if len(gate.temperatures) > 1 else "")
        for t in gate.temperatures
        for rank in ranks
    ]
    return {"labels": labels, "values": plain(gate.weights_)}


def _walk(arrays: Arrays, way: Way, code: str) -> dict[str, Any] | None:
    mixture, outputs = way.combination, way.outputs
    if not isinstance(mixture, GatedMixture) or not isinstance(outputs, ExpertOutputs):
        return None
    walk: dict[str, Any] = {
        "smoothing": mixture.smoothing,
        "hard": mixture.hard,
        "score": arrays.add(mixture.gate_.score(outputs), "f8"),
    }
    for side, proba, first in (("seen", outputs.seen, 0), ("unseen", outputs.unseen, outputs.n_seen)):
        columns, largest = _best(proba)
        walk |= {
            f"{side}_mass": arrays.add(proba.sum(axis=1, dtype=np.float64), "f8"),
            f"{side}_codes": arrays.add(columns + first, code),
            f"{side}_proba": arrays.add(largest, "f4"),
        }
    return walk


def _best(proba: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return columns and values of the few largest of each row, descending; of equal ones the first."""
    left, rows = proba.copy(), np.arange(len(proba))
    columns = np.empty((len(proba), min(_SHOWN, proba.shape[1])), dtype=np.intp)
    for k in range(columns.shape[1]):  # a few maxima are cheaper than a sort
        columns[:, k] = left.argmax(axis=1)
        left[rows, columns[:, k]] = -1
    return columns, np.take_along_axis(proba, columns, axis=1)
