"""`cosmo compare`: train many zero-shot experts and show them side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from cosmo._core import require
from cosmo._core.cache import Cache
from cosmo._core.files import write_atomic
from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.data import GZSLDataset
from cosmo.evaluation.compare import Candidate, CandidateResult, compare
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS, UnseenExpert, make_seen_expert, make_unseen_expert
from cosmo.experts._generative import GenerativeExpert
from cosmo.viz.page import comparison_view, render_page
from cosmo.viz.text import TextTable, comparison_document, comparison_table

_EPILOG = """\
methods (--methods); parameters or a preset may follow a colon:
  {methods}

Trained experts are stored in --cache: a run that was stopped resumes, and a method that is added later is
the only one trained. Each of --jobs processes has one thread. On a cluster (--engine dask --scheduler
ADDRESS), --cache must be on storage that all machines share.

examples:
  cosmo compare
  cosmo compare xlsa17/CUB --features res50 --seed 1002
  cosmo compare xlsa17/CUB --features res50 --descriptions att_splits sent_splits --write docs/results/cub.md
  cosmo compare --methods eszsl lago lago:variant=singletons "dem:CUB"
"""

GENERATIVE = tuple(name for name, kind in UNSEEN_EXPERTS.items() if issubclass(kind, GenerativeExpert))
ALL = (
    # "similarity" is for descriptions in the space of the samples, which the benchmark's are not.
    *(name for name in UNSEEN_EXPERTS if name not in (*GENERATIVE, "similarity")),
    *(f"lago:variant={variant}" for variant in ("semantic-hard", "singletons", "k-soft")),
)
_GROUPS = {"all": ALL, "generative": GENERATIVE}


def parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "compare",
        "Train many zero-shot experts and show each alone, with calibrated stacking (CS) and inside COSMO,\n"
        "beside published figures. Every choice is made on held-out training data.",
        _EPILOG.format(methods=", ".join(UNSEEN_EXPERTS)),
    )
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


def run(args: argparse.Namespace) -> int:
    _options.check_dataset(args.dataset)
    methods = [name for word in args.methods for name in _GROUPS.get(word, (word,))]
    experts = {name: make_unseen_expert(name) for name in dict.fromkeys(methods)}
    name = Path(args.dataset).resolve().name
    out = _options.output_folder(args, "-compare")
    _options.check_document(args.write)
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
        command = _options.command_line(
            "compare",
            name,
            features=args.features if args.dataset != "glyphs" else None,
            descriptions=[*tables] if [*tables] not in (["att_splits"], ["attributes"]) else None,
            methods=args.methods if args.methods != ["all"] else None,
            seen=args.seen if args.seen != "logistic" else None,
            roots=args.roots,
            attributes=Path(args.attributes).name if args.attributes else None,
            seed=args.seed,
        )
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
