"""`cosmo gates`: measure how well each gate separates seen from unseen classes."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pandas as pd

from cosmo._core.cache import Cache
from cosmo._core.files import write_atomic
from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.data.splits import Protocol
from cosmo.evaluation.compare import compare_gates
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.experts import make_seen_expert, make_unseen_expert
from cosmo.gates import GATES
from cosmo.viz.plots.walkthrough import plot_gates
from cosmo.viz.text import gate_document, gate_table

_EPILOG = """\
gates (--gates):
{gates}

files written to --out: gates.csv, gates.png (score histograms)

examples:
  cosmo gates
  cosmo gates xlsa17/CUB --features res50 --unseen lago --seed 1005
  cosmo gates --gates max-softmax confidence evidence --write docs/results/gates.md
"""


def parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "gates",
        "Fit every gate on the same two experts and measure how well it separates samples of seen\n"
        "classes from samples of unseen ones.",
        _EPILOG.format(gates=_options.list_choices(GATES)),
    )
    _options.add_dataset_options(options)
    add = _options.add_expert_options(options)
    add("--gates", nargs="+", choices=list(GATES), metavar="NAME",
        help="gates to compare (default: all that the unseen expert allows)")  # fmt: skip
    add("--folds", type=int, default=3, metavar="K",
        help="fit the confidence and evidence gates also on K hold-out rounds, so that every seen class is "
        "held out once (default %(default)s; 1: do not)")  # fmt: skip
    _options.add_output_options(options, "folder to write to (default cosmo-runs/DATASET)")
    return options


def run(args: argparse.Namespace) -> int:
    _options.check_dataset(args.dataset)
    expert = make_unseen_expert(args.unseen)
    out = _options.output_folder(args)
    _options.check_document(args.write)
    names = args.gates or [name for name in GATES if name != "novelty" or expert.detects_novelty]
    with progress(quiet=args.quiet) as step:
        step(f"loading {args.dataset}")
        dataset = _options.load_dataset(args, expert)
        step(f"training experts and gates on {dataset!r}")
        experts = ExpertCache(Protocol(dataset, seed=args.seed), Cache(args.cache))
        results = compare_gates(experts, make_seen_expert(args.seen), expert, names, folds=args.folds)
        picture = io.BytesIO()
        plot_gates(results, title=f"{dataset.name}: gate scores on test").savefig(picture, dpi=150)
        write_atomic(out / "gates.png", picture.getvalue())
    frame = pd.DataFrame([{"gate": one.name, **one.measures} for one in results])
    write_atomic(out / "gates.csv", frame.to_csv(index=False).encode())
    console = PlainConsole()
    console.print_table(gate_table(results))
    console.print(f"histograms: {out / 'gates.png'}")
    if args.write:
        command = _options.command_line(
            "gates",
            dataset.name,
            features=args.features if args.dataset != "glyphs" else None,
            roots=args.roots,
            descriptions=args.descriptions if args.descriptions != "att_splits" else None,
            unseen=args.unseen,
            seed=args.seed,
        )
        document = gate_document(dataset.name, command, results)
        write_atomic(Path(args.write), document.encode())
        console.print(f"table: {args.write}")
    return 0
