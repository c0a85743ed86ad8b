"""Samples, projects and models that commands work on: their options, and how they are read."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from cosmo.data import DataError
from cosmo.data.samples import Kind, SampleSet, read_samples
from cosmo.encoders import make_encoder
from cosmo.io.model import Model
from cosmo.io.project import Project, model_rows, read_project

__all__ = [
    "add_model_option",
    "add_project_options",
    "add_sample_options",
    "load_model",
    "project_of",
    "rows_of",
    "samples_of",
]

_FILE = "cosmo.toml"
_CACHE = "cosmo-runs/cache"


def add_model_option(options: argparse.ArgumentParser) -> None:
    """Add MODEL, and where the weights of its encoder are."""
    options.add_argument("model", metavar="MODEL", help="file that `cosmo fit` wrote")
    _add_weights(options)


def add_sample_options(options: argparse.ArgumentParser, *, skip: bool = True) -> None:
    """Add the options that say where in a file samples and labels are, and what may be skipped."""
    add = options.add_argument
    add("--label", metavar="COLUMN", help="column of the class (default: label or class)")
    add("--labels", metavar="FILE", help="labels that go with an .npy, one for each row")
    add("--text", metavar="COLUMN", help="the samples are texts, in this column")
    add("--image", metavar="COLUMN", help="the samples are pictures, with their paths in this column")
    if skip:
        add("--skip", action="store_true", help="leave out texts and pictures that cannot be read")
    add("--cache", default=_CACHE, metavar="DIR",
        help="where features of texts and pictures are kept (default %(default)s)")  # fmt: skip


def add_project_options(options: argparse.ArgumentParser) -> None:
    """Add SAMPLES and the options that say what a project file says, or override it."""
    add = options.add_argument
    add("samples", nargs="?", default=".", metavar="SAMPLES",
        help="a project file or its folder (default: here), a table, an .npz, an .npy, "
        "or a folder with a folder of pictures for each class")  # fmt: skip
    add("--descriptions", metavar="FILE", help="numbers or a sentence for each class: CSV, Parquet or JSON")
    add("--kind", choices=["features", "text", "images"], help="what the samples are, if it is not clear")
    add("--features", nargs="+", metavar="COLUMN",
        help="columns to learn from, or one word such as 'f*' for all that begin so (default: all numbers)"
        )  # fmt: skip
    add("--encoder", metavar="NAME",
        help="of texts: minilm, sentence:NAME; of pictures: efficientnet-lite0, timm:NAME, ...")  # fmt: skip
    _add_weights(options)
    add_sample_options(options)


def project_of(args: argparse.Namespace) -> Project:
    """Return the project that the options name."""
    path = Path(args.samples)
    names = {field.name for field in fields(Project)} - {"samples"}
    given: dict[str, Any] = {name: getattr(args, name, None) for name in names}
    for name in ("descriptions", "labels", "weights", "test"):
        given[name] = None if given[name] is None else Path(given[name])
    if args.features:
        start = args.features[0].removesuffix("*") if len(args.features) == 1 else args.features[0]
        given["features"] = start if start != args.features[0] else tuple(args.features)
    file = _project_file(path)
    if file is not None:
        return read_project(file).with_options(**given)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    _check_here(path)
    if given["descriptions"] is None:
        raise DataError(f"{path} comes without a project: say by --descriptions FILE what the classes are")
    return Project(samples=path, **{name: value for name, value in given.items() if value is not None})


def load_model(args: argparse.Namespace) -> Model:
    """Return the model that the options name."""
    if Path(args.model).suffix == ".toml" or Path(args.model).is_dir():
        raise DataError(f"{args.model} is not a model; `cosmo fit` writes one")
    model = Model.load(args.model)
    if args.weights is not None:
        if model.encoder_name is None:
            raise ValueError(f"{args.model} takes feature rows and has no encoder: leave out --weights")
        return Model.load(args.model, encoder=make_encoder(model.encoder_name, weights=args.weights))
    return model


def samples_of(args: argparse.Namespace, model: Model, *, test: bool = False) -> SampleSet:
    """Return the samples that the options name, of the model's kind.

    Columns are those of the training unless others are named. A project stands for its samples, or, with
    `test`, for those that it holds back.
    """
    path = Path(args.samples)
    file = _project_file(path)
    if file is not None:
        project = read_project(file)
        if not test:
            return project.read(project.samples)
        held = project.load().test
        if held is None:
            raise DataError(
                f"{file} names no samples to evaluate with: set test, test_share or hold_back in it"
            )
        return held
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


def rows_of(args: argparse.Namespace, model: Model, samples: SampleSet) -> tuple[Any, SampleSet]:
    """Return samples as rows that the model takes, and those that could be read."""
    return model_rows(
        model, samples, cache=args.cache, on_error="skip" if getattr(args, "skip", False) else "raise"
    )


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


def _add_weights(options: argparse.ArgumentParser) -> None:
    options.add_argument("--weights", metavar="PATH", help="file or folder with the weights of the encoder")
