"""`cosmo paper`: the paper's tables and figures, beside what it prints."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cosmo._core.cache import Cache
from cosmo._core.files import write_whole
from cosmo.cli._console import plain_console, progress
from cosmo.cli._workers import add_worker_options, workers_from
from cosmo.paper.document import Section, as_html, as_markdown
from cosmo.paper.inputs import DATASETS, look_into
from cosmo.paper.reproduce import PARTS, Reproduction
from cosmo.paper.runner import EXPERTS, Runner
from cosmo.paper.trials import SEARCHES, SOURCES
from cosmo.viz.page import render_page

_EPILOG = """\
parts:
{parts}

sources (--source):
{sources}

ways to find operating points (--search):
{searches}

examples:
  cosmo paper all --data DATA
  cosmo paper combination smoothing --data DATA --dataset CUB --expert LAGO --source predictions
  cosmo paper main --data DATA --search authors
  cosmo paper walkthrough --data DATA --dataset CUB --sample 17
  cosmo paper gating planes --dataset glyphs --expert ESZSL     no data needed

DATA is laid out as xlsa17/CUB/{{att_splits,res101}}.mat and predictions/LAGO/CUB/*.npz; what is missing is
named. Experts are trained once and kept in --cache: a run that was stopped goes on, a second run is quick.
They are trained in --jobs processes, or on a cluster: --engine dask --scheduler ADDRESS, with --cache on
storage that all machines share.

files written to --out: paper.md, paper.html, tables/*.csv, tables/*.tex, figures/*.png, figures/*.svg, and
report.html, the planes of whatever was computed to play with: thresholds, gates, classes, single samples
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""

    def listed(entries: dict[str, str]) -> str:
        return "\n".join(f"  {name:<12} {text}" for name, text in entries.items())

    options = argparse.ArgumentParser(
        prog="cosmo paper",
        description="Reproduce the tables and figures of Atzmon & Chechik, CVPR 2019, on the data at hand.",
        epilog=_EPILOG.format(parts=listed(PARTS), sources=listed(SOURCES), searches=listed(SEARCHES)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add("parts", nargs="+", choices=[*PARTS, "all"], metavar="PART", help="'all', or parts of the paper")
    add("--data", default=os.environ.get("COSMO_DATA"), metavar="DIR",
        help="folder with the paper's data (default: $COSMO_DATA)")  # fmt: skip
    add("--dataset", nargs="+", choices=[*DATASETS, "glyphs"], metavar="NAME",
        help=f"of {', '.join(DATASETS)} and the built-in 'glyphs' (default: those of the paper)")  # fmt: skip
    add("--expert", nargs="+", choices=list(EXPERTS), metavar="NAME",
        help=f"only these: {', '.join(EXPERTS)}")  # fmt: skip
    add("--source", nargs="+", choices=list(SOURCES), metavar="NAME", help="only numbers from these sources")
    add("--search", default="exact", choices=list(SEARCHES), help="(default %(default)s)")
    add("--features", metavar="NAME",
        help="features file where a folder has several, without .mat (default: res101)")  # fmt: skip
    add(
        "--sample",
        type=int,
        metavar="N",
        help="test sample of the walk-through (default: an instructive one)",
    )
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
        help="experts trained at the same time (default: one for each processor, %(default)s)")  # fmt: skip
    add_worker_options(options)
    add("--cache", default="cosmo-runs/cache", metavar="DIR",
        help="where trained experts' predictions are kept (default %(default)s)")  # fmt: skip
    add("--out", default="cosmo-runs/paper", metavar="DIR", help="where to write (default %(default)s)")
    add("--write", metavar="FILE", help="write the document, without figures, to this file, too")
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    for name in ("dataset", "expert", "source"):
        if getattr(args, name):
            setattr(args, name, list(dict.fromkeys(getattr(args, name))))
    datasets = args.dataset or list(DATASETS)
    if args.data is None and datasets != ["glyphs"]:
        raise ValueError("give the folder with the paper's data by --data, or take --dataset glyphs")
    parts = list(PARTS) if "all" in args.parts else list(dict.fromkeys(args.parts))
    holdings = look_into(args.data, features=args.features)
    out = Path(args.out)
    if args.write:
        Path(args.write).parent.mkdir(parents=True, exist_ok=True)
        if Path(args.write).is_dir():
            raise ValueError(f"--write {args.write} is a folder; name a file")
    workers = workers_from(args)
    with progress(quiet=args.quiet) as step:
        runner = Runner(holdings, Cache(args.cache), workers=workers, report=step)
        made = Reproduction(runner, out, datasets, args.expert, args.source, args.search, args.sample)
        sections = made.sections(parts)
        command = _command(args)
        write_whole(out / "paper.md", as_markdown(sections, command, pictures=Path("figures")).encode())
        view = made.view(command)
        if view is not None:
            write_whole(out / "report.html", render_page(view).encode())
        page = as_html(sections, command, planes=None if view is None else "report.html")
        write_whole(out / "paper.html", page.encode())
        if args.write:
            write_whole(Path(args.write), as_markdown(sections, command).encode())
    console = plain_console()
    for section in sections:
        _print(console, section)
    console.print(f"page: {out / 'paper.html'}", soft_wrap=True)
    if view is not None:
        console.print(f"report: {out / 'report.html'}", soft_wrap=True)
    return 0


def _command(args: argparse.Namespace) -> str:
    """Return the command without this machine's folders."""
    words = ["cosmo paper", *args.parts]
    words += ["--data DATA"] if args.data else []
    for name in ("dataset", "expert", "source"):
        values = getattr(args, name)
        words += [f"--{name}", *values] if values else []
    words += [f"--search {args.search}"] if args.search != "exact" else []
    words += [f"--features {args.features}"] if args.features else []
    words += [f"--sample {args.sample}"] if args.sample is not None else []
    return " ".join(words)


def _print(console: Console, section: Section) -> None:
    console.print(f"\n{section.title}", style="bold")
    console.print(section.text)
    for one in section.tables:
        table = _terminal(one.heading, one.cells)
        # A narrow window wraps lines; numbers are never cut.
        needed = console.measure(table, options=console.options.update(max_width=1000)).maximum
        console.width = max(console.width, needed)
        console.print(table)
        for note in one.notes:
            console.print(f"  {note}", style="dim")
    for picture in section.pictures:
        console.print(f"figure: {picture.path}.png", soft_wrap=True)
    for need in section.missing:
        console.print(f"not computed, for want of: {need}", soft_wrap=True)


def _terminal(heading: str, cells: pd.DataFrame) -> Table:
    table = Table(title=Text(heading), box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left")
    for number, column in enumerate(cells.columns):
        table.add_column(Text(column), justify="left" if number == 0 else "right", no_wrap=True)
    for row in cells.to_numpy().tolist():
        table.add_row(*map(Text, row))
    return table
