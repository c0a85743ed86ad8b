"""The interactive page: `write_report` writes it to a file, the studio serves it.

A view is the content of a page as JSON values, with one set per data set (`cosmo.viz.page.sets`). The page
computes everything else from it (accuracies at any threshold, verdicts, smoothing), by the formulas of
`cosmo.mixture` and `cosmo.metrics`.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import cosmo
from cosmo._core.files import write_atomic
from cosmo.classifier._cosmo import Cosmo
from cosmo.classifier.combinations import GatedMixture
from cosmo.classifier.ways import CalibratedStacking
from cosmo.evaluation.compare import CandidateResult
from cosmo.evaluation.evaluate import (
    ModelEvaluation,
    UnknownEvaluation,
    class_table,
    confusion_table,
    plain_words,
)
from cosmo.evaluation.run import CALIBRATED, Experiment
from cosmo.io.model import Model
from cosmo.io.model_file import card_text
from cosmo.mixture.outputs import OutputsSummary
from cosmo.viz.page.render import (
    FORMAT,
    MAX_THUMBNAILS,
    Arrays,
    read_view,
    render_page,
)
from cosmo.viz.page.sets import (
    CHOSEN,
    INTERVALS,
    Way,
    as_percent,
    dataset_samples,
    item_kind,
    item_samples,
    published_points,
    reliability,
    set_view,
    way_name,
)
from cosmo.viz.text import (
    MEASURES,
    accuracy_table,
    comparison_table,
    confusions_table,
    run_table,
    summary_table,
)

_COMPARISON_NOTES = (
    MEASURES,
    f"T1: unseen samples among unseen classes. {INTERVALS}",
    "CPU s: choosing parameters and training, both stages. Figures with a star are published ones, on other "
    "features (ResNet-101): compare only the order and the rough size.",
)
MAX_SAMPLES = 20_000  # of an evaluation; a page with more is slow to open


def write_report(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    summary: pd.DataFrame | None = None,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write `results.json`, `curves.csv`, `plane.png`, `reliability.png` and `report.html`; return its path.

    Each file is replaced atomically. `summary` is that of repetitions (`cosmo.evaluation.run.summarise`),
    `extra` has further entries of `results.json`.
    """
    from cosmo.viz.plots import ignore_missing_glyphs  # matplotlib is slow to import
    from cosmo.viz.plots.plane import plot_plane
    from cosmo.viz.plots.walkthrough import plot_reliability

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    name, main = experiment.dataset.name, _ways(experiment)[-1]
    curves = reliability(cast(GatedMixture, main.combination), main.outputs)
    pictures = {"plane.png": plot_plane(experiment.evaluations, title=f"{name}: seen-unseen plane")}
    pictures["reliability.png"] = plot_reliability(curves, title=f"{name}: {main.name}, on test")
    page = render_page(experiment_view(experiment, summary))
    results = {**experiment.to_dict(), **(extra or {})}
    columns = ["thresholds", "acc_ts", "acc_tr", "acc_h"]
    points = pd.concat(
        pd.DataFrame({"method": one.name, **{name: getattr(one.curve, name) for name in columns}})
        for one in experiment.evaluations
    ).rename(columns={"thresholds": "threshold"})
    write_atomic(target / "results.json", json.dumps(results, indent=2).encode())
    write_atomic(target / "curves.csv", points.to_csv(index=False, lineterminator="\r\n").encode())
    for file, figure in pictures.items():
        png = io.BytesIO()
        with ignore_missing_glyphs():
            figure.savefig(png, format="png", dpi=150)
        write_atomic(target / file, png.getvalue())
    write_atomic(target / "report.html", page.encode())
    return target / "report.html"


def experiment_view(experiment: Experiment, summary: pd.DataFrame | None = None) -> dict[str, Any]:
    """Return the view of a run: all ways of combining the experts, on test.

    `summary` is that of repetitions, from `cosmo.evaluation.run.summarise`.
    """
    run, data, test = experiment.to_dict(), experiment.dataset, experiment.test
    about, settings, facts = run["dataset"], run["settings"], run["facts"]
    parameters = ", ".join(f"{name} {value:.3g}" for name, value in run["unseen_expert"].items())
    unseen_expert = f"{settings['unseen']} ({parameters})" if parameters else settings["unseen"]
    among = "correct on test rows of its own classes, among"
    tables = [run_table(experiment).page(CHOSEN, INTERVALS)]
    if summary is not None:
        tables.append(summary_table(summary).page("Curves and samples are those of the first seed."))
    calibrated = []
    if experiment.calibrated is not None:
        share = as_percent(experiment.calibrated.combination_.unseen_share)
        calibrated = [("calibrated method", f"expected share of unseen samples {share}; no smoothing")]
    arrays = Arrays()
    rows = np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])
    one = set_view(
        arrays,
        data.name,
        _ways(experiment),
        test.classes,
        facts=[
            ("samples", f"{about['samples']}, of which {len(test)} are for test"),
            ("features", str(about["features"])),
            ("classes", f"{about['seen_classes']} seen, {about['unseen_classes']} unseen"),
            ("attributes", str(about["attributes"])),
            (
                "seen expert",
                f"{settings['seen']}: {as_percent(facts['seen_expert_accuracy'])} {among} seen classes",
            ),
            ("unseen expert", f"{unseen_expert}: T1 {as_percent(facts['zsl_t1'])} {among} unseen classes"),
            *[("compared on held-out classes", line) for line in run["choice"] or []],
            ("gate", f"{settings['gate']}: {_detection(facts, 'gate')}"),
            ("max-softmax", f"for comparison: {_detection(facts, 'max_softmax')}"),
            ("smoothing", settings["smoothing"]),
            *calibrated,
            ("seed", str(settings["seed"])),
        ],
        tables=tables,
        words=_words(experiment),
        samples=dataset_samples(data, rows),
    )
    lead = (
        f"{about['samples']} samples with {about['features']} features; {about['seen_classes']} seen "
        f"classes, and {about['unseen_classes']} unseen classes with a description of {about['attributes']} "
        f"attributes only. {CHOSEN}"
    )
    return _view("run", f"Generalized zero-shot learning on {data.name}", lead, arrays, [one])


def _ways(experiment: Experiment) -> list[Way]:
    """Return all ways of a run; the last one is the calibrated method if the run has it."""
    ways = [
        Way(name, rule, experiment.test, experiment.model.validation_outputs_)
        for name, rule in experiment.fitted.items()
    ]
    other = experiment.calibrated
    if other is not None:
        ways.append(
            Way(CALIBRATED, other.combination_, experiment.calibrated_test, other.validation_outputs_)
        )
    return ways


def _words(experiment: Experiment) -> list[str]:
    """Return the result of the last way in sentences."""
    last, scores = _ways(experiment)[-1], experiment.evaluations[-1].scores
    test, guess = last.outputs, last.combination.predict(last.outputs)
    answers = pd.DataFrame({"label": test.classes[test.labels], "prediction": test.classes[guess]})
    mistakes = confusion_table(answers)
    words = plain_words(scores, class_table(answers, mistakes, test.seen_classes), mistakes)
    return [f"{last.name}, on test:", *words]


def _detection(facts: Mapping[str, float | None], gate: str) -> str:
    auc, fpr = (as_percent(facts[f"{gate}_{measure}"]) for measure in ("auc", "fpr95"))
    return f"on Gating-Val AUC {auc}, FPR at 95 % TPR {fpr}"


def model_view(
    model: Model,
    evaluation: ModelEvaluation | None = None,
    *,
    kind: Literal["evaluation", "studio"] = "studio",
    name: str = "samples",
    items: Any = None,
    unknown: UnknownEvaluation | None = None,
) -> dict[str, Any]:
    """Return the view of a model: on labelled samples, or on the validation stage in its file.

    `items` are the texts or image paths before encoding. The studio shows them in this order; the page of an
    evaluation of many images begins with some of all classes, because only these have thumbnails. At most
    20,000 samples are shown. `unknown` is the evaluation of the rejection, if there are unknown samples.
    """
    if not (len(model.cosmo.seen_classes_) and len(model.cosmo.unseen_classes_)):
        raise ValueError(
            "a page needs seen and unseen classes; those of this model are of one kind: see `cosmo classes`"
        )
    card = model.card()
    facts = [
        (label, card_text({label: value}).removeprefix(label).strip())
        for label, value in card.items()
        if value not in (None, [])
    ]
    arrays, fitted = Arrays(), model.cosmo.combination_
    record = fitted.summary(model.cosmo.validation_outputs_)
    if evaluation is None:
        title, what = str(card.get("data") or "model"), "Held-out samples, with held-out classes as unseen"
        way = Way("COSMO", fitted, record, record)  # A model file has no probabilities of all classes.
        one = set_view(arrays, "validation", [way], _validation_classes(model, record), facts=facts)
        one["stage"] = "validation"
    else:
        title, what = name, f"Evaluated on {len(evaluation.predictions)} samples"
        if len(evaluation.predictions) > MAX_SAMPLES:
            what += f"; {MAX_SAMPLES} of them are shown"
        rows = evenly_spaced(len(evaluation.outputs), MAX_SAMPLES)
        if kind == "evaluation" and item_kind(model, items) == "images":
            first = evenly_spaced(len(rows), MAX_THUMBNAILS)
            rows = np.concatenate([rows[first], np.delete(rows, first)])
        outputs = evaluation.outputs[rows]
        alone = CalibratedStacking(0.0).fit(outputs)
        expert = f"{type(model.cosmo.experts_.unseen).__name__} alone"
        present = np.unique(outputs.labels)
        accuracies = accuracy_table(evaluation).page("Classes without samples do not count.", INTERVALS)
        one = set_view(
            arrays,
            name,
            [Way(expert, alone, outputs), Way("COSMO", fitted, outputs, record)],
            outputs.classes,
            counted=(int((present < outputs.n_seen).sum()), int((present >= outputs.n_seen).sum())),
            facts=facts,
            words=evaluation.words,
            tables=[accuracies, confusions_table(evaluation).page()],
            descriptions=model.texts,
            samples=item_samples(model, items, rows),
            unknown=unknown,
        )
    lead = (
        f"{what}. The model has {card['seen classes']} seen classes and {card['unseen classes']} unseen "
        "classes, which have a description only."
    )
    return _view(kind, f"Generalized zero-shot learning: {title}", lead, arrays, [one])


def _validation_classes(model: Model, record: OutputsSummary) -> list[str]:
    """Return the names of the columns as far as they are known: those of hold-out rounds."""
    rounds = model.cosmo.combination_.unseen_share is not None
    names = list(map(str, model.cosmo.seen_classes_))
    seen, held_out = names, [f"{name} (held out)" for name in names]
    if not rounds or record.n_seen != len(names):
        seen = [f"seen class {k + 1}" for k in range(record.n_seen)]
    if not rounds or record.n_unseen != len(names):
        held_out = [f"held-out class {k + 1}" for k in range(record.n_unseen)]
    return seen + held_out


def evenly_spaced(n: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` of `n` positions, evenly spaced."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.intp)


def comparison_view(
    name: str, results: Mapping[str, Sequence[CandidateResult]], tables: Mapping[str, pd.DataFrame]
) -> dict[str, Any]:
    """Return the view of several experts, with one set per kind of descriptions.

    The main curve is that of the method with the best Acc_H on validation. `results` and `tables` are those
    of `cosmo.evaluation.compare.compare`, by kind of descriptions.
    """
    arrays, sets = Arrays(), []
    for descriptions, methods in results.items():
        best = max(methods, key=lambda one: cast(GatedMixture, one.fitted["COSMO"]).validation_point_.acc_h)
        ways = [
            Way(way_name(one.name, way), rule, one.test, one.validation, one.name)
            for one in methods
            for way, rule in one.fitted.items()
        ]
        table = tables[descriptions]
        sets.append(
            set_view(
                arrays,
                f"{name}, {descriptions}" if len(results) > 1 else name,
                ways,
                methods[0].test.classes,
                main=next(way for way in ways if way.combination is best.fitted["COSMO"]),
                facts=[("descriptions", descriptions), ("methods", ", ".join(one.name for one in methods))],
                tables=[comparison_table(table, "All methods, on test").page(*_COMPARISON_NOTES)],
                points=published_points(table),
            )
        )
    lead = (
        f"{sum(map(len, results.values()))} zero-shot experts: alone, with calibrated stacking (CS) and "
        f"inside COSMO, with figures published on other features. {CHOSEN} The page opens with the method "
        "that has the best Acc_H on validation."
    )
    return _view("comparison", f"Comparison of methods on {name}", lead, arrays, sets)


def _view(kind: str, title: str, lead: str, arrays: Arrays, sets: list[dict[str, Any]]) -> dict[str, Any]:
    head = {"format": FORMAT, "kind": kind, "title": title, "lead": lead, "version": cosmo.__version__}
    return {**head, "arrays": arrays.entries, "sets": sets}
