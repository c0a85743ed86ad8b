"""`cosmo classes`: list, add and promote the classes of a model."""

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
  cosmo classes promote model.cosmo new-samples.csv
  cosmo classes promote model.cosmo photographs --class okapi
"""

_LONGEST = 80


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = _options.make_parser(
        "classes",
        "List the classes of a model, add classes by description, or promote an unseen class to a seen one\n"
        "once there are samples of it.",
        _EPILOG,
    )
    verbs = options.add_subparsers(dest="verb", required=True, metavar="list | add | promote")

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

    one = verb("promote", "train the seen expert on samples of unseen classes, which become seen")
    one.add_argument(
        "samples", metavar="SAMPLES", help="samples of the classes; those of seen classes are ignored"
    )
    add = _options.add_sample_options(one)
    add("--class", dest="names", action="append", default=[], metavar="NAME",
        help="promote this class only; all samples are of it if they have no labels")  # fmt: skip
    add("--training", metavar="FILE",
        help="samples and labels of the seen classes, for experts that must be trained again")  # fmt: skip
    _add_output(one)
    return options


def _add_output(parser: argparse.ArgumentParser) -> None:
    add = _options.group(parser, "output")
    add("--out", metavar="FILE", help="file to write (default: in place)")
    _options.add_quiet(add)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    model = _options.load_model(args)
    if args.verb == "list":
        return _list(model, args.json)
    with progress(quiet=args.quiet) as step:
        names = _add(args, model) if args.verb == "add" else _promote(args, model)
        out = Path(args.out or args.model)
        model.save(out)
        step(f"wrote {out}")
    done = "unseen classes added" if args.verb == "add" else "classes promoted"
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


def _promote(args: argparse.Namespace, model: Model) -> list[str]:
    classes = model.classes
    unseen = classes.index[~classes["seen"].to_numpy()]
    for name in args.names:
        if name not in classes.index.astype(str):
            raise ValueError(f"{args.model} has no class {name!r}; add it first: cosmo classes add")
    wanted = match_labels(args.names, classes.index) if args.names else unseen
    if args.training is None and model.needs_training:
        seen = type(model.cosmo.experts_.seen).__name__
        raise ValueError(f"{seen} must be trained again: give the training samples by --training FILE")
    rows, labels = _labelled_rows(args, model, wanted[0] if len(args.names) == 1 else None)
    if not args.names:
        wanted = unseen[unseen.isin(labels)]
    if len(wanted) == 0:
        known = ", ".join(map(str, unseen))
        raise DataError(f"{args.samples} has no samples of the unseen classes, which are {known}")
    training = None
    if args.training is not None:
        training = _labelled_rows(argparse.Namespace(**{**vars(args), "samples": args.training}), model)
    promoted = []
    for name in wanted:
        own = rows[labels == name]
        if len(own) == 0:
            raise DataError(f"{args.samples} has no samples of {name!r}")
        model.promote(name, own, training=training)
        if training is not None:  # for the next class
            training = np.concatenate([training[0], own]), training[1].append(pd.Index([name] * len(own)))
        promoted.append(f"{name} ({len(own)} samples)")
    return promoted


def _labelled_rows(
    args: argparse.Namespace, model: Model, label: Hashable | None = None
) -> tuple[NDArray[Any], pd.Index]:
    """Return rows and their classes; `label` is that of samples without labels."""
    samples = _options.load_samples(args, model)
    if samples.labels is None and label is not None:
        samples = SampleSet(samples.items, pd.Index([label] * len(samples)))
    labels = match_labels(samples.require_labels(args.samples), model.classes.index)
    rows, samples = _options.encode_samples(args, model, SampleSet(samples.items, labels))
    return np.asarray(rows), samples.require_labels(args.samples)
