"""Readers, writers and the built-in data set: everything that ends in a `GZSLDataset`."""

from cosmo.data.dataset import DataError, GZSLDataset, Split
from cosmo.data.glyph_features import glyph_features
from cosmo.data.glyphs import load_glyphs
from cosmo.data.predictions import StagePredictions, expert_from_predictions, read_predictions
from cosmo.data.xlsa17 import read_xlsa17, read_xlsa17_split, write_xlsa17

__all__ = [
    "DataError",
    "GZSLDataset",
    "Split",
    "StagePredictions",
    "expert_from_predictions",
    "glyph_features",
    "load_glyphs",
    "read_predictions",
    "read_xlsa17",
    "read_xlsa17_split",
    "write_xlsa17",
]
