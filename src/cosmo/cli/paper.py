"""`cosmo paper`: reproduce the paper's tables and figures."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cosmo._core.cache import Cache
from cosmo._core.files import write_atomic
from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.paper.document import Section, as_html, as_markdown
from cosmo.paper.reproduce import PARTS, Reproduction
from cosmo.paper.runner import DATASETS, EXPERTS, Runner, find_inputs
from cosmo.paper.tables import Selection
from cosmo.paper.trials import SEARCHES, SOURCES
from cosmo.viz.page import render_page

_EPILOG = """\
parts:
{parts}

sources (--source):
{sources}

searches for operating points (--search):
{searches}

DATA has files such as xlsa17/CUB/{{att_splits,res101}}.mat and predictions/LAGO/CUB/*.npz; the document lists
what is missing. Trained experts are stored in --cache: a run that was stopped resumes, a second run is quick.
On a cluster (--engine dask --scheduler ADDRESS), --cache must be on storage that all machines share.

files written to --out: paper.md, paper.html, tables/*.csv, tables/*.tex, figures/*.png, figures/*.svg, and
report.html with interactive seen-unseen planes

examples:
  cosmo paper all --data DATA
  cosmo paper combination smoothing --data DATA --dataset CUB --expert LAGO --source predictions
  cosmo paper main --data DATA --search authors
  cosmo paper walkthrough --data DATA --dataset CUB --sample 17
  cosmo paper gating planes --dataset glyphs --expert ESZSL     no data needed
"""


def parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "paper",
        "Reproduce the tables and figures of Atzmon & Chechik (CVPR 2019) beside the published figures.",
        _EPILOG.format(
            parts=_options.list_choices(PARTS),
            sources=_options.list_choices(SOURCES),
            searches=_options.list_choices(SEARCHES),
        ),
    )
    options.add_argument(
        "parts", nargs="+", choices=[*PARTS, "all"], metavar="PART", help="'all', or parts of the paper"
    )
    add = _options.group(options, "experiments")
    add("--data", default=os.environ.get("COSMO_DATA"), metavar="DIR",
        help="folder with the paper's data (default: $COSMO_DATA)")  # fmt: skip
    add("--dataset", nargs="+", choices=[*DATASETS, "glyphs"], metavar="NAME",
        help=f"some of {', '.join(DATASETS)}, glyphs (default: those of the paper)")  # fmt: skip
    add("--expert", nargs="+", choices=list(EXPERTS), metavar="NAME",
        help=f"only these: {', '.join(EXPERTS)}")  # fmt: skip
    add("--source", nargs="+", choices=list(SOURCES), metavar="NAME", help="only these sources")
    add("--search", default="exact", choices=list(SEARCHES), help="(default %(default)s)")
    add("--features", metavar="NAME",
        help="features file where a folder has several, without .mat (default: res101)")  # fmt: skip
    add("--sample", type=int, metavar="N",
        help="test sample of the walk-through (default: one that smoothing corrects)")  # fmt: skip
    _options.add_worker_options(options, "experts trained at the same time")
    add = _options.group(options, "output")
    add("--cache", default=_options.CACHE, metavar="DIR",
        help="folder for the predictions of trained experts (default %(default)s)")  # fmt: skip
    add("--out", default="cosmo-runs/paper", metavar="DIR", help="folder to write to (default %(default)s)")
    add("--write", metavar="FILE", help="write the document without figures to this file, too")
    _options.add_quiet(add)
    return options


def run(args: argparse.Namespace) -> int:
    for name in ("dataset", "expert", "source"):
        if getattr(args, name):
            setattr(args, name, list(dict.fromkeys(getattr(args, name))))
    datasets = args.dataset or list(DATASETS)
    if args.data is None and datasets != ["glyphs"]:
        raise ValueError("give the folder with the paper's data by --data, or choose --dataset glyphs")
    parts = list(PARTS) if "all" in args.parts else list(dict.fromkeys(args.parts))
    inputs = find_inputs(args.data, features=args.features)
    out = Path(args.out)
    _options.check_document(args.write)
    command = _options.command_line(
        "paper",
        *args.parts,
        data="DATA" if args.data else None,
        dataset=args.dataset,
        expert=args.expert,
        source=args.source,
        search=args.search if args.search != "exact" else None,
        features=args.features,
        sample=args.sample,
    )
    workers = _options.make_workers(args)
    with progress(quiet=args.quiet, hidden="cosmo.classifier") as step:
        step("training experts")
        runner = Runner(inputs, Cache(args.cache), workers=workers, report=step.report)
        selected = Selection(datasets, args.expert, args.source, args.search)
        reproduction = Reproduction(runner, out, selected, args.sample)
        sections = reproduction.sections(parts)
        write_atomic(out / "paper.md", as_markdown(sections, command, pictures=Path("figures")).encode())
        view = reproduction.view(command)
        if view is not None:
            write_atomic(out / "report.html", render_page(view).encode())
        page = as_html(sections, command, planes=None if view is None else "report.html")
        write_atomic(out / "paper.html", page.encode())
        if args.write:
            write_atomic(Path(args.write), as_markdown(sections, command).encode())
    console = PlainConsole()
    for section in sections:
        _print(console, section)
    console.print(f"page: {out / 'paper.html'}")
    if view is not None:
        console.print(f"report: {out / 'report.html'}")
    for error in runner.damaged:
        console.print(f"damaged: {error}", style="bold")
    return 1 if runner.damaged else 0


def _print(console: PlainConsole, section: Section) -> None:
    console.print(f"\n{section.title}", style="bold")
    console.print(section.text, soft_wrap=False)
    for table in section.tables:
        console.print_table(table)
    for picture in section.pictures:
        console.print(f"figure: {picture.path}.png")
    for need in section.missing:
        console.print(f"not computed, missing: {need}")
