"""`cosmo init` and `cosmo check`: an example project, and problems in data before training."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

import pandas as pd
from rich.text import Text

from cosmo.cli import _options
from cosmo.cli._output import PlainConsole, progress
from cosmo.data.check import Finding, find_problems
from cosmo.data.samples import ProjectData
from cosmo.io.project import STARTERS, write_starter

_SHOWN = 5  # classes in a line
_COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


def init_parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "init", kinds="\n".join((f"  {name:<9} {text}" for name, text in STARTERS.items()))
    )
    add = options.add_argument
    add("folder", nargs="?", default=".", metavar="FOLDER", help="where to write (default: here)")
    add("--kind", default="features", choices=list(STARTERS), help="(default %(default)s)")
    _options.add_quiet(add, "print nothing")
    return options


def run_init(args: argparse.Namespace) -> int:
    names = write_starter(args.kind, args.folder)
    if args.quiet:
        return 0
    print(f"wrote {', '.join(str(Path(args.folder, name)) for name in names)}\n\nnext:")
    if args.folder != ".":
        print(f"  cd {shlex.quote(args.folder)}")
    print("  cosmo check                      summary of the data, problems and leaks")
    print("  cosmo fit                        train, write model.cosmo")
    print("  cosmo evaluate model.cosmo       accuracy on the test samples")
    return 0


def check_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("check")
    _options.add_project_options(options)
    options.add_argument("--test", metavar="FILE", help="labelled samples that are kept for `cosmo evaluate`")
    options.add_argument("--classes", action="store_true",
        help="list all classes, those of fewest samples first")  # fmt: skip
    options.add_argument("--json", action="store_true", help="print as JSON")
    _options.add_quiet(options.add_argument, "no progress, and findings only")
    return options


def run_check(args: argparse.Namespace) -> int:
    project = _options.load_project(args)
    with progress(quiet=args.quiet) as step:
        step(f"reading {project.samples}")
        data = project.load()
        step(f"checking {len(data.train) + len(data.test or [])} samples")
        findings = find_problems(data, joint_space=project.joint_space)
        findings += [Finding("error", text) for text in project.missing_packages(data)]
    counts = _class_counts(data)
    status = 2 if any(finding.level == "error" for finding in findings) else 0
    if args.json:
        print(json.dumps(_document(data, counts, findings), indent=2))
        return status
    console = PlainConsole()
    if not args.quiet:
        for line in _lines(data, counts, args.classes):
            console.print(line)
        console.print()
    for finding in findings:
        console.print(Text.assemble((f"{finding.level}: ", _COLOURS[finding.level]), finding.text))
    console.print("\na model can be trained: cosmo fit" if status == 0 else "\nno model can be trained")
    return status


def _class_counts(data: ProjectData) -> pd.DataFrame:
    """Return the number of training and test samples of every class."""
    none = pd.Index([])
    parts = {"train": data.train.labels, "test": None if data.test is None else data.test.labels}
    labels = {name: none if part is None else part for name, part in parts.items()}
    classes = data.descriptions.index.append([*labels.values()]).unique()
    counts = {name: part.value_counts().reindex(classes, fill_value=0) for name, part in labels.items()}
    return pd.DataFrame(counts, index=classes).astype(int)


def _shape(data: ProjectData) -> str:
    described = data.descriptions
    if isinstance(described, pd.DataFrame):
        return f"{described.shape[1]} attributes"
    n_sentences = int(described.str.count("\n").sum()) + len(described)
    return "a sentence for each class" if n_sentences == len(described) else f"{n_sentences} sentences"


def _lines(data: ProjectData, counts: pd.DataFrame, every: bool) -> list[str]:
    seen = counts[counts["train"] > 0]
    size = f", {data.train.items.shape[1]} features each" if data.kind == "features" else ""
    lines = [
        f"kind          {data.kind}: {len(data.train)} samples{size}"
        + ("" if data.test is None else f", {len(data.test)} held back for the test"),
        f"descriptions  {len(data.descriptions)} classes, {_shape(data)}",
        f"classes       {len(seen)} seen, {len(counts) - len(seen)} unseen (described, without samples)",
    ]
    if len(seen):
        least, most = seen["train"].min(), seen["train"].max()
        lines.append(f"per class     {least} to {most} samples, median {seen['train'].median():g}")
    ordered = counts.sort_values("train", kind="stable")
    if every:
        width = max(5, *(len(str(name)) for name in ordered.index))
        lines += ["", f"{'class':<{width}}  samples  test"]
        return lines + [
            f"{name!s:<{width}}  {train:>7}  {test:>4}{'' if train else '  unseen'}"
            for name, train, test in ordered.itertuples()
        ]
    seen = ordered[ordered["train"] > 0]
    for heading, names in (
        ("fewest", [f"{name} {number}" for name, number in seen["train"].items()]),
        ("unseen", [str(name) for name in ordered.index[ordered["train"] == 0]]),
    ):
        if names:
            more = f" and {len(names) - _SHOWN} more (--classes)" if len(names) > _SHOWN else ""
            lines.append(f"{heading:<12}  {', '.join(names[:_SHOWN])}{more}")
    return lines


def _document(data: ProjectData, counts: pd.DataFrame, findings: list[Finding]) -> dict[str, object]:
    return {
        "kind": data.kind,
        "samples": len(data.train),
        "test_samples": 0 if data.test is None else len(data.test),
        "descriptions": _shape(data),
        "seen_classes": int((counts["train"] > 0).sum()),
        "unseen_classes": int((counts["train"] == 0).sum()),
        "classes": {str(name): {"train": int(train), "test": int(test)}
                    for name, train, test in counts.itertuples()},
        "findings": [{"level": finding.level, "text": finding.text} for finding in findings],
    }  # fmt: skip
