"""Which attributes of the benchmarks belong together, by their position.

Colours of a wing exclude each other; LAGO builds on such groups. The files of the benchmark do not name
attributes, but their order is fixed, so the sizes of the groups are enough.
"""

from __future__ import annotations

import pandas as pd

__all__ = ["known_groups"]

_CUB = (
    "bill shape 9, wing colour 15, upperparts colour 15, underparts colour 15, breast pattern 4, "
    "back colour 15, tail shape 6, upper tail colour 15, head pattern 11, breast colour 15, "
    "throat colour 15, eye colour 14, bill length 3, forehead colour 15, under tail colour 15, "
    "nape colour 15, belly colour 15, wing shape 5, size 5, shape 14, back pattern 4, tail pattern 4, "
    "belly pattern 4, primary colour 15, leg colour 15, bill colour 15, crown colour 15, wing pattern 4"
)
_AWA = (
    "colour 8, texture 6, shape 4, parts 15, smell 1, activity 10, parts 2, behaviour 5, nutrition 11, "
    "world region 2, habitat 14, character 7"
)
_SUN = "function 36, material 38, surface 13, spatial envelope 15"
_KNOWN = {"CUB": _CUB, "AWA": _AWA, "AWA1": _AWA, "AWA2": _AWA, "SUN": _SUN}


def known_groups(dataset: str, n_attributes: int) -> pd.MultiIndex | None:
    """Return the columns (group, number) of a benchmark's attributes, or None for any other table.

    Examples
    --------
    >>> columns = known_groups("CUB", 312)
    >>> columns[0], columns[311], columns.get_level_values(0).nunique()
    (('bill shape', '1'), ('wing pattern', '4'), 28)
    >>> known_groups("CUB", 1024)  # sentences
    """
    sizes = [item.rpartition(" ") for item in _KNOWN.get(dataset.upper(), "").split(", ") if item]
    if sum(int(size) for *_, size in sizes) != n_attributes:
        return None
    groups = pd.Series([group for group, _, size in sizes for _ in range(int(size))])
    numbers = groups.groupby(groups).cumcount() + 1
    return pd.MultiIndex.from_arrays([groups, numbers.astype(str)], names=["group", "attribute"])
