"""Readers, writers and the built-in data set: everything that ends in a `GZSLDataset`."""

from cosmo.data._glyph_features import glyph_features
from cosmo.data.dataset import DataError, GZSLDataset, Split
from cosmo.data.descriptions import match_labels, read_descriptions
from cosmo.data.glyphs import load_glyphs, write_glyph_images
from cosmo.data.images import read_image_folder, read_image_table
from cosmo.data.plain import read_plain, write_plain
from cosmo.data.predictions import StagePredictions, expert_from_predictions, read_predictions
from cosmo.data.tables import read_features, read_table, read_texts
from cosmo.data.xlsa17 import read_xlsa17, read_xlsa17_split, write_xlsa17

__all__ = [
    "DataError",
    "GZSLDataset",
    "Split",
    "StagePredictions",
    "expert_from_predictions",
    "glyph_features",
    "load_glyphs",
    "match_labels",
    "read_descriptions",
    "read_features",
    "read_image_folder",
    "read_image_table",
    "read_plain",
    "read_predictions",
    "read_table",
    "read_texts",
    "read_xlsa17",
    "read_xlsa17_split",
    "write_glyph_images",
    "write_plain",
    "write_xlsa17",
]
