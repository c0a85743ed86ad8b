"""`cosmo gates`: which gate tells seen from unseen best."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from cosmo.cache import Cache
from cosmo.cli.console import plain_console, progress
from cosmo.cli.dataset import add_dataset_options, check_dataset, load
from cosmo.cli.experts import expert_name
from cosmo.experts import SEEN_EXPERTS, make_seen_expert, make_unseen_expert
from cosmo.files import write_whole
from cosmo.gate_study import GateResult, study_gates
from cosmo.gates import GATES
from cosmo.plots import plot_gates
from cosmo.stages import Stages

_EPILOG = """\
gates (--gates):
{gates}

examples:
  cosmo gates
  cosmo gates xlsa17/CUB --features res50 --unseen lago --seed 1005
  cosmo gates --gates max-softmax confidence evidence --write docs/results/gates.md

files written to --out: gates.csv, gates.png (score histograms)
"""

_COLUMNS = {
    "auc": "AUC",
    "fpr": "FPR95",
    "acc_h": "H",
    "test_auc": "test AUC",
    "test_fpr": "test FPR95",
    "test_acc_h": "test H",
}


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo gates",
        description="Fit every gate on the same two experts and measure how well it tells samples of seen\n"
        "classes from samples of unseen ones.",
        epilog=_EPILOG.format(gates="\n".join(f"  {name:<16} {text}" for name, text in GATES.items())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_dataset_options(options)
    add = options.add_argument
    add("--descriptions", default="att_splits", metavar="NAME",
        help="descriptions file of the folder, without .mat (default %(default)s)")  # fmt: skip
    add("--gates", nargs="+", choices=list(GATES), metavar="NAME",
        help="gates to compare (default: all that the unseen expert allows)")  # fmt: skip
    add("--unseen", default="eszsl", type=expert_name, metavar="NAME",
        help="zero-shot expert (default %(default)s)")  # fmt: skip
    add("--seen", default="logistic", choices=list(SEEN_EXPERTS), metavar="NAME",
        help="expert for classes with examples (default %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0,
        help="draws the validation split, and the samples of 'glyphs' (default %(default)s)")  # fmt: skip
    add("--cache", default="cosmo-runs/cache", metavar="DIR",
        help="where trained experts' predictions are kept (default %(default)s)")  # fmt: skip
    add("--out", metavar="DIR", help="where to write (default cosmo-runs/DATASET)")
    add("--write", metavar="FILE", help="write the table as Markdown, too")
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_dataset(args.dataset)
    expert = make_unseen_expert(args.unseen)
    out = Path(args.out) if args.out else Path("cosmo-runs", Path(args.dataset).resolve().name)
    out.mkdir(parents=True, exist_ok=True)
    names = args.gates or [name for name in GATES if name != "novelty" or hasattr(expert, "novelty")]
    with progress(quiet=args.quiet) as step:
        step(f"loading {args.dataset}")
        dataset = load(args, expert, descriptions=args.descriptions, original=False, seed=args.seed)
        step(f"training experts and gates on {dataset!r}")
        stages = Stages(dataset, Cache(args.cache), seed=args.seed)
        results = study_gates(stages, make_seen_expert(args.seen), expert, names)
        picture = io.BytesIO()
        plot_gates(results, title=f"{dataset.name}: gate scores on test").savefig(picture, dpi=150)
        write_whole(out / "gates.png", picture.getvalue())
    table = pd.DataFrame([{"gate": one.name, **one.measures} for one in results])
    write_whole(out / "gates.csv", table.to_csv(index=False).encode())
    console = plain_console()
    console.print(_terminal(results, dataset.name))
    console.print(f"histograms: {out / 'gates.png'}", soft_wrap=True)
    if args.write:
        write_whole(Path(args.write), _document(args, results, dataset.name).encode())
        console.print(f"table: {args.write}", soft_wrap=True)
    return 0


def _cells(one: GateResult) -> list[str]:
    return [one.name, *(f"{one.measures[key]:.1f}" for key in _COLUMNS)]


def _terminal(results: list[GateResult], name: str) -> Table:
    title = f"{name}: Gating-Val (H: GZSL-Val) and test, percent, no smoothing"
    table = Table(title=Text(title), box=SIMPLE_HEAD)
    table.add_column("gate")
    for column in _COLUMNS.values():
        table.add_column(column, justify="right")
    for one in results:
        table.add_row(*_cells(one))
    return table


def _document(args: argparse.Namespace, results: list[GateResult], name: str) -> str:
    options = f"--features {args.features} " if args.dataset != "glyphs" else ""
    command = f"cosmo gates {name} {options}--unseen {args.unseen} --seed {args.seed}"
    lines = [
        f"# {name}: gates",
        "",
        f"Written by `{command}`. AUC and FPR95 (the share of unseen samples that are taken for seen where "
        "95 % of the seen ones are) on Gating-Val and on test; H is Acc_H of the soft combination without "
        "smoothing, on GZSL-Val, where its threshold was chosen, and on test. Percent.",
        "",
        f"| gate | {' | '.join(_COLUMNS.values())} | |",
        "|---|" + "---:|" * len(_COLUMNS) + "---|",
        *(f"| {' | '.join(_cells(one))} | {GATES[one.name]} |" for one in results),
    ]
    return "\n".join(lines) + "\n"
