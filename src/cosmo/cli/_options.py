"""Options that several commands share, and the objects that they name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from cosmo._core import require
from cosmo._core.parallel import CLUSTER_ADVICE, Workers
from cosmo.classifier._cosmo import METHODS
from cosmo.classifier.choice import AUTO
from cosmo.cli._output import Progress
from cosmo.data import DataError, GZSLDataset, load_glyphs, read_xlsa17
from cosmo.data.samples import Kind, SampleSet, read_samples
from cosmo.encoders import extract, make_encoder
from cosmo.experts import SEEN_EXPERTS, UnseenExpert, make_seen_expert, make_unseen_expert
from cosmo.io.model import Model
from cosmo.io.project import Project, read_project

CACHE = "cosmo-runs/cache"
_FILE = "cosmo.toml"

RAW: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter}
"""Option of a parser that prints its texts as they are."""

Add = Callable[..., argparse.Action]


def make_parser(command: str, **values: str) -> argparse.ArgumentParser:
    """Return the parser of a command with its texts in `help/`, where `{name}` becomes a value."""
    text = files("cosmo.cli").joinpath("help", f"{command}.txt").read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    description, _, epilog = text.partition("\n\n")
    return argparse.ArgumentParser(prog=f"cosmo {command}", description=description, epilog=epilog, **RAW)


def group(parser: argparse.ArgumentParser, title: str) -> Add:
    """Begin a group of options and return the function that adds one."""
    return parser.add_argument_group(title).add_argument


def add_quiet(add: Add, help: str = "show no progress") -> None:
    """Add -q."""
    add("-q", "--quiet", action="store_true", help=help)


def list_choices(entries: dict[str, str]) -> str:
    """Return names and descriptions as lines of a help page."""
    return "\n".join(f"  {name:<16} {text}" for name, text in entries.items())


def add_output_options(parser: argparse.ArgumentParser, out: str) -> None:
    """Add --cache, --out, --write and -q, for commands that compare experts."""
    add = group(parser, "output")
    add("--cache", default=CACHE, metavar="DIR",
        help="folder for the predictions of trained experts (default %(default)s)")  # fmt: skip
    add("--out", metavar="DIR", help=out)
    add("--write", metavar="FILE", help="write the tables as Markdown, too")
    add_quiet(add)


def add_worker_options(parser: argparse.ArgumentParser, jobs: str, *, default: bool = True) -> None:
    """Add --jobs, --engine, --scheduler and --worker-timeout."""
    add = group(parser, "computation")
    usual = "one for each processor, %(default)s" if default else "this process"
    add("--jobs", type=int, default=os.cpu_count() or 1 if default else None, metavar="N",
        help=f"{jobs} (default: {usual})")  # fmt: skip
    add("--engine", choices=["local", "dask"], default="local",
        help="run tasks on this machine or on a Dask cluster (default %(default)s)")  # fmt: skip
    add("--scheduler", metavar="ADDRESS",
        help="Dask scheduler: tcp://HOST:PORT, tls://..., a scheduler file, or 'local' for --jobs processes "
        "on this machine (default: Dask's configuration)")  # fmt: skip
    add("--worker-timeout", type=float, default=600.0, metavar="SECONDS",
        help="how long to wait while the Dask cluster has no workers (default %(default)g)")  # fmt: skip


def make_workers(args: argparse.Namespace) -> Workers:
    """Return the workers that the options describe."""
    if args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {args.jobs}")
    if not args.worker_timeout > 0:
        raise ValueError(f"--worker-timeout must be above 0, got {args.worker_timeout:g}")
    if args.engine == "local":
        if args.scheduler is not None:
            raise ValueError(f"--scheduler {args.scheduler} needs a Dask cluster: add --engine dask")
        return Workers(args.jobs)
    scheduler = args.scheduler or require("distributed").client.dask.config.get("scheduler-address", None)
    if scheduler is None:
        raise ValueError(f"--engine dask needs a cluster: {CLUSTER_ADVICE}")
    return Workers(args.jobs, scheduler, args.worker_timeout)


# --- benchmark data sets and experts ---


def add_dataset_options(parser: argparse.ArgumentParser, *, tables: bool = False) -> Add:
    """Add DATASET and what to read of a folder; with `tables`, several files of descriptions."""
    parser.add_argument("dataset", nargs="?", default="glyphs", metavar="DATASET",
        help="'glyphs' (built in, default) or a folder in xlsa17 layout")  # fmt: skip
    add = group(parser, "data set")
    add("--features", default="res101", metavar="NAME",
        help="features file of the folder, without .mat (default %(default)s)")  # fmt: skip
    if tables:
        add("--descriptions", nargs="+", default=["att_splits"], metavar="NAME",
            help="descriptions files of the folder, without .mat; one table each")  # fmt: skip
    else:
        add("--descriptions", default="att_splits", metavar="NAME",
            help="descriptions file of the folder, without .mat (default %(default)s)")  # fmt: skip
    add("--attributes", metavar="FILE",
        help="text file with the names of the attributes, one group::attribute per line (built in for CUB, "
        "AWA and SUN)")  # fmt: skip
    add("--roots", action="store_true", help="use square roots of the features, which must not be negative")
    add("--seed", type=int, default=0,
        help="seed of the validation split and of 'glyphs' (default %(default)s)")  # fmt: skip
    return add


def add_expert_options(parser: argparse.ArgumentParser, *, unseen: bool = True) -> Add:
    """Add --seen and, unless the command has many of them, --unseen."""
    add = group(parser, "experts and gates")
    if unseen:
        add("--unseen", default="eszsl", type=expert_name, metavar="NAME",
            help="zero-shot expert, such as lago or lago:variant=k-soft (default %(default)s)")  # fmt: skip
    add("--seen", default="logistic", choices=list(SEEN_EXPERTS), metavar="NAME",
        help="expert for classes with examples (default %(default)s)")  # fmt: skip
    return add


def add_chosen_experts(add: Add) -> None:
    """Add --unseen, --seen, --budget and --method, for commands that can choose experts by themselves."""
    add("--unseen", type=_or_auto(make_unseen_expert), metavar="NAME",
        help="zero-shot expert, such as lago or lago:variant=k-soft, or auto: the best of some on held-out "
        "classes (default: auto, if --seen is not given)")  # fmt: skip
    add("--seen", type=_or_auto(make_seen_expert), metavar="NAME",
        help="expert for classes with samples, or a classifier of scikit-learn such as "
        "sklearn.ensemble.RandomForestClassifier:n_estimators=200, or auto (default: auto, if --unseen is "
        "not given)")  # fmt: skip
    add("--budget", type=seconds, metavar="TIME",
        help="computation for the candidates of auto, such as 60s or 2min (default 60s)")  # fmt: skip
    add("--method", choices=list(METHODS),
        help="how experts and gate are combined: calibrated probabilities, or as in the paper (default: "
        "calibrated)")  # fmt: skip


def seconds(text: str) -> float:
    """Return a duration in seconds, for argparse.

    >>> seconds("90"), seconds("60s"), seconds("2min")
    (90.0, 60.0, 120.0)
    """
    number, factor = (text[:-3], 60) if text.endswith("min") else (text.removesuffix("s"), 1)
    value = float(number) * factor
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def expert_name(text: str, make: Callable[[str], Any] = make_unseen_expert) -> str:
    """Return the name of an expert if it is valid, for argparse."""
    try:
        make(text)
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _or_auto(make: Callable[[str], Any]) -> Callable[[str], str]:
    return lambda text: text if text == AUTO else expert_name(text, make)


def check_dataset(name: str) -> None:
    """Raise unless the data set exists."""
    if name != "glyphs" and not Path(name).is_dir():
        raise ValueError(f"{name!r} is neither 'glyphs' nor a folder")


def load_dataset(
    args: argparse.Namespace,
    expert: UnseenExpert,
    *,
    descriptions: str | None = None,
    original: bool = False,
    seed: int | None = None,
) -> GZSLDataset:
    """Return the data set, with original attributes if they are wanted or the expert needs them."""
    if args.dataset == "glyphs":
        dataset = load_glyphs(seed=args.seed if seed is None else seed)
    else:
        names = {"features": args.features, "descriptions": descriptions or args.descriptions}
        read = partial(read_xlsa17, args.dataset, **names, attributes=args.attributes)
        try:
            dataset = read(original=original or expert.as_recorded)
        except DataError:
            if original or not expert.as_recorded:
                raise
            dataset = read()  # the expert raises an error if it cannot use them
    return dataset.with_roots() if args.roots else dataset


# --- samples, projects and models ---


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, --weights and --trust."""
    parser.add_argument("model", metavar="MODEL", help="file that `cosmo fit` wrote")
    _add_weights(parser.add_argument)
    add_trust(parser.add_argument)


def add_trust(add: Add) -> None:
    """Add --trust."""
    add("--trust", action="extend", nargs="+", default=[], metavar="TYPE",
        help="types to load from the file, such as own experts (`cosmo show` lists them)")  # fmt: skip


def add_sample_options(parser: argparse.ArgumentParser, *, skip: bool = True) -> Add:
    """Add the columns and files of samples and labels."""
    add = group(parser, "samples")
    add("--label", metavar="COLUMN", help="column of the class (default: label or class)")
    add("--labels", metavar="FILE", help="labels of an .npy file, one per row")
    add("--text", metavar="COLUMN", help="samples are texts in this column")
    add("--image", metavar="COLUMN", help="samples are pictures with their paths in this column")
    if skip:
        add("--skip", action="store_true", help="skip texts and pictures that cannot be read")
    add("--cache", default=CACHE, metavar="DIR",
        help="folder for the features of texts and pictures (default %(default)s)")  # fmt: skip
    return add


def add_project_options(parser: argparse.ArgumentParser) -> None:
    """Add SAMPLES and the options that override a project file."""
    parser.add_argument("samples", nargs="?", default=".", metavar="SAMPLES",
        help="a project file or its folder (default: here), a table, .npz, .npy, or a folder with one folder "
        "of pictures per class")  # fmt: skip
    add = add_sample_options(parser)
    add("--descriptions", metavar="FILE",
        help="attributes or a sentence for each class: CSV, Parquet or JSON")  # fmt: skip
    add("--kind", choices=["features", "text", "images"], help="kind of the samples, if it is ambiguous")
    add("--features", nargs="+", metavar="COLUMN",
        help="feature columns, or one prefix such as 'f*' (default: all numeric columns)")  # fmt: skip
    add("--encoder", metavar="NAME",
        help="for texts: minilm, sentence:NAME; for pictures: efficientnet-lite0, timm:NAME")  # fmt: skip
    _add_weights(add)


def _add_weights(add: Add) -> None:
    add("--weights", metavar="PATH", help="file or folder with the weights of the encoder")


def load_project(args: argparse.Namespace) -> Project:
    """Return the project that the options name."""
    path = Path(args.samples)
    names = {field.name for field in fields(Project)} - {"samples"}
    given: dict[str, Any] = {name: getattr(args, name, None) for name in names}
    for name in ("descriptions", "labels", "weights", "test"):
        given[name] = None if given[name] is None else Path(given[name])
    if args.features:
        prefix = args.features[0].removesuffix("*") if len(args.features) == 1 else args.features[0]
        given["features"] = prefix if prefix != args.features[0] else tuple(args.features)
    file = _project_file(path)
    if file is not None:
        return read_project(file).with_options(**given)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    _check_here(path)
    if given["descriptions"] is None:
        raise DataError(
            f"{path} has no project file: name the descriptions of the classes by --descriptions FILE"
        )
    return Project(samples=path, **{name: value for name, value in given.items() if value is not None})


def load_model(args: argparse.Namespace) -> Model:
    """Return the model that the options name."""
    if Path(args.model).suffix == ".toml" or Path(args.model).is_dir():
        raise DataError(f"{args.model} is not a model; `cosmo fit` writes one")
    model = Model.load(args.model, trusted=args.trust)
    if args.weights is not None:
        if model.encoder_name is None:
            raise ValueError(f"{args.model} takes feature rows and has no encoder: leave out --weights")
        encoder = make_encoder(model.encoder_name, weights=args.weights)
        return Model.load(args.model, encoder=encoder, trusted=args.trust)
    return model


def load_samples(args: argparse.Namespace, model: Model, *, test: bool = False) -> SampleSet:
    """Return the samples that the options name; of a project, its samples or its test samples.

    Columns are those of the training unless others are named.
    """
    path = Path(args.samples)
    file = _project_file(path)
    if file is not None:
        project = read_project(file)
        if not test:
            return project.read(project.samples)
        held_out = project.load().test
        if held_out is None:
            raise DataError(f"{file} names no test samples: set test, test_share or hold_back in it")
        return held_out
    _check_here(path)
    columns: dict[str, str] = model.summary.get("columns", {})
    kind = _kind(args, model)
    options: dict[str, Any] = {
        name: getattr(args, name) or columns.get(name) for name in ("label", "text", "image")
    }
    options["labels"] = args.labels
    options["features"] = None if model.feature_names is None else tuple(model.feature_names)
    try:
        return read_samples(path, kind, **options)
    except DataError:
        if test or args.label is not None:
            raise
        return read_samples(path, kind, **{**options, "label": None})  # labels are not needed


def encode_samples(
    args: argparse.Namespace,
    model: Model,
    samples: SampleSet,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Any, SampleSet]:
    """Return feature rows for the model, and the samples that could be read."""
    if isinstance(samples.items, pd.DataFrame | np.ndarray):
        return model.encode(samples.items), samples
    on_error: Literal["skip", "raise"] = "skip" if getattr(args, "skip", False) else "raise"
    result = extract(model.encoder, samples.items, cache=args.cache, on_error=on_error, report=report)
    return model.encode(result.features), samples if len(result.rows) == len(samples) else samples.take(
        result.rows
    )


def load_rows(
    args: argparse.Namespace, step: Progress, *, test: bool = False
) -> tuple[Model, Any, SampleSet]:
    """Return the model, feature rows of the samples and the samples; with `test`, they must have labels."""
    model = load_model(args)
    samples = load_samples(args, model, test=test)
    if test:
        samples.require_labels(args.samples)
    step(f"{args.model} on {len(samples)} samples")
    return model, *encode_samples(args, model, samples, step.report)


def _kind(args: argparse.Namespace, model: Model) -> Kind:
    kind: Kind | None = model.summary.get("kind")
    if kind is not None:
        return kind
    if args.text:
        return "text"
    if args.image or Path(args.samples).is_dir():
        return "images"
    return "features" if model.encoder_name is None else model.encoder.kind


def _check_here(path: Path) -> None:
    if path.resolve() == Path.cwd():
        raise DataError(f"there is no {_FILE} here; `cosmo init` writes one, or name a file of samples")


def _project_file(path: Path) -> Path | None:
    if path.suffix == ".toml":
        return path
    return path / _FILE if (path / _FILE).is_file() else None
