"""The data set that a command works on: its options, and how they are read."""

from __future__ import annotations

import argparse
from pathlib import Path

from cosmo.data import DataError, GZSLDataset, load_glyphs, read_xlsa17
from cosmo.experts import UnseenExpert

__all__ = ["add_dataset_options", "check_dataset", "load"]


def add_dataset_options(options: argparse.ArgumentParser) -> None:
    """Add DATASET and the options that say what to read of a folder."""
    add = options.add_argument
    add("dataset", nargs="?", default="glyphs", metavar="DATASET",
        help="'glyphs' (built in, default) or a folder in xlsa17 layout")  # fmt: skip
    add("--features", default="res101", metavar="NAME",
        help="feature file of the folder, without .mat (default %(default)s)")  # fmt: skip
    add("--attributes", metavar="FILE",
        help="text file that names the attributes, group::attribute a line (the groups of CUB, AWA and SUN "
        "are known)")  # fmt: skip
    add("--roots", action="store_true", help="take square roots of the features (they may not be negative)")


def check_dataset(name: str) -> None:
    """Raise unless there is such a data set."""
    if name != "glyphs" and not Path(name).is_dir():
        raise ValueError(f"{name!r} is neither 'glyphs' nor a folder")


def load(
    args: argparse.Namespace, expert: UnseenExpert, *, descriptions: str, original: bool, seed: int
) -> GZSLDataset:
    """Return the data set that the options name, described as an expert takes it.

    Parameters
    ----------
    expert : UnseenExpert
        If it needs descriptions as recorded, those are read where the folder has them.
    descriptions : str
        Name of the folder's descriptions file.
    original : bool
        Whether to read its descriptions as recorded, whatever the expert.
    seed : int
        Draws the samples of 'glyphs'.
    """
    dataset = _load(args, expert, descriptions, original, seed)
    return dataset.with_roots() if args.roots else dataset


def _load(
    args: argparse.Namespace, expert: UnseenExpert, descriptions: str, original: bool, seed: int
) -> GZSLDataset:
    if args.dataset == "glyphs":
        return load_glyphs(seed=seed)

    def read(original: bool) -> GZSLDataset:
        return read_xlsa17(
            args.dataset,
            features=args.features,
            descriptions=descriptions,
            attributes=args.attributes,
            original=original,
        )

    if original or not expert.as_recorded:
        return read(original)
    try:
        return read(True)
    except DataError:
        return read(False)  # the expert says what is wrong with them
