"""`cosmo compare`: the paper's main table on a data set at hand."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from cosmo._core.cache import Cache
from cosmo._core.extras import require
from cosmo._core.files import write_whole
from cosmo.cli._console import plain_console, progress
from cosmo.cli._dataset import add_dataset_options, check_dataset, load
from cosmo.cli._workers import add_worker_options, workers_from
from cosmo.cli.experts import expert_name
from cosmo.data import GZSLDataset
from cosmo.evaluation.compare import Answer, Contender, compare
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS, UnseenExpert, make_seen_expert, make_unseen_expert
from cosmo.experts._generative import GenerativeExpert
from cosmo.viz.page import comparison_view, render_page

_EPILOG = """\
methods (--methods), with parameters or a published setting after a colon:
  {methods}

examples:
  cosmo compare
  cosmo compare xlsa17/CUB --features res50 --seed 1002
  cosmo compare xlsa17/CUB --features res50 --descriptions att_splits sent_splits --write docs/results/cub.md
  cosmo compare --methods eszsl lago lago:variant=singletons "dem:CUB"

Every expert is trained once and kept in --cache: a run that was stopped goes on where it was, and a method
that is added later costs only itself. Experts are trained in --jobs processes of one thread each,
or on a cluster: --engine dask --scheduler ADDRESS, with --cache on storage that all machines share.
"""

GENERATIVE = tuple(name for name, kind in UNSEEN_EXPERTS.items() if issubclass(kind, GenerativeExpert))
ALL = (
    # "similarity" is for descriptions in the space of the samples, which the benchmark's are not.
    *(name for name in UNSEEN_EXPERTS if name not in (*GENERATIVE, "similarity")),
    *(f"lago:variant={variant}" for variant in ("semantic-hard", "singletons", "k-soft")),
)
_GROUPS = {"all": ALL, "generative": GENERATIVE}

_WAYS = {"alone": "alone", "own gate": "+ own gate", "CS": "+ CS", "COSMO": "+ COSMO"}


def _method(text: str) -> str:
    return text if text in _GROUPS else expert_name(text)


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo compare",
        description="Train many zero-shot experts, and show each alone, with calibrated stacking (CS) and\n"
        "inside COSMO, beside what was published. All choices are made on held-out training data.",
        epilog=_EPILOG.format(methods=", ".join(UNSEEN_EXPERTS)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_dataset_options(options)
    add = options.add_argument
    add("--descriptions", nargs="+", default=["att_splits"], metavar="NAME",
        help="descriptions files of the folder, without .mat: a table for each (att_splits)")  # fmt: skip
    add("--methods", nargs="+", default=["all"], type=_method, metavar="NAME",
        help="zero-shot experts; 'all' (default) are those that make no features, LAGO in four variants; "
        "'generative' the others, which take longer")  # fmt: skip
    add("--seen", default="logistic", choices=list(SEEN_EXPERTS), metavar="NAME",
        help="expert for classes with examples (default %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0,
        help="draws the validation split, and the samples of 'glyphs' (default %(default)s)")  # fmt: skip
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
        help="experts trained at the same time (default: one for each processor, %(default)s)")  # fmt: skip
    add_worker_options(options)
    add("--cache", default="cosmo-runs/cache", metavar="DIR",
        help="where trained experts' predictions are kept (default %(default)s)")  # fmt: skip
    add("--out", metavar="DIR",
        help="where compare.csv and report.html go (default cosmo-runs/DATASET-compare)")  # fmt: skip
    add("--write", metavar="FILE", help="write the tables as Markdown, too")
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_dataset(args.dataset)
    methods = [name for word in args.methods for name in _GROUPS.get(word, (word,))]
    experts = {name: make_unseen_expert(name) for name in dict.fromkeys(methods)}
    name = Path(args.dataset).resolve().name
    out = Path(args.out) if args.out else Path("cosmo-runs", f"{name}-compare")  # beside that of `cosmo run`
    out.mkdir(parents=True, exist_ok=True)
    if args.write:
        Path(args.write).parent.mkdir(parents=True, exist_ok=True)
        if Path(args.write).is_dir():
            raise ValueError(f"--write {args.write} is a folder; name a file")
    tables: dict[str, pd.DataFrame] = {}
    answers: dict[str, list[Answer]] = {}
    reasons: dict[str, dict[str, str]] = {}
    workers = workers_from(args)
    with progress(quiet=args.quiet) as step:
        for descriptions in args.descriptions if args.dataset != "glyphs" else ["attributes"]:
            step(f"loading {args.dataset}, {descriptions}")
            contenders, reasons[descriptions] = _contenders(args, experts, descriptions)
            if not contenders:
                why = "; ".join(f"{method}: {reason}" for method, reason in reasons[descriptions].items())
                raise ValueError(f"no method can take {descriptions}: {why}")
            answers[descriptions] = []
            tables[descriptions] = compare(
                contenders,
                Cache(args.cache),
                seen=make_seen_expert(args.seen),
                seed=args.seed,
                workers=workers,
                report=step,
                told=answers[descriptions].append,
            )
        step("writing the report")
        whole = pd.concat(tables, names=["descriptions"]).reset_index(level=0)
        write_whole(out / "compare.csv", whole.to_csv(index=False).encode())
        write_whole(out / "report.html", render_page(comparison_view(name, answers, tables)).encode())
    console = plain_console()
    console.width = max(console.width, 120)  # a narrow window wraps lines; numbers are never cut
    for descriptions, table in tables.items():
        console.print(_terminal(table, f"{name}, {descriptions}: test, percent, 95 % intervals"))
        for method, reason in reasons[descriptions].items():
            console.print(f"{method}: left out; {reason}", soft_wrap=True)
    console.print(f"all numbers: {out / 'compare.csv'}", soft_wrap=True)
    console.print(f"report: {out / 'report.html'}", soft_wrap=True)
    if args.write:
        write_whole(Path(args.write), _document(args, name, tables, reasons).encode())
        console.print(f"tables: {args.write}", soft_wrap=True)
    return 0


def _contenders(
    args: argparse.Namespace, experts: dict[str, UnseenExpert], descriptions: str
) -> tuple[list[Contender], dict[str, str]]:
    """Return the methods that can take the descriptions, and why the others cannot."""
    contenders, reasons = [], {}
    loaded: dict[bool, GZSLDataset] = {}
    for name, expert in experts.items():
        if expert.as_recorded not in loaded:
            loaded[expert.as_recorded] = load(
                args, expert, descriptions=descriptions, original=False, seed=args.seed
            )
        dataset = loaded[expert.as_recorded]
        try:
            if expert.needs_torch:
                require("torch")
            expert.check_suitable(dataset.descriptions)
            # Published numbers are for attributes, and of variants for the best one.
            same = descriptions == "att_splits" and "variant=" not in name
            known = type(expert).__name__ if same else ""
            contenders.append(Contender(_shown(expert, name), expert, dataset, known))
        except (ValueError, ImportError) as error:
            reasons[_shown(expert, name)] = str(error)
    return contenders, reasons


def _shown(expert: UnseenExpert, name: str) -> str:
    """Return the method's name, with what was asked of it."""
    details = name.partition(":")[2].replace("variant=", "")
    return f"{type(expert).__name__} {details}".strip()


def _cells(row: pd.Series, first: bool) -> list[str]:
    def around(name: str) -> str:
        return f"{row[name]:.1f} ({row[name + '_low']:.1f}–{row[name + '_high']:.1f})"

    def printed(names: tuple[str, ...]) -> str:
        values = [row[f"published_{name}"] for name in names]
        if pd.isna(values).all():
            return ""
        return " / ".join("–" if pd.isna(value) else f"{value:.1f}" for value in values)

    return [
        row["method"] if first else "",
        _WAYS[row["way"]],
        f"{row['t1']:.1f}" if first else "",
        f"{row['acc_ts']:.1f}",
        f"{row['acc_tr']:.1f}",
        around("acc_h"),
        around("ausuc"),
        f"{row['cpu_seconds']:.0f}" if first else "",
        printed(("t1",)) if first else "",
        printed(("acc_ts", "acc_tr", "acc_h")),
        printed(("ausuc",)),
    ]


_COLUMNS = ("method", "", "T1", "ts", "tr", "H", "AUSUC", "CPU s", "T1*", "ts / tr / H*", "AUSUC*")


def _lines(table: pd.DataFrame) -> list[list[str]]:
    fresh = table["method"] != table["method"].shift()
    return [_cells(row, bool(first)) for (_, row), first in zip(table.iterrows(), fresh, strict=True)]


def _terminal(table: pd.DataFrame, title: str) -> Table:
    shown = Table(title=Text(title), caption="* as published, on other features", box=SIMPLE_HEAD, padding=0)
    for number, column in enumerate(_COLUMNS):
        shown.add_column(column, justify="left" if number < 2 else "right", no_wrap=True)
    for cells in _lines(table):
        shown.add_row(*cells)
    return shown


def _document(
    args: argparse.Namespace,
    name: str,
    tables: dict[str, pd.DataFrame],
    reasons: dict[str, dict[str, str]],
) -> str:
    """Return the tables as Markdown, with what a reader needs to judge them."""
    options = [f"--features {args.features}"] if args.dataset != "glyphs" else []
    if list(tables) not in (["att_splits"], ["attributes"]):
        options.append(f"--descriptions {' '.join(tables)}")
    if args.methods != ["all"]:
        options.append(f"--methods {shlex.join(args.methods)}")
    if args.seen != "logistic":
        options.append(f"--seen {args.seen}")
    if args.roots:
        options.append("--roots")
    if args.attributes:
        options.append(f"--attributes {Path(args.attributes).name}")
    command = " ".join(["cosmo compare", name, *options, f"--seed {args.seed}"])
    parts = [
        f"# {name}: every method side by side",
        f"Written by `{command}`. Test accuracies (*ts*: unseen classes, *tr*: seen classes, *H*: harmonic "
        "mean) in percent with 95 % intervals; every choice was made on held-out training data. "
        "*alone*: the zero-shot expert over all classes; *+ own gate*: with hard novelty detection (CMT*); "
        "*+ CS*: with calibrated stacking; *+ COSMO*: with the seen expert "
        f"({SEEN_EXPERTS[args.seen]}), the confidence-based gate and adaptive smoothing. T1: unseen samples "
        "among unseen classes. CPU s: choosing parameters and training, both stages, one thread.",
        "Columns with a star are **as published, with attributes, on other features** (ResNet-101), so only "
        "order and rough size compare.",
    ]
    for descriptions, table in tables.items():
        header = [f"| {' | '.join(_COLUMNS)} |", "|---|---|" + "---:|" * (len(_COLUMNS) - 2)]
        rows = ["| " + " | ".join(cells) + " |" for cells in _lines(table)]
        notes = [
            f"- {method}: published figures: {'; '.join(dict.fromkeys(filter(None, group)))}"
            for method, group in table.groupby("method", sort=False)["note"]
            if any(group)
        ]
        notes += [f"- {method}: left out. {reason}" for method, reason in reasons[descriptions].items()]
        minutes = table.drop_duplicates("method")["cpu_seconds"].sum() / 60
        total = f"CPU time of all rows: {minutes:.1f} minutes."
        parts += [f"## {descriptions}", "\n".join(header + rows), total, "\n".join(notes)]
    return "\n\n".join(part for part in parts if part) + "\n"
