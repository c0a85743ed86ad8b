"""One set of a view, with its tables: curves, gates and samples of several ways to combine two experts."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo.classifier.combinations import Combination, GatedMixture, Outputs
from cosmo.data import GZSLDataset
from cosmo.data.splits import gating_split
from cosmo.evaluation.evaluate import UnknownEvaluation
from cosmo.gates import ConfidenceGate, Gate
from cosmo.gates.calibrated import CalibratedGate
from cosmo.io.model import Model
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc
from cosmo.metrics.calibration import Calibration, calibration
from cosmo.mixture.confidences import CONFIDENCES
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import gate_belief
from cosmo.viz.page.render import Arrays, atlas_of_arrays, atlas_of_files, to_json_value

_TOP = 5  # classes of each expert in a walk-through
_MAX_CHARACTERS = 400  # of a text
CHOSEN = "Operating points were chosen on held-out training data; the test set was opened once."
INTERVALS = "Intervals (95 %) resample rows within classes."


@dataclass(frozen=True, eq=False)
class Way:
    """A fitted combination and the labelled outputs of both experts that it is shown on.

    The gate is measured on `validation`, the outputs of the validation stage; `family` is the name of the
    expert, if there are several.
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
    words: Sequence[str] = (),
    points: Sequence[Mapping[str, Any]] = (),
    descriptions: Mapping[Hashable, str] | None = None,
    samples: Mapping[str, Any] | None = None,
    unknown: UnknownEvaluation | None = None,
) -> dict[str, Any]:
    """Return one set of a view, and add its arrays to those of the view.

    All `ways` have the same samples in the same order, and the same numbers of seen and unseen classes;
    `classes` labels the columns `[seen | unseen]`. `main` (the last way by default) is selected when the page
    opens; the walk-through shows it, and the gates are those of its family. `counted` has the numbers of seen
    and unseen classes over which accuracies are averaged, by default all.
    """
    main = ways[-1] if main is None else main
    outputs = main.outputs
    n_seen, target = outputs.n_seen, outputs.labels
    labels = list(classes)
    code = "u2" if len(labels) <= 65536 else "u4"
    counted = counted or (n_seen, len(labels) - n_seen)
    details = samples or {}
    return {
        "name": name,
        "facts": [[str(label), str(text)] for label, text in facts],
        "tables": to_json_value(list(tables)),
        "words": list(words),
        "classes": {
            "names": [str(label) for label in labels],
            "seen": n_seen,
            "descriptions": descriptions and [to_json_value(descriptions.get(label)) for label in labels],
        },
        "counted": [int(number) for number in counted],
        "samples": {
            "target": arrays.add(target, code),
            **{part: details.get(part) for part in ("names", "texts", "pictures")},
        },
        "curves": [_curve(arrays, way, code, main=way is main) for way in ways],
        "points": to_json_value(list(points)),
        "gates": _gates(arrays, [way for way in ways if way.family == main.family], main),
        "walk": _walk(arrays, main, code),
        "calibration": _calibration(main),
        "unknown": unknown and _unknown(unknown),
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
        "share": gated and rule.unseen_share is not None,
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
                "share": gate.log_odds,
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
    # The calibrated gate is fitted on all rounds.
    name = "Hold-out rounds" if mixture.gate_.log_odds else "Gating-Val"
    part = np.arange(len(validation)) if mixture.gate_.log_odds else gating_split(len(validation))[1]
    is_seen = validation.is_seen[part]
    if is_seen.all() or not is_seen.any():
        return f"{name}: samples of one domain only."
    score = mixture.gate_score(validation)[part]
    return (
        f"{name}: AUC {100 * gate_auc(is_seen, score):.1f}, "
        f"FPR at 95 % TPR {100 * fpr_at_tpr(is_seen, score):.1f}"
    )


def _gate_weights(gate: Gate) -> dict[str, Any] | None:
    """Return the weights for "seen" with their inputs, and which of these are of the seen expert."""
    if isinstance(gate, CalibratedGate):
        labels, inputs = list(CONFIDENCES), "standardised confidences"
        seen = [True, *[False] * (len(labels) - 1)]
        return {"labels": labels, "values": to_json_value(-gate.weights_), "seen": seen, "inputs": inputs}
    if not isinstance(gate, ConfidenceGate) or gate.k is None or gate.temperatures is None:
        return None
    ranks = range(1, gate.k + 1)
    labels = [f"unseen {rank}" for rank in ranks] if gate.use_unseen else []
    labels += [
        f"seen {rank}" + (f", T = {t:g}" if len(gate.temperatures) > 1 else "")
        for t in gate.temperatures
        for rank in ranks
    ]
    seen = [label.startswith("seen") for label in labels]
    inputs = "the sorted outputs of each expert"
    return {"labels": labels, "values": to_json_value(gate.weights_), "seen": seen, "inputs": inputs}


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


def _calibration(way: Way) -> dict[str, Any] | None:
    """Return the reliability of the probabilities, and the expected and actual share of unseen samples."""
    mixture, outputs = way.combination, way.outputs
    if not isinstance(mixture, GatedMixture):
        return None
    curves = reliability(mixture, outputs)
    return {
        "expected": mixture.unseen_share,
        "actual": float((~outputs.is_seen).mean()),
        "samples": len(outputs),
        "curves": [{"name": name, **curve.to_dict()} for name, curve in curves.items()],
    }


def reliability(mixture: GatedMixture, outputs: Outputs) -> dict[str, Calibration]:
    """Return calibration curves of `p(y)` of the prediction and of `p(U)` at the operating point.

    The outputs must be labelled. A summary of adaptive smoothing has no "p(y)", because the sum of all scores
    is unknown.
    """
    summary, point = mixture.summary(outputs), mixture.operating_point_
    p_unseen = gate_belief(summary.gate_score, point.threshold, point.softness)
    if mixture.hard:
        p_unseen = (p_unseen > 0.5).astype(np.float64)
    curves = {"p(U)": calibration(p_unseen, ~summary.is_seen)}
    unseen = mixture.takes_for_unseen(summary)
    own = np.where(unseen, p_unseen, 1 - p_unseen)
    best = np.where(unseen, *reversed(summary.best(mixture.smoothing)))
    n_classes = np.where(unseen, summary.n_unseen, summary.n_seen)
    if mixture.smoothing == "adaptive":
        if not isinstance(outputs, ExpertOutputs):
            return curves
        seen_mass, unseen_mass = (
            part.sum(axis=1, dtype=np.float64) for part in (outputs.seen, outputs.unseen)
        )
        total = (seen_mass + p_unseen) * (1 - p_unseen) + (unseen_mass + 1 - p_unseen) * p_unseen
        probability = (best + (1 - own) / n_classes) * own / total
    else:
        probability = own * ((1 - point.prior_weight) * best + point.prior_weight / n_classes)
    correct = mixture.predict(summary) == summary.labels
    return {"p(y)": calibration(np.minimum(probability, 1), correct), **curves}


def _unknown(found: UnknownEvaluation) -> dict[str, Any]:
    """Return figures of the rejection, and the curve of risk and coverage."""
    curve = {"coverage": found.curve.index.tolist(), "risk": found.curve.tolist()}
    return {**found.to_dict(), "reject": found.reject, "curve": curve}


def _best(proba: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return columns and values of the few largest of each row, descending; of equal ones the first."""
    left, rows = proba.copy(), np.arange(len(proba))
    columns = np.empty((len(proba), min(_TOP, proba.shape[1])), dtype=np.intp)
    for k in range(columns.shape[1]):  # a few maxima are cheaper than a sort
        columns[:, k] = left.argmax(axis=1)
        left[rows, columns[:, k]] = -1
    return columns, np.take_along_axis(proba, columns, axis=1)


def as_percent(share: float | None) -> str:
    """Return a fraction as text."""
    return "unknown" if share is None else f"{100 * share:.1f} %"


def way_name(method: str, way: str) -> str:
    """Return the name of a way of combining a method, such as "LAGO + COSMO"."""
    return method if way == "alone" else f"{method} + {way}"


def published_points(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the points of the same table whose two published accuracies are known."""
    known = table.dropna(subset=["published_acc_ts", "published_acc_tr"])
    return [
        {
            "name": f"{way_name(row['method'], row['way'])} (published)",
            "acc_ts": row["published_acc_ts"] / 100,
            "acc_tr": row["published_acc_tr"] / 100,
            "note": "; ".join(filter(None, ["as published, on other features", row["note"]])),
        }
        for _, row in known.iterrows()
    ]


def dataset_samples(data: GZSLDataset, rows: NDArray[np.intp]) -> dict[str, Any]:
    """Return the names, texts and pictures of some rows of a data set."""
    names = None if data.sample_names is None else [_short(data.sample_names[row]) for row in rows]
    texts = None if data.texts is None else [str(data.texts[row])[:_MAX_CHARACTERS] for row in rows]
    pictures = None if data.images is None else atlas_of_arrays(np.asarray(data.images)[rows])
    return {"names": names, "texts": texts, "pictures": pictures}


def item_kind(model: Model, items: Any) -> str | None:
    """Return "text" or "images" if the samples can be shown, else None."""
    if items is None or model.encoder_name is None or isinstance(items, np.ndarray | pd.DataFrame):
        return None
    return model.encoder.kind if all(isinstance(one, str | PurePath) for one in items) else None


def item_samples(model: Model, items: Any, rows: NDArray[np.intp]) -> dict[str, Any] | None:
    """Return the texts or thumbnails of samples before encoding."""
    kind = item_kind(model, items)
    if kind is None:
        return None
    shown = [items[row] for row in rows]
    if kind == "text":
        return {"texts": [text[:_MAX_CHARACTERS] for text in shown]}
    return {"names": [_short(path) for path in shown], "pictures": atlas_of_files(shown)}


def _short(path: Any) -> str:
    """Return the last two parts of a path; the rest of it is private."""
    return "/".join(PurePath(str(path)).parts[-2:])
