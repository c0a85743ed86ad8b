"""`cosmo gates`: which gate tells seen from unseen best."""

from __future__ import annotations

import argparse
import io
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from cosmo._core.cache import Cache
from cosmo._core.files import write_whole
from cosmo.cli._console import plain_console, progress
from cosmo.cli._dataset import add_dataset_options, check_dataset, load
from cosmo.cli.experts import expert_name
from cosmo.evaluation.gates import GateResult, study_gates, study_leave_out, study_pushes
from cosmo.evaluation.stages import Stages
from cosmo.experts import SEEN_EXPERTS, make_seen_expert, make_unseen_expert
from cosmo.gates import GATES
from cosmo.gates.leave_out import LeaveOutGap
from cosmo.viz.plots import plot_gates

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
    "ece": "ECE",
    "scaled_ece": "scaled",
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
    add("--folds", type=int, default=3, metavar="K",
        help="fit the confidence and evidence gates also on K hold-outs of classes, so that every seen class "
        "plays unseen once (default %(default)s; 1: not)")  # fmt: skip
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
        seen = make_seen_expert(args.seen)
        results = study_gates(stages, seen, expert, names, folds=args.folds)
        pushes = study_pushes(stages, seen) if "odin" in names else None
        gaps = study_leave_out(stages) if "leave-out" in names else None
        picture = io.BytesIO()
        plot_gates(results, title=f"{dataset.name}: gate scores on test").savefig(picture, dpi=150)
        write_whole(out / "gates.png", picture.getvalue())
    table = pd.DataFrame([{"gate": one.name, **one.measures} for one in results])
    write_whole(out / "gates.csv", table.to_csv(index=False).encode())
    sections = [_gates(results)]
    if pushes is not None:
        sections.append(_pushes(pushes))
    if gaps is not None:
        sections.append(_gaps(gaps))
    console = plain_console()
    for section in sections:
        console.print(section.terminal(dataset.name))
    console.print(f"histograms: {out / 'gates.png'}", soft_wrap=True)
    if args.write:
        write_whole(Path(args.write), _document(args, sections, dataset.name).encode())
        console.print(f"table: {args.write}", soft_wrap=True)
    return 0


@dataclass(frozen=True)
class _Section:
    """A table with its title, for the terminal, and its explanation, for the document."""

    title: str
    text: str
    columns: list[str]
    rows: list[list[str]]
    remarks: list[str] | None = None  # of each row, in the document only

    def terminal(self, name: str) -> Table:
        table = Table(title=Text(f"{name}: {self.title}"), box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
        for i, column in enumerate(self.columns):
            table.add_column(column, justify="right" if i else "left", no_wrap=not i)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> list[str]:
        remarks = self.remarks or []
        rows = [[*row, *remarks[i : i + 1]] for i, row in enumerate(self.rows)]
        head = [*self.columns, *([""] if remarks else [])]
        return [
            self.text,
            "",
            f"| {' | '.join(head)} |",
            "|---|" + "---:|" * (len(self.columns) - 1) + ("---|" if remarks else ""),
            *(f"| {' | '.join(row)} |" for row in rows),
        ]


def _gates(results: list[GateResult]) -> _Section:
    return _Section(
        "Gating-Val (H: GZSL-Val) and test, percent, no smoothing",
        "AUC and FPR95 (the share of unseen samples that are taken for seen where 95 % of the seen ones are) "
        "on Gating-Val and on test; ECE is the expected calibration error on Gating-Val of the score as a "
        'probability of "seen", also after a line through the scores was fitted on Gating-Train ("scaled"); '
        "H is Acc_H of the soft combination without smoothing, on GZSL-Val, where its threshold was chosen, "
        "and on test. Percent.",
        ["gate", *_COLUMNS.values()],
        [[one.name, *(f"{one.measures[key]:.1f}" for key in _COLUMNS)] for one in results],
        [one.about for one in results],
    )


def _pushes(auc: pd.DataFrame) -> _Section:
    still, pushed = auc.loc[0.0], auc.drop(index=0.0)
    epsilon, temperature = pushed.max(axis=1).idxmax(), pushed.max(axis=0).idxmax()
    return _Section(
        "ODIN, AUC on Gating-Val by size of the push ε and temperature, percent",
        "## Does ODIN's push help?\n\nAUC on Gating-Val for each size of the push ε, in units of each "
        "feature's spread, and each temperature T. Percent. "
        f"Without a push the best is {still.max():.2f}, at T = {still.idxmax():g}; with one "
        f"{pushed.to_numpy().max():.2f}, at T = {temperature:g} and ε = {epsilon:g}.",
        ["ε", *(f"T = {temperature:g}" for temperature in auc.columns)],
        [[f"{epsilon:g}", *(f"{value:.2f}" for value in auc.loc[epsilon])] for epsilon in auc.index],
    )


def _gaps(gaps: dict[str, LeaveOutGap]) -> _Section:
    return _Section(
        "members of the leave-out ensemble, AUC of own against other classes, percent",
        "## What do the leave-out classifiers learn to doubt?\n\nMean AUC over the members, percent, of the "
        "classes they know against others: the classes that they were trained to doubt, on the rows that "
        "they were trained on; the same classes on other rows (Seen-Val); classes that no member has met "
        "(Seen-Val against Unseen-Val). Below, the same ensemble when samples are not pushed, and without "
        "the loss that teaches doubt.",
        ["training", "left-out classes, trained rows", "left-out classes, fresh rows", "unmet classes"],
        [[name, *(f"{100 * value:.1f}" for value in gap)] for name, gap in gaps.items()],
    )


def _document(args: argparse.Namespace, sections: list[_Section], name: str) -> str:
    options = f"--features {args.features} " if args.dataset != "glyphs" else ""
    options += "--roots " if args.roots else ""
    if args.descriptions != "att_splits":
        options += f"--descriptions {args.descriptions} "
    command = f"cosmo gates {name} {options}--unseen {args.unseen} --seed {args.seed}"
    lines = [f"# {name}: gates", "", f"Written by `{command}`."]
    for section in sections:
        lines += ["", *section.markdown()]
    return "\n".join(lines) + "\n"
