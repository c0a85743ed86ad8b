"""`Project`: inputs and choices of a training, read from `cosmo.toml`."""

from __future__ import annotations

import difflib
import io
import logging
import tomllib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self, get_args
from zipfile import ZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core import missing_extras
from cosmo._core.parallel import Workers
from cosmo.classifier._cosmo import METHODS
from cosmo.classifier.choice import AUTO, named_experts
from cosmo.data.check import suggest_expert
from cosmo.data.dataset import DataError
from cosmo.data.samples import Kind, ProjectData, SampleSet, read_samples
from cosmo.data.tables import match_labels, match_texts, read_descriptions
from cosmo.encoders import Encoder, extract, make_encoder, missing_packages
from cosmo.experts import make_unseen_expert
from cosmo.gates import make_gate
from cosmo.io.model import Model, fit_model

logger = logging.getLogger(__name__)

_ENCODERS: dict[str, str] = {"text": "minilm", "images": "efficientnet-lite0"}
_PATHS = ("samples", "descriptions", "labels", "weights", "test")


#: Kinds of example projects; their files are in the folder `cosmo/data/starters`.
STARTERS = {
    "features": "fruit by measurements; described by attributes in groups",
    "text": "requests to a small shop; described by a sentence each",
    "images": "pictures of signs; described by attributes in groups",
}


@dataclass(frozen=True)
class Project:
    """Inputs and choices of a training; `read_project` reads them from a file.

    Parameters
    ----------
    samples : path
        A table, an `.npz` or `.npy`, or a folder with a folder of images for each class.
    descriptions : path
        See `cosmo.data.read_descriptions`.
    kind : {"features", "text", "images"}, optional
        Kind of the samples. By default images if `samples` is a folder or `image` is given, text if `text`
        is given, else features.
    label, text, image : str, optional
        Columns of classes, texts and paths of images, unless they have one of the usual names.
    labels : path, optional
        Labels of the rows of an `.npy`.
    features : str or list of str, optional
        Columns of features, or a prefix of their names.
    encoder : str, optional
        Encoder of texts, images or descriptions in words, see `cosmo.encoders.make_encoder`.
    weights : path, optional
        Weights of the encoder.
    seen, unseen : str, optional
        Experts by name. By default "auto": chosen on held-out classes; if one is given, and with the paper's
        method, by the kind of samples and descriptions.
    method : {"calibrated", "paper"}, default="calibrated"
        See `cosmo.Cosmo`.
    gate : str, optional
        Gate of the paper's method by name; by default "confidence".
    test : path, optional
        Labelled samples to evaluate with, in the form of `samples`.
    test_share : float, default=0.0
        Share of the samples of each class to hold out for the test, instead of `test`.
    hold_back : list of class labels, default=()
        Classes whose samples are all held out for the test, as unseen classes.
    seed : int, default=0
    budget : float, default=60.0
        See `cosmo.Cosmo`.
    """

    samples: Path
    descriptions: Path
    kind: Kind | None = None
    label: str | None = None
    text: str | None = None
    image: str | None = None
    labels: Path | None = None
    features: str | tuple[str, ...] | None = None
    encoder: str | None = None
    weights: Path | None = None
    seen: str | None = None
    unseen: str | None = None
    method: Literal["calibrated", "paper"] = "calibrated"
    gate: str | None = None
    test: Path | None = None
    test_share: float = 0.0
    hold_back: tuple[Hashable, ...] = ()
    seed: int = 0
    budget: float = 60.0

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if not 0 <= self.test_share < 1:
            raise ValueError(f"test_share is a share from 0 to below 1, got {self.test_share}")
        if self.test is not None and (self.test_share or self.hold_back):
            raise ValueError("give either test, or test_share and hold_back, not both")
        named_experts(self.seen or AUTO, self.unseen or AUTO)
        if self.budget < 0:
            raise ValueError(f"budget must be at least 0 seconds, got {self.budget}")
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if self.gate is not None:
            make_gate(self.gate)
            if self.method != "paper":
                raise ValueError(f"gate {self.gate!r} needs the paper's method: set method to 'paper'")

    def with_options(self, **options: Any) -> Self:
        """Return the project with some options replaced; None keeps an option."""
        if options.get("test") is not None:
            options |= {"test_share": 0.0, "hold_back": ()}
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    @property
    def sample_kind(self) -> Kind:
        """Kind of the samples."""
        if self.kind is not None:
            return self.kind
        if self.samples.is_dir() or self.image is not None:
            return "images"
        return "features" if self.text is None else "text"

    @property
    def joint_space(self) -> bool:
        """Whether samples and sentences have a joint embedding space, by the encoder's name."""
        kind, name = self.sample_kind, self.encoder or _ENCODERS.get(self.sample_kind, "")
        return kind == "text" or (kind == "images" and name.startswith("open_clip:"))

    def read(self, source: Path) -> SampleSet:
        """Read samples in the form of the project's."""
        return read_samples(
            source,
            self.sample_kind,
            label=self.label,
            text=self.text,
            image=self.image,
            features=self.features,
            labels=self.labels if source == self.samples else None,
        )

    def load(self) -> ProjectData:
        """Read samples and descriptions, and hold out test samples.

        Labels without a description are not an error here, but in `fit`; `cosmo.data.check` lists them.
        """
        descriptions = read_descriptions(self.descriptions)

        def read_labelled(source: Path) -> SampleSet:
            samples = self.read(source)
            return SampleSet(samples.items, match_texts(samples.require_labels(source), descriptions.index))

        train = read_labelled(self.samples)
        test = None if self.test is None else read_labelled(self.test)
        if self.test_share or self.hold_back:
            held_out = self._held_out(train.require_labels(self.samples))
            train, test = train.take(np.flatnonzero(~held_out)), train.take(np.flatnonzero(held_out))
        return ProjectData(self.sample_kind, train, test, descriptions)

    def _held_out(self, labels: pd.Index) -> NDArray[np.bool_]:
        """Return a mask of the test samples."""
        names = match_texts(self.hold_back, labels.unique())
        missing = names[~names.isin(labels)]
        if len(missing):
            raise ValueError(f"hold_back names {missing[0]!r}, of which {self.samples} has no sample")
        held_out = np.asarray(labels.isin(names))
        codes = pd.factorize(labels)[0]
        order = np.random.default_rng(self.seed).permutation(len(labels))
        for code in range(labels.nunique()):
            rows = order[codes[order] == code]
            # One sample stays, because a class without any is unseen.
            held_out[rows[: min(round(self.test_share * len(rows)), len(rows) - 1)]] = True
        return held_out

    def fit(
        self,
        data: ProjectData | None = None,
        *,
        cache: str | Path | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        workers: Workers | None = None,
        n_jobs: int | None = None,
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> Model:
        """Train a model on the project's samples, `data` or else the result of `load`.

        An interrupted training resumes from the folder `cache`. `n_jobs` is that of `cosmo.Cosmo`; the other
        parameters are those of `cosmo.encoders.extract`.
        """
        data = self.load() if data is None else data
        labels = match_labels(data.train.require_labels(self.samples), data.descriptions.index)
        items: Any = data.train.items
        encoder = self._encoder(data)
        if encoder is not None and data.kind != "features":
            found = extract(encoder, items, cache=cache, on_error=on_error, workers=workers, report=report)
            items, labels = found.features, labels[found.rows]
        seen, unseen = AUTO, AUTO
        if self.seen or self.unseen or self.method == "paper":  # Rows of sentence encoders have unit length.
            seen = self.seen or ("logistic-unit" if data.kind == "text" else "logistic")
            unseen = self.unseen or suggest_expert(data.descriptions, joint_space=self.joint_space)
        model = fit_model(
            items,
            labels,
            data.descriptions,
            encoder=encoder,
            name=self.samples.name,
            **named_experts(seen, unseen),
            budget=self.budget,
            method=self.method,
            gate=None if self.gate is None else make_gate(self.gate),
            n_jobs=n_jobs,
            random_state=self.seed,
            cache=cache,
        )
        columns = {name: getattr(self, name) for name in ("label", "text", "image")}
        columns = {name: column for name, column in columns.items() if column is not None}
        model.summary = {"kind": data.kind, "columns": columns, "seed": self.seed, **model.summary}
        return model

    def encoder_name(self, data: ProjectData) -> str | None:
        """Return the name of the encoder, if one is needed."""
        if data.kind == "features" and not isinstance(data.descriptions, pd.Series):
            return None
        return self.encoder or _ENCODERS.get(data.kind, "minilm")

    def missing_packages(self, data: ProjectData) -> list[str]:
        """Return a message for each package that `fit` needs and that is not installed."""
        name = self.encoder_name(data)
        missing = [] if name is None else missing_packages(name)
        if self.unseen not in (None, AUTO) and make_unseen_expert(self.unseen).needs_torch:
            missing += missing_extras("torch")
        return missing

    def _encoder(self, data: ProjectData) -> Encoder | None:
        name = self.encoder_name(data)
        if name is None:
            if self.encoder is not None:
                raise ValueError(f"the samples are feature rows, which encoder {self.encoder!r} cannot read")
            return None
        logger.info("loading the encoder %s", name)
        return make_encoder(name, weights=self.weights)


def read_project(path: str | Path) -> Project:
    """Read a project file; paths in it are relative to its folder."""
    path = Path(path)
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a TOML file: {error}") from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; `cosmo init` writes one") from error
    known = [field.name for field in fields(Project)]
    for name, value in entries.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise DataError(f"{path}: unknown key {name!r}; {hint}")
        _check_entry(path, name, value)
    for name in ("samples", "descriptions"):
        if name not in entries:
            raise DataError(f"{path}: the key {name!r} is missing; it names the file of the {name}")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entries.items()
    }
    values |= {name: path.parent / values[name] for name in _PATHS if name in values}
    try:
        return Project(**values)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: {error}") from error


def write_starter(kind: str, folder: str | Path) -> list[str]:
    """Write an example project, `cosmo.toml` and its data, and return the names of files and folders.

    The folder is created if necessary. Raises FileExistsError if a file exists; nothing is overwritten. A
    `README.md` that exists is kept.
    """
    if kind not in STARTERS:
        raise ValueError(f"kind must be one of {', '.join(STARTERS)}, got {kind!r}")
    folder = Path(folder)
    contents: dict[str, bytes] = {}
    for file in files("cosmo.data").joinpath("starters", kind).iterdir():
        if file.name.endswith(".zip"):
            with ZipFile(io.BytesIO(file.read_bytes())) as archive:
                contents |= {name: archive.read(name) for name in archive.namelist()}
        elif file.name != "README.md" or not (folder / file.name).exists():
            contents[file.name] = file.read_bytes()
    names = sorted({name.partition("/")[0] for name in contents})
    for name in names:
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} exists already; choose another folder")
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return names


def _check_entry(path: Path, name: str, value: Any) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    items = value if isinstance(value, list) else [None]
    expected, valid = {
        "seed": ("a whole number", whole),
        "test_share": ("a number", whole or isinstance(value, float)),
        "budget": ("a number", whole or isinstance(value, float)),
        "hold_back": ("a list of classes", all(isinstance(item, str | int) for item in items)),
        "features": (
            "a list of columns, or a prefix of their names",
            isinstance(value, str) or all(isinstance(item, str) for item in items),
        ),
    }.get(name, ("text in quotes", isinstance(value, str)))
    if not valid:
        raise DataError(f"{path}: {name} must be {expected}, got {value!r}")
