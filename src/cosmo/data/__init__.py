"""Readers, writers and the built-in data set: everything that ends in a `GZSLDataset`."""

from cosmo.data.dataset import DataError, GZSLDataset, Split

__all__ = ["DataError", "GZSLDataset", "Split"]
