"""Data sets: readers, writers, splits and the built-in glyphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosmo._core import lazy

if TYPE_CHECKING:
    from cosmo.data.dataset import DataError, GZSLDataset, Split
    from cosmo.data.glyphs import glyph_features, load_glyphs, write_glyph_images
    from cosmo.data.images import read_image_folder, read_image_table
    from cosmo.data.plain import StagePredictions, read_plain, read_predictions, write_plain
    from cosmo.data.tables import match_labels, read_descriptions, read_features, read_table, read_texts
    from cosmo.data.xlsa17 import read_xlsa17, read_xlsa17_split, write_xlsa17

# Modules are imported on first use: most programs need one reader of many.
_NAMES = {
    "dataset": ("DataError", "GZSLDataset", "Split"),
    "glyphs": ("glyph_features", "load_glyphs", "write_glyph_images"),
    "images": ("read_image_folder", "read_image_table"),
    "plain": ("StagePredictions", "read_plain", "read_predictions", "write_plain"),
    "tables": ("match_labels", "read_descriptions", "read_features", "read_table", "read_texts"),
    "xlsa17": ("read_xlsa17", "read_xlsa17_split", "write_xlsa17"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__getattr__, __dir__ = lazy(__name__, _MODULES)
__all__ = [*_MODULES]
