"""Fitted models as one file, `*.cosmo`: arrays as safetensors, structure as JSON, no code.

Objects of classes that are not in `cosmo/io/classes.json`, such as forests and own experts, are archives of
skops in it. Types in them that skops does not trust by itself are loaded only if they are named.

The metadata of the safetensors file is one JSON document. It lists type, shape and SHA-256 of every array,
and begins with the SHA-256 of the rest of itself. The checksums detect damage, not a forgery with new ones.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from cosmo._core import MissingExtra, versions
from cosmo._core.files import digest, sha256, write_atomic
from cosmo._core.validation import check_descriptions
from cosmo.classifier._cosmo import Cosmo
from cosmo.experts.base import as_unseen_expert
from cosmo.io._foreign import ModelError, check_trusted
from cosmo.io._packing import Arrays, pack, unpack

logger = logging.getLogger(__name__)

FORMAT_VERSION = 2  # 1 has the paper's method only; both are read
_TOLERANCE = 1e-3  # of probabilities, between machines and versions of libraries
_KEY = "cosmo"
_HEAD, _MIDDLE, _TAIL = '{"sha256":"', '","content":', "}"
_START = len(_HEAD) + 64 + len(_MIDDLE)
_FEW = 20  # rows of a class in a trial
_LONGEST_HEADER = 100_000_000  # limit of safetensors

Document = dict[str, Any]


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model to one file, atomically.

    Stored is what prediction, `add_classes`, `learn` and `operate_at` need. Folders of this machine
    (`cache`, `checkpoints`) and the hold-out are not; of the validation outputs, only their summary is. A
    part that neither a model file nor skops can hold raises ModelError.
    """
    cosmo, types = _cosmo_of(model), set[str]()
    check_is_fitted(cosmo, "experts_")
    root, arrays = pack(model, "model", types)
    content = {
        "format_version": FORMAT_VERSION,
        "package": version("cosmo-gzsl"),
        "versions": versions(),
        "types": sorted(types),
        "card": None if model is cosmo else model.card(),
        "root": root,
    }
    # Load before writing: a file that cannot be loaded must not replace one that can.
    answer = _probe(cosmo)
    try:
        _check_probe(_cosmo_of(unpack(root, arrays, types)), answer)
    except ModelError as error:
        raise ModelError(f"the model cannot be stored: {error}") from error
    _write(Path(path), content, {**arrays, "answer": answer})


def check_storable(cosmo: Cosmo, X: Any, y: pd.Index) -> None:
    """Raise ModelError if experts or gate cannot be stored; own experts are fitted on a few rows for it."""
    for name in ("seen", "unseen", "gate"):
        if _has_archive(part := getattr(cosmo, name), name) and name != "gate":
            try:
                fitted = _fitted_on_few(part, X, y, None if name == "seen" else cosmo.descriptions)
            except Exception as error:  # of the user's class: the training shows it
                logger.debug("%s: %s", name, error)
            else:
                _has_archive(fitted, f"{name}, fitted,")


def _has_archive(value: Any, name: str) -> bool:
    return '"skops"' in json.dumps(pack(value, name)[0])


def _fitted_on_few(part: Any, X: Any, y: pd.Index, descriptions: Any) -> Any:
    """Return a copy that is fitted on rows of two classes; with descriptions, an unseen expert."""
    rows = np.concatenate([np.flatnonzero(y == label)[:_FEW] for label in y.unique()[:2]])
    X, y = np.asarray(X, dtype=np.float32)[rows], y[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if descriptions is None:
            return clone(part).fit(X, pd.factorize(y)[0])
        expert = as_unseen_expert(part)
        values = {name: expert.grid.get(name, (1.0,))[0] for name in expert.open_parameters()}
        return clone(expert).set_params(**values).fit(X, y, check_descriptions(descriptions))


def load(path: str | Path, *, trusted: Iterable[str | type] = ()) -> Any:
    """Load the `Cosmo` or `Model` of a file; nothing in the file is executed, but for `trusted` types.

    Only classes of the registry are built, from plain values, and types that skops or the caller trusts. The
    file has the scores of a fixed input; a model with other scores, because a part is missing or a library
    has changed, is not loaded.

    Parameters
    ----------
    path : path
    trusted : list of str or type, optional
        Types whose code may run, by import path, such as own experts. `read_card` returns those of a file.

    Raises
    ------
    ModelError
        If the file is damaged, altered, of another program or of a newer version, or has types that are not
        trusted.
    OSError
        If the file does not exist or cannot be opened.
    """
    names = [one if isinstance(one, str) else f"{one.__module__}.{one.__name__}" for one in trusted]
    try:
        content = _read_document(Path(path))
        arrays = _read_arrays(Path(path), content)
        if "answer" not in arrays or "root" not in content:
            raise ModelError("damaged or altered: the model, or its scores of a fixed input, are missing")
        answer = arrays.pop("answer")
        check_trusted(content.get("types", []), names)
        model = unpack(content["root"], arrays, names)
        longest = max((size for values in arrays.values() for size in values.shape), default=0)
        n_features = getattr(_cosmo_of(model), "n_features_in_", 0)
        if not isinstance(n_features, int) or n_features > longest:
            raise ModelError("damaged or altered: it claims more features than its arrays have")
        _check_probe(_cosmo_of(model), answer)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    return model


def read_card(path: str | Path) -> dict[str, Any]:
    """Return the card of a saved model, the versions that wrote it, and types to trust; raise as `load`."""
    try:
        content = _read_document(Path(path))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    header = {name: content.get(name) for name in ("format_version", "package", "versions", "types")}
    return {**header, **(content.get("card") or {})}


def operating_card(cosmo: Cosmo) -> dict[str, Any]:
    """Return the entries of a model card that depend on the method."""
    point, share = cosmo.operating_point_, cosmo.combination_.unseen_share
    if share is None:
        values = {name: float(value) for name, value in point._asdict().items()}
        return {"smoothing": cosmo.smoothing, "operating point": values}
    if not len(cosmo.seen_classes_):
        return {"operating point": "all classes by description"}
    if not cosmo.experts_.n_trained:
        return {"operating point": {"share of unseen samples": share}}
    expected = cosmo.expected_scores()
    named = zip(expected.scores._fields, expected.scores, expected.intervals, strict=True)
    figures = {name: {"mean": mean, "low": low, "high": high} for name, mean, (low, high) in named}
    return {"operating point": {"share of unseen samples": share}, "expected, 90 %": figures}


def card_text(card: Mapping[str, Any]) -> str:
    """Return a model card as text, one line per entry."""

    def show(value: Any) -> str:
        if isinstance(value, Mapping):
            return ", ".join(f"{name} {show(item)}" for name, item in value.items())
        if isinstance(value, list | tuple):
            return ", ".join(map(show, value))
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = {name: show(value) for name, value in card.items() if value is not None and value != []}
    width = max(map(len, lines), default=0)
    return "\n".join(f"{name:{width}}  {text}" for name, text in lines.items())


def _cosmo_of(model: Any) -> Cosmo:
    cosmo = getattr(model, "cosmo", model)
    if not isinstance(cosmo, Cosmo):
        raise ModelError(f"a model file holds a Cosmo or a Model, not a {type(cosmo).__name__}")
    return cosmo


def _probe(cosmo: Cosmo) -> NDArray[Any]:
    """Return the scores of a fixed input, and the area under the validation curve."""
    sample = np.linspace(-1, 1, cosmo.n_features_in_, dtype=np.float32)[None]
    scores = cosmo.combination_.scores(cosmo.experts_.outputs(sample))
    return np.append(scores, cosmo.validation_curve_.area)


def _check_probe(cosmo: Cosmo, expected: NDArray[Any]) -> None:
    try:
        found = _probe(cosmo)
    except MissingExtra:
        raise
    except Exception as error:  # an incomplete model may raise anything
        raise ModelError(f"the model cannot predict: {type(error).__name__}: {error}") from error
    if found.shape != expected.shape or not np.allclose(found, expected, atol=_TOLERANCE, equal_nan=True):
        raise ModelError(
            "the model does not predict what it did when it was saved: the file was altered, or the "
            "installed libraries work differently from those that wrote it"
        )


def _write(path: Path, content: Document, arrays: Arrays) -> None:
    """Write arrays and a document as one file; equal content gives equal bytes."""
    table = {name: {**_form(values), "sha256": digest(values)} for name, values in sorted(arrays.items())}
    text = json.dumps({**content, "arrays": table}, allow_nan=False, separators=(",", ":"))
    text = _HEAD + sha256(text.encode()) + _MIDDLE + text + _TAIL
    if len(text) > _LONGEST_HEADER // 2:  # escaped quotes take two characters
        raise ModelError(f"the document of the model has {len(text)} characters, too many for a file")
    write_atomic(path, to_bytes(arrays, {_KEY: text}))


def _read_document(path: Path) -> Document:
    """Return the document of a file after all checks that do not need the arrays."""
    with _open(path) as file:
        text, names = (file.metadata() or {}).get(_KEY), set(file.keys())
    if text is None:
        raise ModelError("not a model of cosmo: a safetensors file, but without a model's document")
    checksum, body = text[len(_HEAD) : len(_HEAD) + 64], text[_START : -len(_TAIL)]
    if text != _HEAD + checksum + _MIDDLE + body + _TAIL or sha256(body.encode()) != checksum:
        raise ModelError("damaged or altered: the document does not have its SHA-256")
    try:
        content: Document = json.loads(body)
        version, table = content.get("format_version"), content.get("arrays")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"damaged or altered: the document is not a JSON object ({error})") from error
    if not isinstance(version, int) or version < 1:
        raise ModelError("damaged or altered: the document has no format version")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"format version {version}, written by cosmo {content.get('package')}; this one reads versions "
            f"up to {FORMAT_VERSION}: upgrade with pip install --upgrade cosmo-gzsl"
        )
    if not isinstance(table, dict) or table.keys() != names:
        raise ModelError("damaged or altered: the document lists other arrays than the file has")
    types = content.get("types", [])
    if not isinstance(types, list) or not all(isinstance(one, str) for one in types):
        raise ModelError("damaged or altered: the types to trust are not names")
    return content


def _read_arrays(path: Path, content: Document) -> Arrays:
    """Return all arrays of a file after comparing each with its entry in the document."""
    arrays: Arrays = {}
    with _open(path) as file:
        for name, expected in content["arrays"].items():
            values = arrays[name] = file.get_tensor(name)
            if {**_form(values), "sha256": digest(values)} != expected:
                raise ModelError(f"damaged or altered: array {name!r} is not the one that was written")
    return arrays


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a safetensors file; errors of its format become ModelError."""
    path.open("rb").close()  # OSError of Python, with the name of the file
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except (SafetensorError, TypeError) as error:
        raise ModelError(f"not a model of cosmo, truncated or damaged: {error}") from error


def _form(values: NDArray[Any]) -> Document:
    return {"dtype": values.dtype.name, "shape": list(values.shape)}
