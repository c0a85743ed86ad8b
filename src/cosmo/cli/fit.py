"""`cosmo fit`: train a model on your own samples."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cosmo.cli import _options
from cosmo.cli._output import PlainConsole, progress
from cosmo.data import read_descriptions
from cosmo.encoders import make_encoder
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS, make_unseen_expert
from cosmo.gates import GATES
from cosmo.io.model import Model, fit_model
from cosmo.io.model_file import card_text

_PRINTED = (
    "seen classes",
    "unseen classes",
    "seen expert",
    "unseen expert",
    "transform",
    "chosen",
    "method",
    "gate",
    "operating point",
)


def fit_parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "fit", unseen=", ".join(UNSEEN_EXPERTS), seen=", ".join(SEEN_EXPERTS), gates=", ".join(GATES)
    )
    _options.add_project_options(options)
    options.add_argument("--zero-shot", action="store_true",
        help="without samples: predict the nearest description, by an encoder of both")  # fmt: skip
    add = _options.group(options, "experts and gates")
    _options.add_chosen_experts(add)
    add("--gate", choices=list(GATES), metavar="NAME",
        help="gate of the paper's method (default: confidence)")  # fmt: skip
    add("--seed", type=int, help="seed of the validation split (default 0)")
    _options.add_worker_options(
        options, "processes that encode texts and pictures and run hold-out rounds", default=False
    )
    add = _options.group(options, "output")
    add("--out", default="model.cosmo", metavar="FILE", help="file to write (default %(default)s)")
    _options.add_quiet(add)
    return options


def run_fit(args: argparse.Namespace) -> int:
    out = Path(args.out)
    if out.is_dir() or not out.parent.is_dir():
        reason = "a folder; name a file" if out.is_dir() else "there is no such folder"
        raise ValueError(f"--out {out}: {reason}")
    if args.zero_shot:
        return _fit_zero_shot(args, out)
    project = _options.load_project(args)
    workers = None  # this process with all its threads
    if args.engine == "dask" or args.scheduler is not None or args.jobs is not None:
        args.jobs = args.jobs if args.jobs is not None else os.cpu_count() or 1
        workers = _options.make_workers(args)
    with progress(quiet=args.quiet) as step:
        step(f"reading {project.samples} and {project.descriptions}")
        data = project.load()
        step(f"{len(data.train)} samples ({data.kind}), {len(data.descriptions)} classes described")
        model = project.fit(
            data,
            cache=args.cache,
            on_error="skip" if args.skip else "raise",
            workers=workers,
            n_jobs=args.jobs,
            report=step.report,
        )
        model.save(out)
        step(f"wrote {out}, {out.stat().st_size / 1000:.0f} kB")
    _print(model)
    return 0


def _fit_zero_shot(args: argparse.Namespace, out: Path) -> int:
    if args.descriptions is None:
        raise ValueError("--zero-shot needs --descriptions FILE, a sentence for each class")
    with progress(quiet=args.quiet) as step:
        encoder = make_encoder(args.encoder or "minilm", weights=args.weights)
        unseen = None if args.unseen in (None, "auto") else make_unseen_expert(args.unseen)
        model = fit_model([], [], read_descriptions(args.descriptions), encoder=encoder, unseen=unseen)
        model.summary["kind"] = encoder.kind
        model.save(out)
        step(f"wrote {out}, {out.stat().st_size / 1000:.0f} kB")
    print(f"{len(model.classes)} classes by their descriptions; nothing was trained")
    return 0


def _print(model: Model) -> None:
    card = model.card()
    console = PlainConsole()
    console.print(card_text({name: card[name] for name in _PRINTED}))
    validation = card["validation"]
    if "expected, 90 %" in card:
        figures = {
            name: f"{100 * one['mean']:.1f} ({100 * one['low']:.0f} to {100 * one['high']:.0f})"
            for name, one in card["expected, 90 %"].items()
        }
        heading = "Expected on new samples, in percent, with 90 % intervals that allow for new classes:"
    else:
        figures = {name: f"{100 * validation[name]:.1f}" for name in ("acc_ts", "acc_tr", "acc_h")}
        heading = "Validation, on held-out classes and on other samples of the remaining ones, in percent:"
    console.print(
        f"\n{heading}\nnew classes (Acc_ts) {figures['acc_ts']}, known classes (Acc_tr) {figures['acc_tr']}, "
        f"balanced (Acc_H) {figures['acc_h']}; AUSUC on held-out samples {100 * validation['ausuc']:.1f}"
    )
