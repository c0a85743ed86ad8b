"""Fitted models as one file, `*.cosmo`: arrays as safetensors, structure as JSON, no code."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cosmo._core.extras import MissingExtra, versions
from cosmo.classifier._cosmo import Cosmo
from cosmo.io.model_file.container import FORMAT_VERSION, ModelError, read_arrays, read_document, write
from cosmo.io.model_file.values import pack, unpack

__all__ = ["FORMAT_VERSION", "ModelError", "load", "read_card", "save"]

_TOLERANCE = 1e-3  # of probabilities, between machines and versions of libraries


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model to one file, atomically.

    Stored is what prediction, `add_classes`, `promote` and `operate_at` need. Folders of this machine
    (`cache`, `checkpoints`) and the hold-out are not; of the validation outputs, only their summary is.

    Parameters
    ----------
    model : Cosmo or Model
    path : path
        Usually ends in ".cosmo".

    Raises
    ------
    ModelError
        If a part of the model is of a class that is not in `cosmo.io.model_file.registry.KNOWN`.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "glyphs.cosmo")
    ...     save(model, path)
    ...     loaded, card = load(path), read_card(path)
    >>> card["format_version"]
    1
    >>> bool((loaded.predict(data.features) == model.predict(data.features)).all())
    True
    """
    cosmo = _cosmo_of(model)
    check_is_fitted(cosmo, "experts_")
    root, arrays = pack(model, "model")
    content = {
        "format_version": FORMAT_VERSION,
        "package": version("cosmo-gzsl"),
        "versions": versions(),
        "card": None if model is cosmo else model.card(),
        "root": root,
    }
    # Load before writing: a file that cannot be loaded must not replace one that can.
    answer = _probe(cosmo)
    try:
        _check_probe(_cosmo_of(unpack(root, arrays)), answer)
    except ModelError as error:
        raise ModelError(f"the model cannot be stored: {error}") from error
    write(Path(path), content, {**arrays, "answer": answer})


def load(path: str | Path) -> Any:
    """Load the `Cosmo` or `Model` of a file; nothing in the file is executed.

    Only classes of the registry are built, from plain values. The file has the scores of a fixed input; a
    model with other scores, because a part is missing or a library has changed, is not loaded.

    Raises
    ------
    ModelError
        If the file is damaged, altered, of another program or of a newer version.
    OSError
        If the file does not exist or cannot be opened.
    """
    try:
        content = read_document(Path(path))
        arrays = read_arrays(Path(path), content)
        if "answer" not in arrays or "root" not in content:
            raise ModelError("damaged or altered: the model, or its scores of a fixed input, are missing")
        answer = arrays.pop("answer")
        model = unpack(content["root"], arrays)
        longest = max((size for values in arrays.values() for size in values.shape), default=0)
        if not getattr(_cosmo_of(model), "n_features_in_", 0) <= longest:
            raise ModelError("damaged or altered: it claims more features than its arrays have")
        _check_probe(_cosmo_of(model), answer)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    return model


def read_card(path: str | Path) -> dict[str, Any]:
    """Return the card of a saved model and the versions that wrote it; raise as `load`."""
    try:
        content = read_document(Path(path))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    header = {name: content.get(name) for name in ("format_version", "package", "versions")}
    return {**header, **(content.get("card") or {})}


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
