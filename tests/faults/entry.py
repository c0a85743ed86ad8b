"""What an entry point is, and what many of them need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from problem import Problem
from sklearn.base import clone

from cosmo import Model, fit_model
from cosmo import experts as ex
from cosmo.data import GZSLDataset


@dataclass(frozen=True)
class Entry:
    """An entry point.

    Parameters
    ----------
    run : function of a Problem
    takes : dict
        Which input of the problem is spoiled by the faults of a kind.
    number : value of `Problem.number` that is in order
    """

    run: Callable[[Problem], Any]
    takes: dict[str, str] = field(default_factory=dict)
    number: Any = 1.0


FITTED = {"features": "X", "labels": "y", "descriptions": "table"}
ASKED = {"features": "X_new"}
LABELLED = {"features": "X_new", "labels": "y_new"}

EXPERTS: dict[str, ex.UnseenExpert] = {
    "ESZSL": ex.ESZSL(1.0, 1.0, temperature=0.1),
    "DAP": ex.DAP(0.01, temperature=1.0),
    "SJE": ex.SJE(3.0, 2, temperature=0.1),
    "DeViSE": ex.DeViSE(3.0, 2, temperature=0.1),
    "ALE": ex.ALE(3.0, 2, temperature=0.1),
    "SynC": ex.SynC(2.0**-16, 1.0, temperature=0.1),
    "LAGO": ex.LAGO(epochs=2),
    "Kernel": ex.Kernel(0.8, 10, temperature=0.1),
    "SimilarityExpert": ex.SimilarityExpert(0.5, 0.5, temperature=0.1),
    "TRIPLE": ex.TRIPLE(0.1, 1.0, 1e-3, temperature=0.1),
    "CMT": ex.CMT(2, hidden=8, batch_size=32, temperature=0.1),
    "DCN": ex.DCN(2, hidden=8, temperature=1.0),
    "DEM": ex.DEM(2, hidden=8, temperature=0.1),
    "RN": ex.RN(2, hidden=8, class_hidden=8, temperature=1.0),
    "ICINESS": ex.ICINESS(2, hidden=8, temperature=1.0),
    "FCLSWGAN": ex.FCLSWGAN(1, hidden=8, n_syn=3),
    "CycleWGAN": ex.CycleWGAN(1, hidden=8, n_syn=3),
    "CycleUWGAN": ex.CycleUWGAN(1, hidden=8, n_syn=3),
    "SEGZSL": ex.SEGZSL(1, hidden=8, n_syn=3),
}

GENERATORS = ("FCLSWGAN", "CycleWGAN", "CycleUWGAN", "SEGZSL")


@cache
def clean() -> Problem:
    return Problem(Path())


@cache
def fitted_model() -> Model:
    p = clean()
    return fit_model(p.X, p.y, p.table, unseen=clone(EXPERTS["ESZSL"]), exemplars=4)


def queries(p: Problem) -> np.ndarray:
    """Return clean samples, of as many features as the training had."""
    return clean().X_new[:, : np.shape(p.X)[1]]


def dataset(p: Problem) -> GZSLDataset:
    """Return the samples of the training and others, as one set; faults are in the former."""
    return GZSLDataset(joined(p.X, p.X_new), joined(p.y, p.y_new), p.table, p.split)


def joined(one: Any, other: Any) -> Any:
    """Return the samples of the training, then the others, where they can be put together."""
    if isinstance(one, np.ma.MaskedArray):
        return np.ma.concatenate([one, other])
    if not isinstance(one, np.ndarray) or one.ndim != other.ndim:
        return one
    return np.concatenate([one, other[:, : one.shape[1]] if one.ndim == 2 else other])


def told(dataset: GZSLDataset) -> Any:
    return dataset.features, dataset.labels.to_numpy(), dataset.descriptions
