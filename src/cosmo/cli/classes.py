"""`cosmo classes`: list and add the classes of a model, and learn from samples of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.data import DataError, match_labels, read_descriptions
from cosmo.data.samples import SampleSet
from cosmo.io.model import Model

_EPILOG = """\
The file of the model is replaced in one step unless --out names another one.

examples:
  cosmo classes list model.cosmo
  cosmo classes add model.cosmo --class gift_card --description "The customer asks about gift cards."
  cosmo classes add model.cosmo --descriptions more.csv --out larger.cosmo
  cosmo classes learn model.cosmo labelled.csv
  cosmo classes learn model.cosmo photographs --class okapi
"""

_LONGEST = 80


def parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "classes",
        "List the classes of a model, add classes by description, or learn from samples of any class.",
        _EPILOG,
    )
    verbs = options.add_subparsers(dest="verb", required=True, metavar="list | add | learn")

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        one = verbs.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _options.add_model_option(one)
        return one

    one = verb("list", "print the classes of a model")
    one.add_argument("--json", action="store_true", help="print as JSON")

    one = verb("add", "add unseen classes by their descriptions, without training")
    add = _options.group(one, "new classes")
    add(
        "--descriptions",
        metavar="FILE",
        help="descriptions of the new classes, with the columns of the training",
    )
    add("--class", dest="names", action="append", default=[], metavar="NAME", help="a new class")
    add("--description", dest="texts", action="append", default=[], metavar="TEXT",
        help="its description; repeat both options for several classes")  # fmt: skip
    _add_output(one)

    one = verb("learn", "learn from labelled samples; unseen classes become seen, seen ones are updated")
    one.add_argument("samples", metavar="SAMPLES", help="samples and their classes, one or more of each")
    add = _options.add_sample_options(one)
    add("--class", dest="names", action="append", default=[], metavar="NAME",
        help="learn this class only; all samples are of it if they have no labels")  # fmt: skip
    add("--training", metavar="FILE",
        help="samples and labels of the seen classes, for models without an exemplar buffer")  # fmt: skip
    _add_output(one)
    return options


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = _options.group(parser, "output")
    add("--out", metavar="FILE", help="file to write (default: in place)")
    _options.add_quiet(add)


def run(args: argparse.Namespace) -> int:
    model = _options.load_model(args)
    if args.verb == "list":
        return _list(model, args.json)
    with progress(quiet=args.quiet) as step:
        names = _add(args, model) if args.verb == "add" else _learn(args, model)
        out = Path(args.out or args.model)
        model.save(out)
        step(f"wrote {out}")
    done = "unseen classes added" if args.verb == "add" else "learned"
    print(f"{done}: {', '.join(names)}")
    seen = int(model.classes["seen"].sum())
    print(f"{seen} seen and {len(model.classes) - seen} unseen classes in {out}")
    return 0


def _list(model: Model, as_json: bool) -> int:
    classes = model.classes
    if as_json:
        print(json.dumps([{"class": name, **row} for name, row in _records(classes)], indent=2))
        return 0
    console = PlainConsole()
    width = max(len(str(name)) for name in classes.index)
    for name, row in _records(classes):
        text = str(row.get("description", "")).replace("\n", " | ")
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        console.print(f"{name!s:<{width}}  {'seen  ' if row['seen'] else 'unseen'}  {text}".rstrip())
    return 0


def _records(classes: pd.DataFrame) -> list[tuple[Any, dict[Any, Any]]]:
    return list(zip(classes.index.tolist(), classes.to_dict("records"), strict=True))


def _add(args: argparse.Namespace, model: Model) -> list[str]:
    if (args.descriptions is None) == (not args.names):
        raise ValueError("give either --descriptions FILE or --class NAME --description TEXT")
    if len(args.names) != len(args.texts):
        raise ValueError(f"{len(args.names)} --class but {len(args.texts)} --description; give one for each")
    if len(set(args.names)) < len(args.names):
        raise ValueError("--class names a class twice")
    if args.texts and model.texts is None:
        n_attributes = model.cosmo.experts_.descriptions.shape[1]
        raise ValueError(
            f"the classes of {args.model} are described by {n_attributes} numbers: give --descriptions FILE "
            "with those columns"
        )
    numbered = model.classes.index.dtype.kind == "i"  # then "7" is the class 7
    names = [int(name) if numbered and name.isdecimal() else name for name in args.names]
    new: Any = dict(zip(names, args.texts, strict=True))
    if args.descriptions is not None:
        new = read_descriptions(args.descriptions)
        # The file may describe the known classes, too.
        new = new[~new.index.astype(str).isin(model.classes.index.astype(str))]
        if len(new) == 0:
            raise DataError(f"{args.descriptions}: the model has all of these classes already")
    model.add_classes(new)
    return [str(name) for name in (new if isinstance(new, dict) else new.index)]


def _learn(args: argparse.Namespace, model: Model) -> list[str]:
    classes = model.classes.index
    _check_known(args.names, args.model, classes)
    wanted = match_labels(args.names, classes)
    rows, labels = _labelled_rows(args, model, wanted[0] if len(args.names) == 1 else None)
    for name in wanted[~wanted.isin(labels)]:
        raise DataError(f"{args.samples} has no samples of {name!r}")
    kept = labels.isin(wanted) if args.names else np.ones(len(labels), dtype=bool)
    training = None
    if args.training is not None:
        training = _labelled_rows(argparse.Namespace(**{**vars(args), "samples": args.training}), model)
    unseen = set(model.cosmo.unseen_classes_)
    model.learn(rows[kept], labels[kept], training=training)
    counts = labels[kept].value_counts(sort=False)
    return [
        f"{name} ({n} sample{'s' * (n > 1)}{', now seen' * (name in unseen)})" for name, n in counts.items()
    ]


def _check_known(labels: Any, model: str, classes: pd.Index) -> None:
    """Raise if there are labels that the model does not have."""
    given = pd.Index(labels, dtype=object).dropna().unique()
    unknown = [str(name) for name in given if str(name) not in set(classes.astype(str))]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise ValueError(f"{model} has no class {names}; add it first by its description: cosmo classes add")


def _labelled_rows(
    args: argparse.Namespace, model: Model, label: Hashable | None = None
) -> tuple[NDArray[Any], pd.Index]:
    """Return rows and their classes; `label` is that of samples without labels."""
    samples = _options.load_samples(args, model)
    if samples.labels is None and label is not None:
        samples = SampleSet(samples.items, pd.Index([label] * len(samples)))
    _check_known(samples.require_labels(args.samples), args.model, model.classes.index)
    labels = match_labels(samples.require_labels(args.samples), model.classes.index)
    rows, samples = _options.encode_samples(args, model, SampleSet(samples.items, labels))
    return np.asarray(rows), samples.require_labels(args.samples)
