"""Transforms of features, row by row, that both experts share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cosmo.experts._linear import unit_rows
from cosmo.experts.base import Array

TRANSFORMS: dict[str, Callable[[Array], Array]] = {
    "none": lambda X: X,
    "roots": lambda X: np.copysign(np.sqrt(np.abs(X)), X),
    "unit": unit_rows,
    "unit roots": lambda X: unit_rows(TRANSFORMS["roots"](X)),
}


def transformed(X: Array, name: str) -> Array:
    """Return the rows by the transform of this name: square roots keep the sign, and unit is the length."""
    return TRANSFORMS[name](X)
