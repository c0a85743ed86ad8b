"""Checks of data before training: problems, leaks, and a suggested unseen expert."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from cosmo._core.validation import listed
from cosmo.data.dataset import ItemError
from cosmo.data.images import read_image
from cosmo.data.samples import ProjectData, SampleSet

_MIN_SAMPLES = 5  # per class, and the number of seen classes, below which a warning is due
_IMBALANCE = 20

_EXPERT_INPUT = {
    "similarity": "sentences in the space of the samples",
    "lago": "groups of attributes with values from 0 to 1; try eszsl, too (--unseen eszsl)",
    "eszsl": "these descriptions; for attributes in groups try lago, too (--unseen lago)",
}

_LABEL_LIKE = 1e-4  # within-class share of the variance below which a feature is a label
_STEP = 0.1  # of the distance between evenly spaced classes: larger steps separate two values
_MIN_CLASSES = 5  # with fewer classes a legitimate feature can have one value per class
_NEAR = 0.1  # of the median distance to the nearest neighbour: smaller distances are noisy copies
_MIN_ROWS = 20  # rows, or degrees of freedom, below which chance can look like a leak
_NEIGHBOUR_ROWS = 1000  # rows drawn for the search for near copies


@dataclass(frozen=True)
class Finding:
    """A problem in the data: an "error" prevents training, a "warning" harms the model."""

    level: Literal["error", "warning", "note"]
    text: str


def find_problems(data: ProjectData, *, joint_space: bool) -> list[Finding]:
    """Return problems in the data, errors first.

    `joint_space`: whether one encoder embeds samples and descriptions in the same space.
    """
    findings = [
        *_check_classes(data),
        *_check_descriptions(data, joint_space),
        *_check_features(data),
        *_check_images(data),
        *_check_copies(data),
        *_check_test(data),
    ]
    expert = suggest_expert(data.descriptions, joint_space=joint_space)
    findings.append(Finding("note", f"the unseen expert {expert} suits {_EXPERT_INPUT[expert]}"))
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.level))


def suggest_expert(descriptions: pd.DataFrame | pd.Series, *, joint_space: bool) -> str:
    """Return the name of an unseen expert that suits the descriptions; `joint_space` as above."""
    if isinstance(descriptions, pd.Series):
        return "similarity" if joint_space else "eszsl"
    values = descriptions.to_numpy()
    # LAGO takes attributes in groups; their values are probabilities, more informative than yes or no.
    shares = values.min() >= 0 and values.max() <= 1 and not np.isin(values, [0, 1]).all()
    return "lago" if shares and descriptions.columns.nlevels == 2 else "eszsl"


def _check_classes(data: ProjectData) -> Iterator[Finding]:
    labels, described = _labels(data.train), data.descriptions.index
    undescribed = labels[~labels.isin(described)].unique()
    if len(undescribed):
        yield Finding("error", _undescribed(undescribed, described))
    counts = labels.value_counts()
    if len(counts) < 2:
        yield Finding("error", f"only {counts.index[0]!r} has samples; at least two classes need them")
    elif not (counts > 1).any():
        yield Finding("error", "no class has two samples, so that none can be held out; add samples")
    elif len(counts) < _MIN_SAMPLES:
        yield Finding("warning", f"only {len(counts)} classes have samples: a third of them is held out as "
                      "unseen for validation, so parameters chosen there are uncertain")  # fmt: skip
    if described.isin(labels).all():
        yield Finding("note", "every described class has samples: `cosmo classes add` describes further ones "
                      "after the training; hold some back (hold_back) to measure such classes")  # fmt: skip
    few = counts[counts < _MIN_SAMPLES].sort_values(kind="stable")
    if len(few):
        yield Finding("warning", f"{_n(len(few), 'class')} with fewer than {_MIN_SAMPLES} samples: "
                      f"{listed(few.index)}; add samples")  # fmt: skip
    if len(counts) > 1 and counts.iloc[0] > _IMBALANCE * counts.iloc[-1]:
        yield Finding("warning", f"imbalanced classes: {counts.index[0]!r} has {counts.iloc[0]} samples, "
                      f"{counts.index[-1]!r} {counts.iloc[-1]}; add samples of rare classes")  # fmt: skip


def _undescribed(labels: pd.Index, described: pd.Index) -> str:
    normalised = {str(name).strip().casefold(): name for name in described}

    def hint(label: Any) -> str:
        near = difflib.get_close_matches(str(label).strip().casefold(), normalised, n=1, cutoff=0.7)
        return f"{label!r} (did you mean {normalised[near[0]]!r}?)" if near else repr(label)

    verb, pronoun, noun = ("has", "it", "label") if len(labels) == 1 else ("have", "them", "labels")
    problem = f"{_n(len(labels), 'class')} of samples {verb} no description: {listed(labels, hint)}"
    return f"{problem}; describe {pronoun} or correct the {noun}"


def _check_descriptions(data: ProjectData, joint_space: bool) -> Iterator[Finding]:
    descriptions = data.descriptions
    if isinstance(descriptions, pd.DataFrame):
        values = descriptions.to_numpy()
        empty = descriptions.index[np.flatnonzero(~values.any(axis=1))]
        if len(empty):
            yield Finding("warning", f"descriptions are all zero: {listed(empty)}; fill them in")
        constant = int((values == values[0]).all(axis=0).sum())
        if constant:
            yield Finding("note", f"{_n(constant, 'attribute')} with the same value for all classes")
        keys = pd.Series([row.tobytes().hex() for row in values], index=descriptions.index)
    else:
        if data.kind == "images" and not joint_space:
            yield Finding("error", "this image encoder cannot embed sentences: describe classes by numbers, "
                          "or use an encoder of both, such as open_clip:NAME/PRETRAINED")  # fmt: skip
        keys = descriptions.str.strip().str.casefold()
    for _, group in keys.groupby(keys, sort=False):
        if len(group) > 1:
            yield Finding("warning", f"{listed(group.index)} have the same description; correct one")


def _check_features(data: ProjectData) -> Iterator[Finding]:
    if data.kind != "features":
        return
    items, test = data.train.items, data.test
    rows = np.asarray(items)
    names = items.columns if isinstance(items, pd.DataFrame) else pd.RangeIndex(rows.shape[1])
    constant = names[np.ptp(rows, axis=0) == 0]
    if len(constant):
        yield Finding("warning", f"{_n(len(constant), 'constant feature')}: {listed(constant)}; remove")
    yield from _label_columns(rows, pd.factorize(_labels(data.train))[0], names)
    yield from _row_numbers(rows, names)
    # `cosmo evaluate` reports missing columns of the test.
    if test is not None and np.shape(test.items)[1] == rows.shape[1]:
        yield from _near_copies(rows, np.asarray(test.items))


def _check_images(data: ProjectData) -> Iterator[Finding]:
    if data.kind != "images":
        return
    damaged = []
    for item in [*data.train.items, *(() if data.test is None else data.test.items)]:
        try:
            read_image(item, min_size=64)
        except ItemError as error:
            damaged.append(str(error))
    if damaged:
        yield Finding("error", f"{_n(len(damaged), 'image')} cannot be read; remove them, or fit with "
                      f"--skip:\n  {listed(damaged, str, separator=chr(10) + '  ')}")  # fmt: skip


def _check_copies(data: ProjectData) -> Iterator[Finding]:
    keys = pd.Series(_fingerprints(data.train))
    labels = pd.Series(_labels(data.train).astype(str))
    conflicting = labels.groupby(keys.to_numpy()).transform("nunique") > 1
    if conflicting.any():
        row = int(conflicting.to_numpy().argmax())
        both = " and ".join(map(repr, labels[keys == keys[row]].unique()[:2]))
        yield Finding("warning", f"{int(conflicting.sum())} samples occur with different labels, such as row "
                      f"{row + 1} as {both}; keep the right one")  # fmt: skip
    copies = int((keys.duplicated() & ~conflicting).sum())
    if copies:
        yield Finding("note", f"{_n(copies, 'duplicate sample')} with the same label")
    if data.test is not None:
        shared = pd.Series(_fingerprints(data.test)).isin(keys)
        if shared.any():
            yield Finding("warning", f"{_n(int(shared.sum()), 'test sample')} also among the training "
                          f"samples, the first is row {int(shared.to_numpy().argmax()) + 1} of the test; "
                          "accuracies will be too high")  # fmt: skip


def _fingerprints(samples: SampleSet) -> list[bytes]:
    """Return a hash of each sample; texts are compared without case and repeated spaces."""
    items = samples.items
    if isinstance(items, pd.DataFrame | np.ndarray):
        content: Iterable[bytes] = (row.tobytes() for row in np.ascontiguousarray(items))
    elif items and isinstance(items[0], str):
        content = (" ".join(text.casefold().split()).encode("utf-8", "replace") for text in items)
    else:
        content = (Path(item).read_bytes() if Path(item).is_file() else str(item).encode() for item in items)
    return [hashlib.blake2b(one, digest_size=16).digest() for one in content]


def _check_test(data: ProjectData) -> Iterator[Finding]:
    if data.test is None:
        yield Finding("note", "no test samples: `cosmo evaluate` will need a file of them")
        return
    labels, described = _labels(data.test), data.descriptions.index
    undescribed = labels[~labels.isin(described)].unique()
    if len(undescribed):
        yield Finding("warning", f"in the test, {_undescribed(undescribed, described)}")
    is_seen = labels.isin(_labels(data.train))
    if is_seen.all() or not is_seen.any():
        kind = "unseen" if is_seen.all() else "seen"
        yield Finding("note", f"the test has no samples of {kind} classes: Acc_H cannot be measured")


def _label_columns(rows: NDArray[Any], codes: NDArray[np.intp], names: pd.Index) -> Iterator[Finding]:
    """Find features with a distinct value per class, and sets of one-hot columns."""
    counts = np.bincount(codes)
    if len(rows) - len(counts) < _MIN_ROWS or len(counts) < _MIN_CLASSES:
        return
    order = np.argsort(codes, kind="stable")
    centred = rows[order].astype(np.float64)
    centred -= centred.mean(axis=0)
    total = np.square(centred).sum(axis=0)
    means = np.add.reduceat(centred, np.cumsum(counts) - counts, axis=0) / counts[:, None]
    within = total - np.square(means * np.sqrt(counts)[:, None]).sum(axis=0)
    flat = np.flatnonzero((total > 0) & (within < _LABEL_LIKE * total))
    width = means[:, flat].max(axis=0) - means[:, flat].min(axis=0)
    steps = np.diff(np.sort(means[:, flat], axis=0), axis=0) > _STEP / len(counts) * width
    n_levels = 1 + steps.sum(axis=0)
    # A column for one class has two values, and the first or the last step separates them.
    single = flat[(n_levels == 2) & (steps[0] | steps[-1])]
    classes = np.abs(means[:, single] - np.median(means[:, single], axis=0)).argmax(axis=0)
    one_hot = single if len(np.unique(classes)) >= len(counts) - 1 else single[:0]
    columns = np.concatenate([flat[n_levels == len(counts)], one_hot])
    if len(columns):
        yield Finding("warning", f"{_n(len(columns), 'feature')}, such as {names[columns[0]]!r}, constant "
                      "within each class and different between classes: is the label among the features? "
                      "Remove it")  # fmt: skip


def _row_numbers(rows: NDArray[Any], names: pd.Index) -> Iterator[Finding]:
    """Find features that are monotonic in the order of the rows."""
    if len(rows) < _MIN_ROWS:
        return
    change = np.diff(rows, axis=0)
    columns = np.flatnonzero((change > 0).all(axis=0) | (change < 0).all(axis=0))
    if len(columns):
        yield Finding("warning", f"{_n(len(columns), 'feature')}, such as {names[columns[0]]!r}, monotonic "
                      "in the order of the rows: a row number or time reveals the class in files sorted by "
                      "class; remove it")  # fmt: skip


def _near_copies(rows: NDArray[Any], test: NDArray[Any]) -> Iterator[Finding]:
    """Find test rows much nearer to a training row than training rows are to each other."""
    if len(rows) < _MIN_ROWS or not len(test) or rows.shape[1] < 2:
        return
    generator = np.random.default_rng(0)
    spread = rows.std(axis=0, dtype=np.float64)
    scale = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0).astype(np.float32)
    scaled = rows * scale
    sample = np.sort(generator.permutation(len(rows))[:_NEIGHBOUR_ROWS])
    tested = np.sort(generator.permutation(len(test))[:_NEIGHBOUR_ROWS])
    usual = np.median(_nearest(scaled[sample], scaled, 2))  # The first is the row itself.
    distance = _nearest(test[tested] * scale, scaled)
    near = (distance < _NEAR * usual) & (distance > 0)  # equal rows are reported elsewhere
    if near.any():
        of = "" if len(tested) == len(test) else f" of {len(tested)} drawn"
        yield Finding("warning", f"{_n(int(near.sum()), 'test sample')}{of}, the first is row "
                      f"{tested[near.argmax()] + 1}, almost equal to training samples: accuracies will be "
                      "too high; keep copies in one part")  # fmt: skip


def _nearest(rows: NDArray[Any], known: NDArray[Any], k: int = 1) -> NDArray[np.float64]:
    """Return the distance of each row to the k-th nearest row of `known`."""
    places = NearestNeighbors(n_neighbors=k).fit(known).kneighbors(rows, return_distance=False)[:, -1]
    # Distances of the search are too coarse for near copies; these are exact.
    return np.asarray(np.linalg.norm(rows.astype(np.float64) - known[places], axis=1))


def _labels(samples: SampleSet) -> pd.Index:
    assert samples.labels is not None  # samples of a project have labels
    return samples.labels


def _n(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
