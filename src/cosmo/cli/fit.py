"""`cosmo fit`: train a model on your own samples."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cosmo.cli._console import plain_console, progress
from cosmo.cli._samples import add_project_options, project_of
from cosmo.cli._workers import add_worker_options, workers_from
from cosmo.cli.experts import expert_name
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS
from cosmo.gates import GATES
from cosmo.io.model import Model, card_text

_EPILOG = """\
unseen experts (--unseen): {unseen}
seen experts (--seen): {seen}
gates (--gate): {gates}
`cosmo experts` explains them.

examples:
  cosmo fit                         the project in this folder
  cosmo fit birds.csv --label species --descriptions species.csv --out birds.cosmo
  cosmo fit requests.csv --text request --label intent --descriptions intents.json
  cosmo fit pictures --descriptions attributes.csv --unseen lago --gate evidence

A training that was stopped goes on where it was (--cache). Equal samples, options and seeds give equal files.

Many texts or pictures can be encoded by --jobs processes, or on a cluster: --engine dask --scheduler ADDRESS,
with --cache, and the pictures, on storage that all machines share.
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo fit",
        description="Train on labelled samples and descriptions of all classes; write the model to a file.\n"
        "Classes that are described but have no samples are recognised, too.",
        epilog=_EPILOG.format(
            unseen=", ".join(UNSEEN_EXPERTS), seen=", ".join(SEEN_EXPERTS), gates=", ".join(GATES)
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_project_options(options)
    add = options.add_argument
    add("--unseen", type=expert_name, metavar="NAME",
        help="expert for classes by description (default: chosen by the kind of descriptions)")  # fmt: skip
    add("--seen", choices=list(SEEN_EXPERTS), metavar="NAME",
        help="expert for classes with samples (default: logistic; logistic-unit for texts)")  # fmt: skip
    add("--gate", choices=list(GATES), metavar="NAME",
        help="what tells samples of the ones from those of the others (default: confidence)")  # fmt: skip
    add("--seed", type=int, help="draws what is held out (default 0)")
    add("--jobs", type=int, metavar="N",
        help="processes that encode texts and pictures (default: this one)")  # fmt: skip
    add_worker_options(options)
    add("--out", default="model.cosmo", metavar="FILE", help="where to write (default %(default)s)")
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    project = project_of(args)
    out = Path(args.out)
    if out.is_dir() or not out.parent.is_dir():
        raise ValueError(
            f"--out {out}: " + ("a folder; name a file" if out.is_dir() else "there is no such folder")
        )
    workers = None  # this process with all its threads
    if args.engine == "dask" or args.scheduler is not None or args.jobs is not None:
        args.jobs = args.jobs if args.jobs is not None else os.cpu_count() or 1
        workers = workers_from(args)
    with progress(quiet=args.quiet) as step:
        step(f"reading {project.samples} and {project.descriptions}")
        data = project.load()
        step(f"{len(data.train)} samples ({data.kind}), {len(data.descriptions)} classes described")
        model = project.fit(
            data, cache=args.cache, on_error="skip" if args.skip else "raise", workers=workers
        )
        model.save(out)
        step(f"wrote {out}, {out.stat().st_size / 1000:.0f} kB")
    print_fit(model)
    return 0


def print_fit(model: Model) -> None:
    """Print what was chosen, and how good it is on what was held out in training."""
    card = model.card()
    console = plain_console(highlight=False, soft_wrap=True)
    shown = (
        "seen classes",
        "unseen classes",
        "seen expert",
        "unseen expert",
        "chosen",
        "gate",
        "operating point",
    )
    console.print(card_text({name: card[name] for name in shown}))
    validation = card["validation"]
    console.print(
        "\nValidation, on classes that played unseen and on other samples of the rest, in percent:\n"
        f"Acc_ts {100 * validation['acc_ts']:.1f} (unseen), Acc_tr {100 * validation['acc_tr']:.1f} (seen), "
        f"Acc_H {100 * validation['acc_h']:.1f}, AUSUC {100 * validation['ausuc']:.1f}"
    )
