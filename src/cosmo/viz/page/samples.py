"""Names, texts and pictures of the samples of a view."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo.data import GZSLDataset
from cosmo.io.model import Model
from cosmo.viz.page.render import atlas_of_arrays, atlas_of_files

_MAX_CHARACTERS = 400  # of a text


def dataset_samples(data: GZSLDataset, rows: NDArray[np.intp]) -> dict[str, Any]:
    """Return the names, texts and pictures of some rows of a data set."""
    names = None if data.sample_names is None else [_short(data.sample_names[row]) for row in rows]
    texts = None if data.texts is None else [str(data.texts[row])[:_MAX_CHARACTERS] for row in rows]
    pictures = None if data.images is None else atlas_of_arrays(np.asarray(data.images)[rows])
    return {"names": names, "texts": texts, "pictures": pictures}


def item_kind(model: Model, items: Any) -> str | None:
    """Return "text" or "images" if the samples can be shown, else None."""
    if items is None or model.encoder_name is None or isinstance(items, np.ndarray | pd.DataFrame):
        return None
    return model.encoder.kind if all(isinstance(one, str | PurePath) for one in items) else None


def item_samples(model: Model, items: Any, rows: NDArray[np.intp]) -> dict[str, Any] | None:
    """Return the texts or thumbnails of samples before encoding."""
    kind = item_kind(model, items)
    if kind is None:
        return None
    shown = [items[row] for row in rows]
    if kind == "text":
        return {"texts": [text[:_MAX_CHARACTERS] for text in shown]}
    return {"names": [_short(path) for path in shown], "pictures": atlas_of_files(shown)}


def _short(path: Any) -> str:
    """Return the last two parts of a path; the rest of it is private."""
    return "/".join(PurePath(str(path)).parts[-2:])
