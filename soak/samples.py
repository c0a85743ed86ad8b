"""Small data sets and models that the trials work with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from cosmo import ESZSL, Model, fit_model
from cosmo.data import GZSLDataset, Split

N_FEATURES, N_ATTRIBUTES = 7, 12
CLASSES = ("apple", "pear", "plum", "fig", "lime", "kiwi")


def fruit() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return labelled samples of four fruits, and descriptions of six."""
    rng = np.random.default_rng(0)
    attributes = [f"a{i}" for i in range(N_ATTRIBUTES)]
    table = pd.DataFrame(rng.integers(0, 2, (6, N_ATTRIBUTES)), index=list(CLASSES), columns=attributes)
    table.index.name = "class"
    labels = np.repeat(CLASSES[:4], 20)
    rows = table.loc[labels].to_numpy() @ rng.normal(size=(N_ATTRIBUTES, N_FEATURES))
    samples = pd.DataFrame(rows + 0.3 * rng.normal(size=rows.shape)).round(4)
    samples.columns = [f"f{i}" for i in range(N_FEATURES)]
    return samples.assign(label=labels), table


@cache
def fruit_model() -> Model:
    """Return a model of these fruits."""
    samples, table = fruit()
    features = samples.drop(columns="label").to_numpy(np.float32)
    return fit_model(features, samples["label"], table, unseen=ESZSL(1.0, 1.0))


def write_fruit(folder: Path) -> None:
    """Write samples and descriptions as tables."""
    samples, table = fruit()
    samples.to_csv(folder / "samples.csv", index=False)
    table.to_csv(folder / "descriptions.csv")


def pets() -> GZSLDataset:
    """Return a data set with a split, grouped attributes and names of samples."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (6, 4)), index=["cat", "dog", "fox", "owl", "hen", "Möwe"])
    table.columns = pd.MultiIndex.from_product([["fur", "food"], ["a", "b"]])
    labels = np.repeat(table.index.to_numpy(), 3)
    rows = np.arange(18)
    split = Split(
        trainval=rows[[0, 1, 3, 4, 6, 7, 9, 10]], test_seen=rows[[2, 5, 8, 11]], test_unseen=rows[12:]
    )
    names = [f"{label}/{row}.jpg" for row, label in enumerate(labels)]
    return GZSLDataset(rng.normal(size=(18, 5)), labels, table, split, sample_names=names, name="pets")
