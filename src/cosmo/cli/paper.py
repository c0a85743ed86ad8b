"""`cosmo paper`: reproduce the paper's tables and figures."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cosmo._core.cache import Cache
from cosmo._core.files import write_atomic
from cosmo.cli import _options, _output
from cosmo.cli._output import PlainConsole, progress
from cosmo.paper.document import Section, Selection, as_html, as_markdown
from cosmo.paper.reproduce import PARTS, Reproduction
from cosmo.paper.runner import DATASETS, EXPERTS, Runner, find_inputs
from cosmo.paper.trials import SEARCHES, SOURCES


def paper_parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "paper",
        parts=_options.list_choices(PARTS),
        sources=_options.list_choices(SOURCES),
        searches=_options.list_choices(SEARCHES),
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


def run_paper(args: argparse.Namespace) -> int:
    for name in ("dataset", "expert", "source"):
        if getattr(args, name):
            setattr(args, name, list(dict.fromkeys(getattr(args, name))))
    datasets = args.dataset or list(DATASETS)
    if args.data is None and datasets != ["glyphs"]:
        raise ValueError("give the folder with the paper's data by --data, or choose --dataset glyphs")
    parts = list(PARTS) if "all" in args.parts else list(dict.fromkeys(args.parts))
    inputs = find_inputs(args.data, features=args.features)
    out = Path(args.out)
    _output.check_document(args.write)
    names = ("dataset", "expert", "source", "search", "features", "sample")
    given = {"data": "DATA" if args.data else None, **{name: getattr(args, name) for name in names}}
    command = _output.command_line(paper_parser(), args.parts, given)
    workers = _options.make_workers(args)
    with progress(quiet=args.quiet, hidden="cosmo.classifier") as step:
        step("training experts")
        runner = Runner(inputs, Cache(args.cache), workers=workers, report=step.report)
        selected = Selection(datasets, args.expert, args.source, args.search)
        reproduction = Reproduction(runner, out, selected, args.sample)
        sections = reproduction.sections(parts)
        write_atomic(out / "paper.md", as_markdown(sections, command, pictures=Path("figures")).encode())
        write_atomic(out / "paper.html", as_html(sections, command).encode())
        if args.write:
            write_atomic(Path(args.write), as_markdown(sections, command).encode())
    console = PlainConsole()
    for section in sections:
        _print(console, section)
    console.print(f"page: {out / 'paper.html'}")
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
