"""What can be wrong, or unusual, with an input: how it is spoiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from picturing import SENT_PICTURES
from problem import SEEN, UNSEEN, Problem, Spoil
from scipy import sparse
from sending import REQUESTS, SENT_NAMES, SENT_NUMBERS, SENT_TEXTS, changed


def with_value(value: Any) -> Spoil:
    """Return the fault that puts a value into the fourth row (the second, of a short table)."""

    def change(values: Any) -> Any:
        values = values.copy()
        row = min(3, len(values) - 1)
        if isinstance(values, pd.DataFrame):
            values.iloc[row, 1] = value
        else:
            values[(row, min(1, values.shape[1] - 1)) if values.ndim == 2 else row] = value
        return values

    return changed(change)


def rows(which: Any) -> Spoil:
    """Return the fault that keeps some samples, with all that belongs to them."""
    return lambda problem, name: problem.take(name, which)


def _read_only(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flags.writeable = False
    return values


def _mapped(problem: Problem, name: str) -> None:
    path = problem.folder / f"{name}.npy"
    np.save(path, getattr(problem, name))
    setattr(problem, name, np.load(path, mmap_mode="r"))


def _apart(values: np.ndarray) -> np.ndarray:
    wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), dtype=values.dtype)
    wide[..., ::2] = values
    return wide[..., ::2]


def _twice(problem: Problem, name: str) -> None:
    n = len(getattr(problem, name))
    problem.take(name, np.tile(np.arange(n), 2))


def _masked(values: np.ndarray) -> np.ma.MaskedArray:
    mask = np.zeros(values.shape, dtype=bool)
    mask[3] = True
    return np.ma.masked_array(values, mask)


def _worded(values: np.ndarray) -> np.ndarray:
    values = values.astype(object)
    values[(3, 1) if values.ndim == 2 and values.shape[1] > 1 else 3] = "red"
    return values


def _all_of(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.full_like(values, value)


ARRAY: dict[str, Spoil] = {
    "NaN": with_value(np.nan),
    "infinite": with_value(np.inf),
    "empty": rows(slice(0, 0)),
    "one row": rows(slice(0, 1)),
    "text": changed(lambda values: values.astype(str)),
    "objects": changed(lambda values: values.astype(object)),
    "a word": changed(_worded),
    "sparse": changed(lambda values: sparse.csr_matrix(np.atleast_2d(values))),
    "masked": changed(_masked),
    "read-only": changed(_read_only),
    "memory-mapped": _mapped,
    "float16": changed(lambda values: values.astype(np.float16)),
    "float64": changed(lambda values: values.astype(np.float64)),
    "not contiguous": changed(_apart),
    "duplicated rows": _twice,
}
MATRIX: dict[str, Spoil] = {
    **ARRAY,
    "one dimension": changed(lambda values: values[:, 0]),
    "three dimensions": changed(lambda values: values[:, :, None]),
    "no columns": changed(lambda values: values[:, :0]),
    "a column short": changed(lambda values: values[:, :-1]),
    "one column": changed(lambda values: values[:, :1]),
    "ragged": changed(lambda values: [*values[:-1].tolist(), values[-1, :-1].tolist()]),
}


def _tied(values: np.ndarray) -> np.ndarray:
    """Let the two first classes share their probability."""
    values = values.copy()
    values[:, :2] = values[:, :2].mean(axis=1, keepdims=True)
    return values


def _without_a_class(problem: Problem, name: str) -> None:
    labels = getattr(problem, name)
    problem.take(name, np.flatnonzero(labels != labels[0]))


def _one_class(problem: Problem, name: str) -> None:
    labels = getattr(problem, name)
    problem.take(name, np.flatnonzero(labels == labels[0]))


def _all_described_have_samples(problem: Problem, name: str) -> None:
    problem.table = problem.table.loc[SEEN]


def _both(problem: Problem, name: str) -> None:
    """Let the class "gnu" be seen and unseen, in each of the ways to say so."""
    problem.leak = True
    problem.seen_classes = pd.Index([*SEEN[:-1], UNSEEN[0]], dtype=object)


def _label(value: Any) -> Spoil:
    def change(labels: np.ndarray) -> np.ndarray:
        labels = labels.astype(object)
        labels[3] = value
        return labels

    return changed(change)


LABELS: dict[str, Spoil] = {
    "too few": changed(lambda labels: labels[:-1]),
    "two dimensions": changed(lambda labels: np.stack([labels, labels], axis=1)),
    "nested lists": changed(lambda labels: [[label] for label in labels]),
    "a missing label": _label(None),
    "NaN": _label(np.nan),
    "one class": _one_class,
    "outside both sets": _label("yak"),
    "a class without samples": _without_a_class,
    "no unseen class": _all_described_have_samples,
    "both seen and unseen": _both,
    "empty": rows(slice(0, 0)),
}


def _zeros(table: pd.DataFrame) -> pd.DataFrame:
    table = table.copy()
    table.iloc[1] = 0
    return table


def _alike(table: pd.DataFrame) -> pd.DataFrame:
    table = table.copy()
    table.iloc[1] = table.iloc[0]
    return table


def _nameless(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_axis(pd.Index([table.index[0], None, *table.index[2:]], dtype=object), axis=0)


DESCRIPTIONS: dict[str, Spoil] = {
    "NaN": with_value(np.nan),
    "infinite": with_value(np.inf),
    "empty": changed(lambda table: table.iloc[:0]),
    "one class": changed(lambda table: table.iloc[:1]),
    "no columns": changed(lambda table: table.iloc[:, :0]),
    "an array": changed(lambda table: table.to_numpy()),
    "text": changed(lambda table: table.astype(object).replace(table.iloc[1, 1], "red")),
    "objects": changed(lambda table: table.astype(object)),
    "sparse": changed(lambda table: table.astype(pd.SparseDtype(np.float32, 0))),
    "read-only": changed(
        lambda table: pd.DataFrame(_read_only(table.to_numpy()), index=table.index, columns=table.columns)
    ),
    "float16": changed(lambda table: table.astype(np.float16)),
    "float64": changed(lambda table: table.astype(np.float64)),
    "not contiguous": changed(
        lambda table: pd.DataFrame(_apart(table.to_numpy()), index=table.index, columns=table.columns)
    ),
    "a class twice": changed(lambda table: pd.concat([table, table.iloc[:1]])),
    "a class missing": changed(lambda table: table.iloc[1:]),
    "a class without a name": changed(_nameless),
    "all zero": changed(_zeros),
    "two alike": changed(_alike),
    "a column short": changed(lambda table: table.iloc[:, :-1]),
    "columns in another order": changed(lambda table: table.iloc[:, ::-1]),
    "classes in another order": changed(lambda table: table.iloc[::-1]),
}

PROBABILITIES: dict[str, Spoil] = {
    **MATRIX,
    "rows sum to 0": changed(_all_of(0.0)),
    "rows sum to 2": changed(lambda values: values + values),
    "rows sum to 0.5": changed(lambda values: values / 2),
    "logits": changed(lambda values: np.log(values + 0.01)),
    "constant": changed(lambda values: np.full_like(values, values.sum(axis=1).min() / values.shape[1])),
    "ties": changed(_tied),
    "one sample more": changed(lambda values: np.concatenate([values, values[:1]])),
    "columns in another order": changed(
        lambda values: values.iloc[:, ::-1] if isinstance(values, pd.DataFrame) else values[:, ::-1]
    ),
}

SCORES: dict[str, Spoil] = {
    **ARRAY,
    "two dimensions": changed(lambda values: np.stack([values, values], axis=1)),
    "one sample more": changed(lambda values: np.concatenate([values, values[:1]])),
    "constant": changed(_all_of(0.5)),
    "ties": changed(lambda values: np.round(values)),
}

NUMBERS: dict[str, Spoil] = {
    "zero": changed(lambda _: 0),
    "negative": changed(lambda _: -1),
    "NaN": changed(lambda _: float("nan")),
    "infinite": changed(lambda _: float("inf")),
    "a fraction": changed(lambda _: 1.5),
    "above the class count": changed(lambda _: 1000),
    "text": changed(lambda _: "three"),
}

ORDERS: dict[str, Spoil] = {
    "reversed": changed(lambda order: order[::-1]),
    "rotated": changed(lambda order: order[4:].append(order[:4])),
    "seen and unseen mixed": changed(lambda order: order[[7, 2, 4, 6, 0, 8, 1, 5, 3]]),
}

FAULTS: dict[str, dict[str, Spoil]] = {
    "features": MATRIX,
    "labels": LABELS,
    "descriptions": DESCRIPTIONS,
    "probabilities": PROBABILITIES,
    "scores": SCORES,
    "numbers": NUMBERS,
    "class order": ORDERS,
    "sent numbers": SENT_NUMBERS,
    "sent names": SENT_NAMES,
    "sent texts": SENT_TEXTS,
    "sent pictures": SENT_PICTURES,
    "requests": REQUESTS,
}
"""By the kind of input, then by name."""
