"""`cosmo classes` and `cosmo discover`: the classes of a model, new ones, and proposals of new ones."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo.cli import _options, _output
from cosmo.cli._output import PlainConsole, progress
from cosmo.data import DataError, match_labels, read_descriptions
from cosmo.data.samples import SampleSet
from cosmo.io.discover import Discovery, discover
from cosmo.io.model import Model


def classes_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("classes")
    verbs = options.add_subparsers(dest="verb", required=True, metavar="list | add | learn")

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        description = f"{text[0].upper()}{text[1:]}."
        epilog = options.epilog
        one = verbs.add_parser(name, help=text, description=description, epilog=epilog, **_options.RAW)
        _options.add_model_option(one)
        return one

    one = verb("list", "print the classes of a model")
    one.add_argument("--json", action="store_true", help="print as JSON")

    one = verb("add", "add unseen classes by their descriptions, without training")
    add = _options.group(one, "new classes")
    add("--descriptions", metavar="FILE",
        help="descriptions of the new classes, with the columns of the training")  # fmt: skip
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


def run_classes(args: argparse.Namespace) -> int:
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
        text = _output.clip(str(row.get("description", "")).replace("\n", " | "))
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


def discover_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("discover")
    _options.add_model_option(options)
    options.add_argument("samples", metavar="SAMPLES", help="samples without labels; labels are ignored")
    _options.add_sample_options(options)
    add = _options.group(options, "groups")
    add("--reject", type=float, default=0.3, metavar="SHARE",
        help="group samples with a conformity of at most this (default %(default)s)")  # fmt: skip
    add("--smallest", type=int, default=15, metavar="N", help="samples of a group (default %(default)s)")
    add("--add", nargs="+", default=[], metavar="GROUP[=NAME]",
        help="add these groups as classes, by their drafts; the model is replaced")  # fmt: skip
    add("--ask", action="store_true",
        help="ask for the name of each other group, and add those that get one")  # fmt: skip
    add = _options.group(options, "output")
    add("--out", metavar="FOLDER", help="folder to write samples.csv and descriptions.csv to")
    add("--json", action="store_true", help="print as JSON")
    _options.add_quiet(add)
    return options


def run_discover(args: argparse.Namespace) -> int:
    with progress(quiet=args.quiet) as step:
        model, rows, samples = _options.load_rows(args, step)
        step("grouping")
        found = discover(model, samples.items, rows=rows, reject=args.reject, smallest=args.smallest)
    names = {str(name): name for name in found.groups.index}
    added = dict(one.partition("=")[::2] for one in args.add)
    if not added.keys() <= names.keys():
        wrong = min(added.keys() - names.keys())
        raise ValueError(f"--add: there is no group {wrong!r}; there are {', '.join(names) or 'none'}")
    typical = [[_name(samples.items, k) for k in places] for places in found.groups["typical"]]
    if args.out is not None:
        _write(Path(args.out), found, samples.items, model)
    if args.json:
        table = found.groups.assign(typical=pd.Series(typical, found.groups.index))
        print(json.dumps(table.reset_index().to_dict("records"), indent=2))
    else:
        grouped = int(pd.notna(found.labels).sum())
        print(f"{len(names)} groups with {grouped} of {len(rows)} samples, the least known first", flush=True)
    for (text, name), texts in zip(names.items(), typical, strict=True):
        if not args.json:
            _print(found, name, texts)
        if args.ask and text not in added:
            taken = {*model.classes.index.astype(str), *(new or old for old, new in added.items())}
            if answer := _ask(found, name, taken):
                added[text] = answer
    if added:
        chosen = found.descriptions.loc[[names[name] for name in added]]
        chosen.index = [_label(new, names[name]) if new else names[name] for name, new in added.items()]
        model.add_classes(chosen)
        model.save(args.model)
        new_names = ", ".join(map(str, chosen.index))
        PlainConsole(stderr=True).print(f"unseen classes added to {args.model}: {new_names}")
    return 0


def _label(text: str, group: object) -> object:
    """Return a name as a label of the same type as that of the group."""
    return int(text) if isinstance(group, int) and text.isdecimal() else text


def _name(items: object, k: int) -> str:
    """Return a text, a path, or the number of a row, from 1."""
    return f"row {k + 1}" if isinstance(items, pd.DataFrame | np.ndarray) else str(items[k])  # type: ignore[index]


def _print(found: Discovery, name: Any, typical: list[str]) -> None:
    """Print a group with typical samples."""
    console, group = PlainConsole(), found.groups.loc[name]
    console.print(f"\n{name}: {group['size']} samples; nearest classes: {group['nearest']}")
    for text in typical:
        console.print(f"  {_output.clip(text)}")


def _ask(found: Discovery, name: Any, taken: set[str]) -> str:
    """Return the name that the user enters for a group, empty if it is not to be added."""
    console = PlainConsole(stderr=True)
    if isinstance(found.descriptions, pd.Series):
        console.print(f"  draft: {found.descriptions[name]}")
    while True:
        console.print(f"  add as class (y = {name}, or another name; Enter = no): ", end="")
        answer = sys.stdin.readline().strip()  # empty at the end of the input
        answer = {"y": str(name), "yes": str(name), "n": "", "no": ""}.get(answer.lower(), answer)
        if answer not in taken:
            return answer
        console.print(f"  there is a class {answer!r} already")


def _write(folder: Path, found: Discovery, items: object, model: Model) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    member = np.flatnonzero(pd.notna(found.labels))
    labels = found.labels[member]
    if isinstance(items, pd.DataFrame):
        frame = items.iloc[member]
    elif isinstance(items, np.ndarray):
        names = model.feature_names or [f"f{k}" for k in range(items.shape[1])]
        frame = pd.DataFrame(items[member], columns=names)
    else:
        kind = "text" if model.encoder.kind == "text" else "path"
        frame = pd.DataFrame({kind: [str(items[k]) for k in member]})  # type: ignore[index]
    drafts = pd.DataFrame(found.descriptions)
    if drafts.columns.nlevels > 1:
        drafts.columns = ["::".join(map(str, name)) for name in drafts.columns]
    _output.write_csv(folder / "samples.csv", frame.assign(label=labels))
    _output.write_csv(folder / "descriptions.csv", drafts.rename_axis("class").reset_index())
