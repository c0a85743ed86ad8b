"""`Project`: what to learn from, as a file names it (`cosmo.toml`), and how it becomes a model."""

from __future__ import annotations

import difflib
import logging
import tomllib
from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.parallel import Workers
from cosmo.data.check import suggest_expert
from cosmo.data.dataset import DataError
from cosmo.data.descriptions import match_labels, read_descriptions
from cosmo.data.samples import Kind, ProjectData, SampleSet, read_samples
from cosmo.encoders import Encoder, extract, make_encoder
from cosmo.experts import make_seen_expert, make_unseen_expert
from cosmo.gates import make_gate
from cosmo.io.model import Model, fit_model

__all__ = ["Project", "model_rows", "read_project"]

logger = logging.getLogger(__name__)

_ENCODERS: dict[str, str] = {"text": "minilm", "images": "efficientnet-lite0"}
_PATHS = ("samples", "descriptions", "labels", "weights", "test")


@dataclass(frozen=True)
class Project:
    """Inputs and choices of a training; `read_project` reads one from a file.

    Parameters
    ----------
    samples : path
        A table, an `.npz` or `.npy`, or a folder with a folder of pictures for each class.
    descriptions : path
        See `cosmo.data.read_descriptions`.
    kind : {"features", "text", "images"}, optional
        By default pictures if `samples` is a folder or `image` is given, texts if `text` is given, else
        features.
    label, text, image : str, optional
        Columns of classes, texts and paths of pictures; usual names are found by themselves.
    labels : path, optional
        Labels that go with an `.npy`.
    features : str or list of str, optional
        Columns of features, or how their names begin.
    encoder, weights : str and path, optional
        Of texts or pictures, see `cosmo.encoders.make_encoder`; also of descriptions in words.
    seen, unseen, gate : str, optional
        Experts and gate by name; by default chosen by the kind of samples and descriptions.
    test : path, optional
        Labelled samples to evaluate with, like `samples`.
    test_share : float
        Share of each class's samples to hold back instead.
    hold_back : list of class labels
        Classes all of whose samples are held back, so that they play unseen.
    seed : int

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.data.starters import write_starter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_starter("features", folder)
    ...     project = read_project(Path(folder, "cosmo.toml"))
    ...     data = project.load()
    ...     model = project.fit(data)
    >>> data.train.items.shape, len(model.cosmo.unseen_classes_)
    ((280, 7), 3)
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
    gate: str = "confidence"
    test: Path | None = None
    test_share: float = 0.0
    hold_back: tuple[Hashable, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if not 0 <= self.test_share < 1:
            raise ValueError(f"test_share is a share from 0 to below 1, got {self.test_share}")
        if self.test is not None and (self.test_share or self.hold_back):
            raise ValueError("give either test, or test_share and hold_back, not both")
        if self.seen is not None:
            make_seen_expert(self.seen)
        if self.unseen is not None:
            make_unseen_expert(self.unseen)
        make_gate(self.gate)

    def with_options(self, **options: Any) -> Self:
        """Return the project with some choices replaced; None leaves one as it is."""
        if options.get("test") is not None:
            options |= {"test_share": 0.0, "hold_back": ()}
        return replace(self, **{name: value for name, value in options.items() if value is not None})

    @property
    def sample_kind(self) -> Kind:
        """What the samples are."""
        if self.kind is not None:
            return self.kind
        if self.samples.is_dir() or self.image is not None:
            return "images"
        return "features" if self.text is None else "text"

    @property
    def one_space(self) -> bool:
        """Whether the encoder, by its name, places samples and sentences in one space."""
        kind, name = self.sample_kind, self.encoder or _ENCODERS.get(self.sample_kind, "")
        return kind == "text" or (kind == "images" and name.startswith("open_clip:"))

    def read(self, source: Path) -> SampleSet:
        """Read samples that are like those of the project."""
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
        """Read samples and descriptions, and hold test samples back.

        Labels without a description stay as they are: `fit` refuses them, `cosmo.data.check` lists them.
        """
        descriptions = read_descriptions(self.descriptions)
        classes = descriptions.index
        everything = self.read(self.samples)
        train = SampleSet(everything.items, _as_written(everything.labelled(self.samples), classes))
        test: SampleSet | None = None
        if self.test is not None:
            test = self.read(self.test)
            test = SampleSet(test.items, _as_written(test.labelled(self.test), classes))
        elif self.test_share or self.hold_back:
            held = self._held_back(train.labelled(self.samples))
            train, test = train.take(np.flatnonzero(~held)), train.take(np.flatnonzero(held))
        return ProjectData(self.sample_kind, train, test, descriptions)

    def _held_back(self, labels: pd.Index) -> NDArray[np.bool_]:
        """Return which samples are for the test."""
        names = _as_written(pd.Index(self.hold_back, tupleize_cols=False), labels.unique())
        strangers = names[~names.isin(labels)]
        if len(strangers):
            raise ValueError(f"hold_back names {strangers[0]!r}, of which {self.samples} has no sample")
        held = np.asarray(labels.isin(names))
        codes, n_classes = pd.factorize(labels)[0], labels.nunique()
        order = np.random.default_rng(self.seed).permutation(len(labels))
        for code in range(n_classes):
            rows = order[codes[order] == code]
            # At least one stays: a class without training samples would become unseen unasked.
            held[rows[: min(round(self.test_share * len(rows)), len(rows) - 1)]] = True
        return held

    def fit(
        self,
        data: ProjectData | None = None,
        *,
        cache: str | Path | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        workers: Workers | None = None,
    ) -> Model:
        """Train a model on the project's samples.

        Parameters
        ----------
        data : ProjectData, optional
            What `load` gave; read now if left out.
        cache : path, optional
            Folder that keeps features and unfinished work: a training that was stopped goes on.
        on_error : {"raise", "skip"}
            What to do about texts or pictures that cannot be read.
        workers : Workers or None, default=None
            Where texts and pictures are encoded, see `cosmo.encoders.extract`.
        """
        data = self.load() if data is None else data
        labels = match_labels(data.train.labelled(self.samples), data.descriptions.index)
        items: Any = data.train.items
        encoder = self._encoder(data)
        if encoder is not None and data.kind != "features":
            found = extract(encoder, items, cache=cache, on_error=on_error, workers=workers)
            items, labels = found.features, labels[found.rows]
        unit = data.kind == "text"  # sentence encoders give rows of unit length
        model = fit_model(
            items,
            labels,
            data.descriptions,
            encoder=encoder,
            name=self.samples.name,
            seen=make_seen_expert(self.seen or ("logistic-unit" if unit else "logistic")),
            unseen=make_unseen_expert(
                self.unseen or suggest_expert(data.descriptions, one_space=self.one_space)
            ),
            gate=make_gate(self.gate),
            random_state=self.seed,
            cache=cache,
        )
        columns = {name: getattr(self, name) for name in ("label", "text", "image")}
        columns = {name: column for name, column in columns.items() if column is not None}
        model.summary = {"kind": data.kind, "columns": columns, "seed": self.seed, **model.summary}
        return model

    def _encoder(self, data: ProjectData) -> Encoder | None:
        worded = isinstance(data.descriptions, pd.Series)
        if data.kind == "features" and not worded:
            if self.encoder is not None:
                raise ValueError(f"the samples are feature rows, which encoder {self.encoder!r} cannot read")
            return None
        name = self.encoder or _ENCODERS.get(data.kind, "minilm")
        logger.info("loading the encoder %s", name)
        return make_encoder(name, weights=self.weights)


def read_project(path: str | Path) -> Project:
    """Read a project file; paths in it are relative to its folder.

    Raises
    ------
    DataError
        Naming the file and the key that is wrong.
    """
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


def _check_entry(path: Path, name: str, value: Any) -> None:
    expected, right = "text in quotes", isinstance(value, str)
    if name == "seed":
        expected, right = "a whole number", isinstance(value, int) and not isinstance(value, bool)
    elif name == "test_share":
        expected, right = "a number", isinstance(value, int | float) and not isinstance(value, bool)
    elif name == "hold_back":
        expected = "a list of classes"
        right = isinstance(value, list) and all(isinstance(one, str | int) for one in value)
    elif name == "features":
        expected = "a list of columns, or how their names begin"
        right = isinstance(value, str) or (
            isinstance(value, list) and all(isinstance(one, str) for one in value)
        )
    if not right:
        raise DataError(f"{path}: {name} must be {expected}, got {value!r}")


def model_rows(
    model: Model,
    samples: SampleSet,
    *,
    cache: str | Path | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> tuple[Any, SampleSet]:
    """Return samples as rows that a model takes, and those samples that could be read.

    Parameters
    ----------
    model : Model
    samples : SampleSet
    cache, on_error
        See `cosmo.encoders.extract`.
    """
    if isinstance(samples.items, pd.DataFrame | np.ndarray):
        return samples.items, samples
    logger.info("loading the encoder %s", model.encoder_name)
    found = extract(model.encoder, samples.items, cache=cache, on_error=on_error)
    return found.features, samples if len(found.rows) == len(samples) else samples.take(found.rows)


def _as_written(labels: pd.Index, classes: pd.Index) -> pd.Index:
    """Return labels as `classes` write them, where one has 1 and the other "1"; others as they are."""
    written = {str(name): name for name in classes}
    return pd.Index([written.get(str(label), label) for label in labels], tupleize_cols=False)
