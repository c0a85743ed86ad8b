"""`cosmo discover`: groups of rejected samples, as proposals of new classes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cosmo._core.files import write_atomic
from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.io.discover import Discovery, discover
from cosmo.io.model import Model
from cosmo.io.writers import CsvWriter

_EPILOG = """\
Prints each group: its proposed name, the classes that the model would answer, and typical samples. Some
groups are of known classes that the model knows badly. --out writes two files into a folder: samples.csv, the
samples with their group as label, and descriptions.csv, a draft for each group, to edit and add by
`cosmo classes add`. --add adds groups with their drafts at once, as unseen classes; --ask shows one group
after the other and adds those that you name.

examples:
  cosmo discover model.cosmo messages.csv --out found
  cosmo discover model.cosmo messages.csv --add joke_funny=tell_joke alarm_set
  cosmo discover model.cosmo messages.csv --ask
  cosmo classes add model.cosmo --descriptions found/descriptions.csv
  cosmo classes learn model.cosmo found/samples.csv
"""
_LONGEST = 70


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = _options.make_parser(
        "discover", "Group the samples that a model rejects, and propose a class for each group.", _EPILOG
    )
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


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    with progress(quiet=args.quiet) as step:
        model = _options.load_model(args)
        samples = _options.load_samples(args, model)
        step(f"encoding {len(samples)} samples")
        rows, samples = _options.encode_samples(args, model, samples, step.report)
        step("grouping")
        rows = model.encode(rows)
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
        console.print(f"  {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}")


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
    for file, table in (
        ("samples.csv", frame.assign(label=labels)),
        ("descriptions.csv", drafts.rename_axis("class").reset_index()),
    ):
        csv, columns = CsvWriter(), [str(name) for name in table.columns]
        write_atomic(folder / file, csv.file_content([csv.encode({}, table)], columns))
