"""Views: what a page shows of a result, as plain values.

A view has sets, one for each data set (`cosmo.viz.page.sets`). The page computes everything else from these
(accuracies at any threshold, verdicts, smoothing), by the formulas of `cosmo.mixture`
and `cosmo.metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import cosmo
from cosmo.classifier.combinations import CalibratedStacking
from cosmo.data import GZSLDataset
from cosmo.evaluation.compare import CandidateResult
from cosmo.evaluation.evaluate import ModelEvaluation
from cosmo.evaluation.run import Experiment
from cosmo.io.model import Model, card_text
from cosmo.viz.page.packing import FORMAT, Arrays
from cosmo.viz.page.pictures import MOST_FILES, atlas_of_arrays, atlas_of_files
from cosmo.viz.page.sets import Way, set_view
from cosmo.viz.page.tables import (
    CHOSEN,
    accuracies_table,
    comparison_table,
    curves_table,
    mistakes_table,
    percent,
    published_points,
    results_table,
    summary_table,
    way_name,
)

__all__ = ["MOST_SAMPLES", "comparison_view", "experiment_view", "model_view", "paper_view"]

MOST_SAMPLES = 20_000  # of an evaluation; a page of more would be slow to open
_LETTERS = 400  # of a text


def experiment_view(experiment: Experiment, summary: pd.DataFrame | None = None) -> dict[str, Any]:
    """Return the view of a run: every way of combining the experts, on test.

    Parameters
    ----------
    experiment : Experiment
    summary : DataFrame, optional
        Of repetitions, see `cosmo.evaluation.run.summarise`.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.evaluation.run import run_experiment
    >>> view = experiment_view(run_experiment(load_glyphs(n_classes=40, samples_per_class=12)))
    >>> view["title"], [curve["name"] for curve in view["sets"][0]["curves"]][-1]
    ('Generalized zero-shot learning on glyphs', 'COSMO')
    """
    run, data, test = experiment.to_dict(), experiment.dataset, experiment.test
    about, settings, facts = run["dataset"], run["settings"], run["facts"]
    decided = ", ".join(f"{name} {value:.3g}" for name, value in run["unseen_expert"].items())
    arrays = Arrays()
    ways = [
        Way(name, rule, test, experiment.model.validation_outputs_)
        for name, rule in experiment.fitted.items()
    ]
    rows = np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])
    one = set_view(
        arrays,
        data.name,
        ways,
        test.classes,
        facts=[
            ("samples", f"{about['samples']}, of which {len(test)} are for test"),
            ("features", str(about["features"])),
            ("classes", f"{about['seen_classes']} seen, {about['unseen_classes']} unseen"),
            ("attributes", str(about["attributes"])),
            (
                "seen expert",
                f"{settings['seen']}: {percent(facts['seen_expert_accuracy'])} right on test rows of seen "
                "classes, among seen classes",
            ),
            (
                "unseen expert",
                f"{settings['unseen']}{f' ({decided})' if decided else ''}: T1 {percent(facts['zsl_t1'])} on "
                "test rows of unseen classes, among unseen classes",
            ),
            ("gate", f"{settings['gate']}: {_detection(facts, 'gate')}"),
            ("max-softmax", f"for comparison: {_detection(facts, 'max_softmax')}"),
            ("smoothing", settings["smoothing"]),
            ("seed", str(settings["seed"])),
        ],
        tables=[
            results_table(run["results"]),
            *([] if summary is None else [summary_table(summary)]),
        ],
        samples=_of_dataset(data, rows),
    )
    lead = (
        f"{about['samples']} samples with {about['features']} features; {about['seen_classes']} classes with "
        f"examples and {about['unseen_classes']} known only by a description of {about['attributes']} "
        f"attributes. {CHOSEN}"
    )
    return _view("run", f"Generalized zero-shot learning on {data.name}", lead, arrays, [one])


def _detection(facts: Mapping[str, float | None], gate: str) -> str:
    auc, fpr = (percent(facts[f"{gate}_{measure}"]) for measure in ("auc", "fpr95"))
    return f"on Gating-Val AUC {auc}, FPR at 95 % TPR {fpr}"


def model_view(
    model: Model,
    found: ModelEvaluation | None = None,
    *,
    kind: Literal["evaluation", "studio"] = "studio",
    name: str = "samples",
    items: Any = None,
) -> dict[str, Any]:
    """Return the view of a model: on labelled samples, or on what its file tells of the validation.

    Parameters
    ----------
    model : Model
    found : ModelEvaluation, optional
        Of samples; at most `MOST_SAMPLES` of them are shown. Without it the recorded validation is shown,
        whose classes have no names.
    kind : {"evaluation", "studio"}
    name : str
        Of the samples.
    items : texts or paths of pictures, optional
        The samples as they were given, in the order of `found`. The studio shows them in this order; the
        page of an evaluation of many pictures begins with a few of all classes, since it carries only those.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.io.model import fit_model
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = fit_model(data.features[train], data.labels[train], data.descriptions)
    >>> model_view(model)["sets"][0]["classes"]["names"][-1]
    'held-out class 9'
    """
    card = model.card()
    facts = [(label, _told(label, value)) for label, value in card.items() if value not in (None, [])]
    arrays = Arrays()
    if found is None:
        one = _recorded(arrays, model, facts)
        title, what = (
            str(card.get("data") or "model"),
            "Validation, on classes that played unseen in training",
        )
    else:
        one = _evaluated(arrays, model, found, facts, name, items, mixed=kind == "evaluation")
        title, what = name, f"Evaluated on {len(found.predictions)} samples"
        if len(found.predictions) > MOST_SAMPLES:
            what += f"; {MOST_SAMPLES} of them are shown"
    lead = (
        f"{what}. The model knows {card['seen classes']} classes from examples and {card['unseen classes']} "
        "by description only."
    )
    return _view(kind, f"Generalized zero-shot learning: {title}", lead, arrays, [one])


def _recorded(arrays: Arrays, model: Model, facts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return what is known of the validation stage: curve and gate, without names and probabilities."""
    fitted = model.cosmo.combination_
    record = fitted.summary(model.cosmo.validation_outputs_)
    classes = [f"seen class {k + 1}" for k in range(record.n_seen)]
    classes += [f"held-out class {k + 1}" for k in range(record.n_unseen)]
    way = Way("COSMO", fitted, record, record)
    return {**set_view(arrays, "validation", [way], classes, facts=facts), "stage": "validation"}


def _evaluated(
    arrays: Arrays,
    model: Model,
    found: ModelEvaluation,
    facts: Sequence[tuple[str, str]],
    name: str,
    items: Any,
    *,
    mixed: bool,
) -> dict[str, Any]:
    rows = _spread(len(found.outputs), MOST_SAMPLES)
    if mixed and _kind(model, items) == "images":
        first = _spread(len(rows), MOST_FILES)
        rows = np.concatenate([rows[first], np.delete(rows, first)])
    outputs = found.outputs[rows]
    fitted = model.cosmo.combination_
    record = fitted.summary(model.cosmo.validation_outputs_)
    expert = type(model.cosmo.experts_.unseen).__name__
    alone = CalibratedStacking(0.0).fit(outputs)
    ways = [Way(f"{expert} alone", alone, outputs), Way("COSMO", fitted, outputs, record)]
    present = np.unique(outputs.labels)
    return set_view(
        arrays,
        name,
        ways,
        outputs.classes,
        counted=(int((present < outputs.n_seen).sum()), int((present >= outputs.n_seen).sum())),
        facts=facts,
        tables=[accuracies_table(found), mistakes_table(found)],
        descriptions=model.texts,
        samples=_of_items(model, items, rows),
    )


def _spread(n: int, most: int) -> NDArray[np.intp]:
    """Return at most so many of `n` positions, evenly."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.intp)


def comparison_view(
    name: str, answers: Mapping[str, Sequence[CandidateResult]], tables: Mapping[str, pd.DataFrame]
) -> dict[str, Any]:
    """Return the view of many experts side by side; a set for each kind of descriptions.

    The main curve is that of the method with the best Acc_H on validation.

    Parameters
    ----------
    name : str
        Of the data set.
    answers : dict of sequences of CandidateResult
        By descriptions, from `cosmo.evaluation.compare.compare`.
    tables : dict of DataFrame
        By descriptions; what it returns.
    """
    arrays, sets = Arrays(), []
    for descriptions, said in answers.items():
        best = max(said, key=_validation_height)
        ways = [
            Way(way_name(one.name, way), rule, one.test, one.validation, one.name)
            for one in said
            for way, rule in one.fitted.items()
        ]
        table = tables[descriptions]
        sets.append(
            set_view(
                arrays,
                f"{name}, {descriptions}" if len(answers) > 1 else name,
                ways,
                said[0].test.classes,
                main=next(way for way in ways if way.combination is best.fitted["COSMO"]),
                facts=[("descriptions", descriptions), ("methods", ", ".join(one.name for one in said))],
                tables=[comparison_table(table)],
                points=published_points(table),
            )
        )
    methods = sum(map(len, answers.values()))
    lead = (
        f"{methods} zero-shot experts: alone, with calibrated stacking (CS) and inside COSMO, beside what "
        f"was published on other features. {CHOSEN} The page opens with the method that has the best Acc_H "
        "on validation."
    )
    return _view("comparison", f"Methods side by side on {name}", lead, arrays, sets)


def _validation_height(result: CandidateResult) -> float:
    rule = result.fitted["COSMO"]
    return rule.curve(result.validation).at(rule.operating_point_.threshold).acc_h


def paper_view(sets: Sequence[Mapping[str, Any]], command: str) -> dict[str, Any]:
    """Return the view of the paper's planes.

    Parameters
    ----------
    sets : sequence of dict
        For each data set the arguments of `set_view` after `arrays`.
    command : str
        That made them.
    """
    arrays = Arrays()
    lead = (
        f"The seen-unseen planes of the paper, by `{command}`; its tables and figures are in paper.html. "
        f"{CHOSEN}"
    )
    shown = [set_view(arrays, **{"tables": [curves_table(one["ways"])], **one}) for one in sets]
    return _view("paper", "COSMO: the paper's planes", lead, arrays, shown)


def _view(
    kind: str, title: str, lead: str, arrays: Arrays, sets: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": kind,
        "title": title,
        "lead": lead,
        "version": cosmo.__version__,
        "arrays": arrays.entries,
        "sets": list(sets),
    }


def _of_dataset(data: GZSLDataset, rows: NDArray[np.intp]) -> dict[str, Any]:
    names = None if data.sample_names is None else [_short(data.sample_names[row]) for row in rows]
    texts = None if data.texts is None else [str(data.texts[row])[:_LETTERS] for row in rows]
    pictures = None if data.images is None else atlas_of_arrays(np.asarray(data.images)[rows])
    return {"names": names, "texts": texts, "pictures": pictures}


def _kind(model: Model, items: Any) -> str | None:
    """Return what samples are, if they can be shown: "text" or "images"."""
    if items is None or model.encoder_name is None or isinstance(items, np.ndarray | pd.DataFrame):
        return None
    return model.encoder.kind if all(isinstance(one, str | PurePath) for one in items) else None


def _of_items(model: Model, items: Any, rows: NDArray[np.intp]) -> dict[str, Any] | None:
    """Return texts or pictures that a model with an encoder was asked about."""
    kind = _kind(model, items)
    if kind is None:
        return None
    shown = [items[row] for row in rows]
    if kind == "text":
        return {"texts": [text[:_LETTERS] for text in shown]}
    return {"names": [_short(path) for path in shown], "pictures": atlas_of_files(shown)}


def _short(path: Any) -> str:
    """Return a file by its name and folder; where that folder lies is nobody's business."""
    return "/".join(PurePath(str(path)).parts[-2:])


def _told(label: str, value: Any) -> str:
    return card_text({label: value}).removeprefix(label).strip()
