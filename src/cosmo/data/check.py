"""What is wrong, doubtful or worth knowing about data before a model is trained on it."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from cosmo.data.dataset import ItemError
from cosmo.data.images import image_bytes, read_image
from cosmo.data.leaks import find_leaks
from cosmo.data.samples import ProjectData, SampleSet

__all__ = ["Finding", "class_counts", "examine", "suggest_expert"]

_FEW = 5
_IMBALANCE = 20
_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """One thing to know: an "error" keeps a model from being trained, a "warning" from being good."""

    level: Literal["error", "warning", "note"]
    text: str


def examine(data: ProjectData, *, one_space: bool) -> list[Finding]:
    """Look for what would keep a model from being trained or from being good, worst first.

    Parameters
    ----------
    data : ProjectData
    one_space : bool
        Whether one encoder will place samples and descriptions in one space.

    Examples
    --------
    >>> words = pd.Series({"greet": "says hello", "leave": "says goodbye", "ask": "asks something"})
    >>> train = SampleSet(["hi", "hello", "bye", "see you"], pd.Index(["greet", "greet", "leave", "leav"]))
    >>> data = ProjectData("text", train, None, words)
    >>> examine(data, one_space=True)[0].text
    "1 class of samples has no description: 'leav' (did you mean 'leave'?); describe it or correct the label"
    """
    found = [
        *_classes(data),
        *_space(data, one_space),
        *_descriptions(data.descriptions),
        *_items(data),
        *_leaks(data),
        *_test(data),
        Finding("note", _advice(data.descriptions, one_space=one_space)),
    ]
    return sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.level))


def class_counts(data: ProjectData) -> pd.DataFrame:
    """Return training and test samples of every class, described or not; classes without any are unseen."""
    train = _labels(data.train)
    test = pd.Index([]) if data.test is None else _labels(data.test)
    classes = data.descriptions.index.append([train, test]).unique()
    counts = {name: part.value_counts().reindex(classes, fill_value=0) for name, part in
              (("train", train), ("test", test))}  # fmt: skip
    return pd.DataFrame(counts, index=classes).astype(int)


def suggest_expert(descriptions: pd.DataFrame | pd.Series, *, one_space: bool) -> str:
    """Return the name of an unseen expert that suits descriptions.

    Parameters
    ----------
    descriptions : DataFrame of numbers or Series of str
    one_space : bool
        Whether one encoder places samples and descriptions in one space.

    Examples
    --------
    >>> suggest_expert(pd.Series({"cat": "a small hunter"}), one_space=True)
    'similarity'
    >>> suggest_expert(pd.DataFrame({"height": [1.5, 20.0]}, index=["cat", "giraffe"]), one_space=False)
    'eszsl'
    """
    if isinstance(descriptions, pd.Series):
        return "similarity" if one_space else "eszsl"
    values = descriptions.to_numpy()
    shares = values.min() >= 0 and values.max() <= 1 and not _yes_or_no(descriptions)
    return "lago" if shares and _grouped(descriptions) else "eszsl"


def _grouped(descriptions: pd.DataFrame) -> bool:
    return descriptions.columns.nlevels == 2


def _yes_or_no(descriptions: pd.DataFrame) -> bool:
    return bool(np.isin(descriptions.to_numpy(), [0, 1]).all())


def _advice(descriptions: pd.DataFrame | pd.Series, *, one_space: bool) -> str:
    why = {
        "similarity": "sentences in the space of the samples",
        "lago": "groups of attributes, with shares from 0 to 1",
        "eszsl": "numbers of any kind",
    }
    expert, other = suggest_expert(descriptions, one_space=one_space), None
    if expert == "lago":
        other = "eszsl"
    elif isinstance(descriptions, pd.Series):
        why["eszsl"] = "sentences, in a space other than that of the samples"
    elif _grouped(descriptions) and _yes_or_no(descriptions):
        why["eszsl"], other = "attributes that are yes or no", "lago"
    more = "" if other is None else f"; {other} is worth a try, too (--unseen {other})"
    return f"the unseen expert {expert} suits these descriptions: {why[expert]}{more}"


def _classes(data: ProjectData) -> Iterator[Finding]:
    labels, described = _labels(data.train), data.descriptions.index
    strangers = labels[~labels.isin(described)].unique()
    if len(strangers):
        yield Finding("error", _undescribed(strangers, described))
    counts = labels.value_counts()
    if len(counts) < 2:
        yield Finding("error", f"only {counts.index[0]!r} has samples; at least two classes need them")
    elif not (counts > 1).any():
        yield Finding("error", "no class has two samples, so that none can be held out; add samples")
    elif len(counts) < _FEW:
        yield Finding(
            "warning",
            f"{len(counts)} classes have samples: what is chosen on a third of them, which play unseen in "
            "training, is uncertain",
        )
    if described.isin(labels).all():
        yield Finding(
            "error",
            "every described class has samples: describe a class without any, or hold some back (hold_back)",
        )
    few = counts[counts < _FEW].sort_values(kind="stable")
    if len(few):
        yield Finding(
            "warning", f"{_n(len(few), 'class')} with fewer than {_FEW} samples: {_some(few.index)}; add some"
        )
    if len(counts) > 1 and counts.iloc[0] > _IMBALANCE * counts.iloc[-1]:
        yield Finding(
            "warning",
            f"{counts.index[0]!r} has {counts.iloc[0]} samples, {counts.index[-1]!r} {counts.iloc[-1]}: rare "
            "classes will be missed; add samples of them or take fewer of the others",
        )


def _space(data: ProjectData, one_space: bool) -> Iterator[Finding]:
    if data.kind == "images" and isinstance(data.descriptions, pd.Series) and not one_space:
        yield Finding(
            "error",
            "the encoder of the pictures has no place for sentences: describe classes by numbers, or take "
            "an encoder of both, such as open_clip:NAME/PRETRAINED",
        )


def _undescribed(strangers: pd.Index, described: pd.Index) -> str:
    written = {str(name).strip().casefold(): name for name in described}

    def hint(label: Any) -> str:
        near = difflib.get_close_matches(str(label).strip().casefold(), written, n=1, cutoff=0.7)
        return f"{label!r} (did you mean {written[near[0]]!r}?)" if near else repr(label)

    shown = ", ".join(map(hint, strangers[:_SHOWN]))
    more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
    one = len(strangers) == 1
    return (
        f"{_n(len(strangers), 'class')} of samples {'has' if one else 'have'} no description: {shown}{more}; "
        f"describe {'it' if one else 'them'} or correct the label{'' if one else 's'}"
    )


def _descriptions(descriptions: pd.DataFrame | pd.Series) -> Iterator[Finding]:
    if isinstance(descriptions, pd.DataFrame):
        values = descriptions.to_numpy()
        empty = descriptions.index[np.flatnonzero(~values.any(axis=1))]
        if len(empty):
            yield Finding(
                "warning", f"descriptions that are all zero say nothing: {_some(empty)}; fill them in"
            )
        constant = int((values == values[0]).all(axis=0).sum())
        if constant:
            yield Finding("note", f"{_n(constant, 'attribute')} the same for all classes")
        keys = pd.Series([row.tobytes().hex() for row in values], index=descriptions.index)
    else:
        keys = descriptions.str.strip().str.casefold()
    for _, group in keys.groupby(keys, sort=False):
        if len(group) > 1:
            yield Finding(
                "warning", f"{_some(group.index)} have the same description and cannot be told apart by it"
            )


def _items(data: ProjectData) -> Iterator[Finding]:
    """Look at the samples one by one."""
    if data.kind == "features":
        values = np.asarray(data.train.items)
        constant = np.flatnonzero(np.ptp(values, axis=0) == 0)
        if len(constant):
            names = data.train.items.columns if isinstance(data.train.items, pd.DataFrame) else None
            shown = pd.Index(constant) if names is None else names[constant]
            yield Finding(
                "warning",
                f"{_n(len(constant), 'constant feature')}: {_some(shown)}; nothing is learned from those",
            )
    elif data.kind == "images":
        bad = [
            reason for part in (data.train, data.test) if part is not None for reason in _damaged(part.items)
        ]
        if bad:
            more = f"\n  and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
            lines = "".join(f"\n  {reason}" for reason in bad[:_SHOWN])
            yield Finding(
                "error",
                f"{_n(len(bad), 'picture')} cannot be read; remove them, or fit with --skip:{lines}{more}",
            )


def _damaged(items: Iterable[Any]) -> Iterator[str]:
    for item in items:
        try:
            read_image(item, 64)
        except ItemError as error:
            yield str(error)


def _leaks(data: ProjectData) -> Iterator[Finding]:
    keys = pd.Series(_keys(data.train))
    labels = pd.Series(_labels(data.train).astype(str))
    several = labels.groupby(keys.to_numpy()).transform("nunique") > 1
    if several.any():
        row = int(several.to_numpy().argmax())
        both = " and ".join(map(repr, labels[keys == keys[row]].unique()[:2]))
        yield Finding(
            "warning",
            f"{int(several.sum())} samples occur with different labels, such as row {row + 1} as {both}; "
            "keep the right one",
        )
    copies = int((keys.duplicated() & ~several).sum())
    if copies:
        yield Finding("note", f"{_n(copies, 'sample')} more than once with the same label")
    if data.test is not None:
        shared = pd.Series(_keys(data.test)).isin(keys)
        if shared.any():
            yield Finding(
                "warning",
                f"{_n(int(shared.sum()), 'test sample')} also among the training samples, the first is row "
                f"{int(shared.to_numpy().argmax()) + 1} of the test, so accuracies will look too good",
            )
    if data.kind == "features":
        items, test = data.train.items, data.test
        if test is not None and np.shape(test.items)[1] != np.shape(items)[1]:
            test = None
        for leak in find_leaks(
            items,
            labels,
            None if test is None else test.items,
            None if test is None else _labels(test),
            data.descriptions if isinstance(data.descriptions, pd.DataFrame) else None,
            columns=items.columns if isinstance(items, pd.DataFrame) else None,
        ):
            yield Finding("warning", leak.text)


def _keys(samples: SampleSet) -> list[bytes]:
    """Return a fingerprint of each sample; equal ones, spaces and capitals aside, have the same."""
    items = samples.items
    if isinstance(items, pd.DataFrame | np.ndarray):
        content: Iterable[bytes] = (row.tobytes() for row in np.ascontiguousarray(items))
    elif items and isinstance(items[0], str):
        content = (" ".join(text.casefold().split()).encode("utf-8", "replace") for text in items)
    else:
        content = map(_file, items)
    return [hashlib.blake2b(one, digest_size=16).digest() for one in content]


def _file(path: Any) -> bytes:
    try:
        return image_bytes(path)
    except ItemError:  # which is reported as damaged
        return str(path).encode()


def _test(data: ProjectData) -> Iterator[Finding]:
    if data.test is None:
        yield Finding("note", "no test samples: `cosmo evaluate` will need a file of them")
        return
    labels, described = _labels(data.test), data.descriptions.index
    strangers = labels[~labels.isin(described)].unique()
    if len(strangers):
        yield Finding("warning", f"in the test, {_undescribed(strangers, described)}")
    is_seen = labels.isin(_labels(data.train))
    if is_seen.all() or not is_seen.any():
        kind = "unseen" if is_seen.all() else "seen"
        yield Finding("note", f"the test has no samples of {kind} classes: Acc_H cannot be measured")


def _labels(samples: SampleSet) -> pd.Index:
    assert samples.labels is not None  # a project's samples are labelled
    return samples.labels


def _n(count: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{count} {what if count == 1 else plural}"


def _some(names: pd.Index) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN].tolist())
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
