"""`cosmo gates`: measure how well each gate tells seen from unseen classes."""

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
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.evaluation.gates import compare_gates, leave_out_gaps, odin_auc
from cosmo.experts import make_seen_expert, make_unseen_expert
from cosmo.gates import GATES
from cosmo.viz.plots import plot_gates
from cosmo.viz.tables import gate_table, leave_out_table, odin_table

_EPILOG = """\
gates (--gates):
{gates}

files written to --out: gates.csv, gates.png (score histograms)

examples:
  cosmo gates
  cosmo gates xlsa17/CUB --features res50 --unseen lago --seed 1005
  cosmo gates --gates max-softmax confidence evidence --write docs/results/gates.md
"""

_GATES = (
    "AUC and FPR95 (false positive rate at 95 % true positives, where seen is positive) on Gating-Val and on "
    'test; ECE: expected calibration error of the score as a probability of "seen" on Gating-Val, and '
    'after scaling fitted on Gating-Train ("scaled"); H: Acc_H of the soft combination without smoothing, on '
    "GZSL-Val, where its threshold was chosen, and on test. Percent."
)
_ODIN = (
    "## Does ODIN's perturbation help?\n\nAUC on Gating-Val for each size of the perturbation ε, in units "
    "of each feature's spread, and each temperature T. Percent. Without perturbation the best is "
    "{still:.2f}, at T = {still_temperature:g}; with one {best:.2f}, at T = {temperature:g} and "
    "ε = {epsilon:g}."
)
_LEAVE_OUT = (
    "## What do the leave-out classifiers learn?\n\nMean AUC over the members, percent, of their own classes "
    "against others: the classes left out in training, on the training rows; the same classes on other rows "
    "(Seen-Val); classes new to all members (Seen-Val against Unseen-Val). The last rows: the same ensemble "
    "without perturbation, and without the margin loss."
)


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = _options.make_parser(
        "gates",
        "Fit every gate on the same two experts and measure how well it tells samples of seen classes from\n"
        "samples of unseen ones.",
        _EPILOG.format(gates=_options.list_choices(GATES)),
    )
    _options.add_dataset_options(options)
    add = _options.add_expert_options(options)
    add("--gates", nargs="+", choices=list(GATES), metavar="NAME",
        help="gates to compare (default: all that the unseen expert allows)")  # fmt: skip
    add("--folds", type=int, default=3, metavar="K",
        help="fit the confidence and evidence gates also on K hold-out rounds, so that every seen class is "
        "held out once (default %(default)s; 1: do not)")  # fmt: skip
    add = _options.group(options, "output")
    add("--cache", default=_options.CACHE, metavar="DIR",
        help="folder for the predictions of trained experts (default %(default)s)")  # fmt: skip
    add("--out", metavar="DIR", help="folder to write to (default cosmo-runs/DATASET)")
    add("--write", metavar="FILE", help="write the tables as Markdown, too")
    _options.add_quiet(add)
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
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
        seen = make_seen_expert(args.seen)
        gaps = leave_out_gaps(experts) if "leave-out" in names else {}
        results = compare_gates(experts, seen, expert, names, folds=args.folds)
        tables, sections = [gate_table(results)], [_GATES, gate_table(results, descriptions=True).markdown()]
        if "odin" in names:
            auc = odin_auc(experts, seen, expert)
            tables.append(odin_table(auc))
            sections += [_odin_text(auc), tables[-1].markdown()]
        if gaps:
            tables.append(leave_out_table(gaps))
            sections += [_LEAVE_OUT, tables[-1].markdown()]
        picture = io.BytesIO()
        plot_gates(results, title=f"{dataset.name}: gate scores on test").savefig(picture, dpi=150)
        write_atomic(out / "gates.png", picture.getvalue())
    frame = pd.DataFrame([{"gate": one.name, **one.measures} for one in results])
    write_atomic(out / "gates.csv", frame.to_csv(index=False).encode())
    console = PlainConsole()
    for table in tables:
        console.print_table(table)
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
        document = [f"# {dataset.name}: gates", f"Written by `{command}`.", *sections]
        write_atomic(Path(args.write), ("\n\n".join(document) + "\n").encode())
        console.print(f"table: {args.write}")
    return 0


def _odin_text(auc: pd.DataFrame) -> str:
    still, perturbed = auc.loc[0.0], auc.drop(index=0.0)
    return _ODIN.format(
        still=still.max(),
        still_temperature=still.idxmax(),
        best=perturbed.to_numpy().max(),
        temperature=perturbed.max(axis=0).idxmax(),
        epsilon=perturbed.max(axis=1).idxmax(),
    )
