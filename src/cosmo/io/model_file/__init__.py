"""Fitted models as one file, `*.cosmo`: arrays as safetensors, structure as JSON, nothing that runs."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cosmo._core.extras import MissingExtra, versions
from cosmo.io.model_file.container import FORMAT_VERSION, ModelError, read_arrays, read_document, write
from cosmo.io.model_file.values import pack, unpack

if TYPE_CHECKING:
    from cosmo.classifier._cosmo import Cosmo
    from cosmo.io.model import Model

__all__ = ["FORMAT_VERSION", "ModelError", "load", "read_card", "save"]

_TOLERANCE = 1e-3  # of probabilities, between machines and versions of libraries


def save(model: Cosmo | Model, path: str | Path) -> None:
    """Write a fitted model: everything that prediction, `add_classes` and `operate_at` need.

    What belongs to this machine or to the training alone is left out: folders (`cache`, `checkpoints`) and
    `hold_out`. Of the validation outputs, only what the curve needs is kept.

    Parameters
    ----------
    model : Cosmo or Model
        Its parts must be of classes that the format knows (`cosmo.io.model_file.registry.KNOWN`); others are
        refused with `ModelError`.
    path : path
        By custom it ends in ".cosmo". The file is written whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "glyphs.cosmo")
    ...     save(model, path)
    ...     again, card = load(path), read_card(path)
    >>> card["format_version"]
    1
    >>> bool((again.predict_proba(data.features) == model.predict_proba(data.features)).all())
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
    # Read back before anything is written: what cannot be read again is not a saved model.
    answer = _answer(cosmo)
    try:
        _check_answer(_cosmo_of(unpack(root, arrays)), answer)
    except ModelError as error:
        raise ModelError(f"the model cannot be stored: {error}") from error
    write(Path(path), content, {**arrays, "answer": answer})


def load(path: str | Path) -> Any:
    """Return the `Cosmo` or `Model` that was saved; a damaged, altered, newer or foreign file is refused.

    Nothing in the file is run: only classes of the registry are built, from plain values. The file says how
    the model answered one made-up sample when it was saved; a model that answers otherwise, because a part
    is missing or a library has changed its ways, is refused.

    Raises
    ------
    ModelError
        Names the file and the reason.
    OSError
        The file is not there, or cannot be opened.
    """
    try:
        content = read_document(Path(path))
        arrays = read_arrays(Path(path), content)
        if "answer" not in arrays or "root" not in content:
            raise ModelError("damaged or altered: it lacks the model, or the model's answer")
        answer = arrays.pop("answer")
        model = unpack(content["root"], arrays)
        longest = max((size for values in arrays.values() for size in values.shape), default=0)
        if not getattr(_cosmo_of(model), "n_features_in_", 0) <= longest:
            raise ModelError("damaged or altered: it claims more features than its arrays have")
        _check_answer(_cosmo_of(model), answer)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    return model


def read_card(path: str | Path) -> dict[str, Any]:
    """Return a saved model's card, and the versions that wrote it, without building the model.

    Raises
    ------
    ModelError
        As `load`.
    """
    try:
        content = read_document(Path(path))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    return {
        "format_version": content["format_version"],
        "package": content.get("package"),
        "versions": content.get("versions"),
        **(content.get("card") or {}),
    }


def _cosmo_of(model: Any) -> Cosmo:
    from cosmo.classifier._cosmo import Cosmo
    from cosmo.io.model import Model

    cosmo = model.cosmo if isinstance(model, Model) else model
    if not isinstance(cosmo, Cosmo):
        raise ModelError(f"a model file holds a Cosmo or a Model, not a {type(cosmo).__name__}")
    return cosmo


def _answer(cosmo: Cosmo) -> NDArray[Any]:
    """Return the model's scores of all classes for one made-up sample, and the area under its curve."""
    sample = np.linspace(-1, 1, cosmo.n_features_in_, dtype=np.float32)[None]
    scores = cosmo.combination_.scores(cosmo.experts_.outputs(sample))
    return np.append(scores, cosmo.validation_curve_.area)


def _check_answer(cosmo: Cosmo, expected: NDArray[Any]) -> None:
    try:
        answer = _answer(cosmo)
    except MissingExtra:
        raise
    except Exception as error:  # whatever an incomplete model stumbles over
        raise ModelError(f"the model cannot answer: {type(error).__name__}: {error}") from error
    if answer.shape != expected.shape or not np.allclose(answer, expected, atol=_TOLERANCE, equal_nan=True):
        raise ModelError(
            "the model answers otherwise than when it was saved: altered, or made by libraries that work "
            "differently from those installed here"
        )
