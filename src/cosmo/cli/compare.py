"""`cosmo compare`, `gates` and `experts`: experts and gates side by side, and the list of experts."""

from __future__ import annotations

import argparse
import io
import json
import textwrap
from pathlib import Path
from typing import Any

import pandas as pd

from cosmo._core import require
from cosmo._core.cache import Cache
from cosmo._core.files import write_atomic
from cosmo.cli import _options, _output
from cosmo.cli._output import PlainConsole, progress
from cosmo.data import GZSLDataset
from cosmo.data.splits import Protocol
from cosmo.evaluation.compare import Candidate, CandidateResult, compare, compare_gates
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS, UnseenExpert, make_seen_expert, make_unseen_expert
from cosmo.experts._generative import GenerativeExpert
from cosmo.gates import GATES
from cosmo.viz.page import comparison_view, render_page
from cosmo.viz.text import TextTable, comparison_document, comparison_table, gate_document, gate_table

GENERATIVE = tuple(name for name, kind in UNSEEN_EXPERTS.items() if issubclass(kind, GenerativeExpert))
ALL = (
    # "similarity" is for descriptions in the space of the samples, which the benchmark's are not.
    *(name for name in UNSEEN_EXPERTS if name not in (*GENERATIVE, "similarity")),
    *(f"lago:variant={variant}" for variant in ("semantic-hard", "singletons", "k-soft")),
)
_GROUPS = {"all": ALL, "generative": GENERATIVE}
_NOTES = """
Parameters or a preset may follow the name of an unseen expert: lago:variant=k-soft,n_groups=40; dem:CUB
(published setting); f-clswgan:fast (for a CPU). Experts that need torch: pip install torch.
In Python, any scikit-learn classifier with predict_proba can be the seen expert."""


def compare_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("compare", methods=", ".join(UNSEEN_EXPERTS))
    _options.add_dataset_options(options, tables=True)
    add = _options.add_expert_options(options, unseen=False)
    add("--methods", nargs="+", default=["all"], metavar="NAME",
        type=lambda text: text if text in _GROUPS else _options.expert_name(text),
        help="zero-shot experts; 'all' (default): those that generate no features, and four variants of "
        "LAGO; 'generative': the others, which take longer")  # fmt: skip
    _options.add_worker_options(options, "experts trained at the same time")
    out = "folder for compare.csv and report.html (default cosmo-runs/DATASET-compare)"
    _options.add_output_options(options, out)
    return options


def run_compare(args: argparse.Namespace) -> int:
    _options.check_dataset(args.dataset)
    methods = [name for word in args.methods for name in _GROUPS.get(word, (word,))]
    experts = {name: make_unseen_expert(name) for name in dict.fromkeys(methods)}
    name = Path(args.dataset).resolve().name
    out = _output.output_folder(args, "-compare")
    _output.check_document(args.write)
    frames: dict[str, pd.DataFrame] = {}
    results: dict[str, list[CandidateResult]] = {}
    tables: dict[str, TextTable] = {}
    workers = _options.make_workers(args)
    with progress(quiet=args.quiet, hidden="cosmo.classifier") as step:
        for descriptions in args.descriptions if args.dataset != "glyphs" else ["attributes"]:
            step(f"loading {args.dataset}, {descriptions}")
            candidates, left_out = _candidates(args, experts, descriptions)
            if not candidates:
                reasons = "; ".join(f"{method}: {reason}" for method, reason in left_out.items())
                raise ValueError(f"no method can use {descriptions}: {reasons}")
            step(f"training {len(candidates)} experts")
            frame, results[descriptions] = compare(
                candidates,
                Cache(args.cache),
                seen=make_seen_expert(args.seen),
                seed=args.seed,
                workers=workers,
                report=step.report,
            )
            frames[descriptions] = frame
            title = (
                f"{name}, {descriptions}: test, percent, 95 % intervals; * as published, on other features"
            )
            tables[descriptions] = comparison_table(frame, title, left_out)
        step("writing the report")
        whole = pd.concat(frames, names=["descriptions"]).reset_index(level=0)
        write_atomic(out / "compare.csv", whole.to_csv(index=False).encode())
        write_atomic(out / "report.html", render_page(comparison_view(name, results, frames)).encode())
    console = PlainConsole()
    for table in tables.values():
        console.print_table(table)
    console.print(f"all figures: {out / 'compare.csv'}")
    console.print(f"report: {out / 'report.html'}")
    if args.write:
        given = {
            name: getattr(args, name) for name in ("features", "descriptions", "methods", "seen", "roots")
        }
        given |= {"attributes": args.attributes and Path(args.attributes).name, "seed": args.seed}
        command = _output.command_line(compare_parser(), [name], given)
        document = comparison_document(name, command, SEEN_EXPERTS[args.seen], tables, frames)
        write_atomic(Path(args.write), document.encode())
        console.print(f"tables: {args.write}")
    return 0


def _candidates(
    args: argparse.Namespace, experts: dict[str, UnseenExpert], descriptions: str
) -> tuple[list[Candidate], dict[str, str]]:
    """Return the methods that can use the descriptions, and why the others cannot."""
    candidates, left_out = [], {}
    loaded: dict[bool, GZSLDataset] = {}
    for name, expert in experts.items():
        if expert.as_recorded not in loaded:
            loaded[expert.as_recorded] = _options.load_dataset(args, expert, descriptions=descriptions)
        dataset = loaded[expert.as_recorded]
        title = f"{type(expert).__name__} {name.partition(':')[2].replace('variant=', '')}".strip()
        try:
            if expert.needs_torch:
                require("torch")
            expert.check_suitable(dataset.descriptions)
        except (ValueError, ImportError) as error:
            left_out[title] = str(error)
            continue
        # Published figures are for attributes, and of variants for the best one.
        is_published = descriptions == "att_splits" and "variant=" not in name
        candidates.append(Candidate(title, expert, dataset, type(expert).__name__ if is_published else ""))
    return candidates, left_out


def gates_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("gates", gates=_options.list_choices(GATES))
    _options.add_dataset_options(options)
    add = _options.add_expert_options(options)
    add("--gates", nargs="+", choices=list(GATES), metavar="NAME",
        help="gates to compare (default: all that the unseen expert allows)")  # fmt: skip
    add("--folds", type=int, default=3, metavar="K",
        help="fit the confidence and evidence gates also on K hold-out rounds, so that every seen class is "
        "held out once (default %(default)s; 1: do not)")  # fmt: skip
    _options.add_output_options(options, "folder to write to (default cosmo-runs/DATASET)")
    return options


def run_gates(args: argparse.Namespace) -> int:
    _options.check_dataset(args.dataset)
    expert = make_unseen_expert(args.unseen)
    out = _output.output_folder(args)
    _output.check_document(args.write)
    names = args.gates or [name for name in GATES if name != "novelty" or expert.detects_novelty]
    with progress(quiet=args.quiet) as step:
        step(f"loading {args.dataset}")
        dataset = _options.load_dataset(args, expert)
        step(f"training experts and gates on {dataset!r}")
        experts = ExpertCache(Protocol(dataset, seed=args.seed), Cache(args.cache))
        results = compare_gates(experts, make_seen_expert(args.seen), expert, names, folds=args.folds)
        from cosmo.viz.plots.walkthrough import plot_gates  # matplotlib is slow to import

        picture = io.BytesIO()
        plot_gates(results, title=f"{dataset.name}: gate scores on test").savefig(picture, dpi=150)
        write_atomic(out / "gates.png", picture.getvalue())
    frame = pd.DataFrame([{"gate": one.name, **one.measures} for one in results])
    write_atomic(out / "gates.csv", frame.to_csv(index=False).encode())
    console = PlainConsole()
    console.print_table(gate_table(results))
    console.print(f"histograms: {out / 'gates.png'}")
    if args.write:
        names = ("features", "roots", "descriptions", "unseen", "seed")
        given = {name: getattr(args, name) for name in names}
        command = _output.command_line(gates_parser(), [dataset.name], given)
        document = gate_document(dataset.name, command, results)
        write_atomic(Path(args.write), document.encode())
        console.print(f"table: {args.write}")
    return 0


def experts_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("experts")
    options.add_argument("--json", action="store_true", help="print as JSON")
    return options


def run_experts(args: argparse.Namespace) -> int:
    unseen: dict[str, dict[str, Any]] = {
        name: {
            "reference": expert.reference,
            "needs": f"{expert.needs}; torch" if expert.needs_torch else expert.needs,
            "output": "probabilities" if expert.native else "scores, soft-max with fitted temperature",
            "chosen on validation": [*expert.grid],
            "settings": [*expert.presets],
        }
        for name, expert in UNSEEN_EXPERTS.items()
    }
    if args.json:
        print(json.dumps({"unseen": unseen, "seen": SEEN_EXPERTS}, indent=2))
        return 0
    print("unseen experts, which recognise classes by description (--unseen):\n")
    for name, about in unseen.items():
        print(f"  {name:<9} {about['reference']}")
        details = [f"needs {about['needs']}", f"gives {about['output']}"]
        details.append(f"chosen on validation: {', '.join(about['chosen on validation'])}")
        if about["settings"]:
            details.append(f"settings: {', '.join(about['settings'])}")
        for detail in details:
            print(textwrap.fill(detail, 100, initial_indent=" " * 12, subsequent_indent=" " * 14))
    print("\nseen experts, which classify classes with examples (--seen):\n")
    for name, text in SEEN_EXPERTS.items():
        print(f"  {name:<9} {text}")
    print(_NOTES)
    return 0
