"""Every entry point against every fault, as the matrix says."""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from entry import clean
from file_entries import Refused
from matrix import ENTRIES, EXPECTED, FAULTS
from problem import Problem
from scipy import sparse

import cosmo

OURS, SKLEARN = Path(cosmo.__file__).parent, Path(sklearn.__file__).parent
ALL = [
    (entry, kind, fault) for entry, about in ENTRIES.items() for kind in about.takes for fault in FAULTS[kind]
]
PLACE = {key: place for place, key in enumerate(ALL)}


@pytest.fixture(scope="module", autouse=True)
def few_steps() -> Iterator[None]:
    """Generators train a classifier for each set of classes; how well does not matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cosmo.experts._synthetic._STEPS", 50)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@cache
def clean_result(entry: str, folder: Path) -> Any:
    """What the entry point makes of input that is in order."""
    about = ENTRIES[entry]
    return about.run(clean().spoiled(lambda *_: None, "", folder / "clean", about.number))


def raised_in(error: BaseException, package: Path) -> bool:
    """Tell whether an error comes from a package, not from a dependency below it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return Path(frame.filename).is_relative_to(package)


def raised_by_us(error: BaseException) -> bool:
    """Tell whether an error comes from a `raise` in our package."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    statement = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return raised_in(error, OURS) and statement.startswith("raise")


def equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if sparse.issparse(one):
        return (one != other).nnz == 0
    if isinstance(one, pd.DataFrame | pd.Index):
        return one.equals(other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool(np.all((one == other) | (pd.isna(one) & pd.isna(other))))
    return one == other or one != one


def test_the_table_is_complete():
    assert set(EXPECTED) == set(ALL)


@pytest.mark.parametrize("entry", ENTRIES)
def test_input_in_order_is_taken(entry: str, folder: Path):
    clean_result(entry, folder)


def cells() -> list[Any]:
    """Return the cells that there is something to try in."""
    return [
        pytest.param(*key, id="-".join(key))
        for key in ALL
        if key not in EXPECTED or EXPECTED[key].kind != "n/a"
    ]


@pytest.mark.parametrize(("entry", "kind", "fault"), cells())
def test_fault(entry: str, kind: str, fault: str, folder: Path):
    cell, about = EXPECTED[entry, kind, fault], ENTRIES[entry]
    expected = None if cell.kind == "error" else clean_result(entry, folder)
    own = folder / str(PLACE[entry, kind, fault])
    problem = clean().spoiled(FAULTS[kind][fault], about.takes[kind], own, about.number)
    before = problem.inputs(about.takes.values())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if cell.error is not None:
            with pytest.raises(cell.error) as found:
                about.run(problem)
            message = str(found.value)
            assert all(part in message for part in cell.says), message
            if cell.theirs:
                assert raised_in(found.value, SKLEARN)
            else:
                assert type(found.value) is cell.error
                assert issubclass(cell.error, Refused) or raised_by_us(found.value), "".join(
                    traceback.format_exception(found.value)
                )
        else:
            result = about.run(problem)
            assert cell.check is not None
            cell.check(result, expected)
    assert bool(told) == cell.warns, [str(one.message) for one in told]
    after = problem.inputs(about.takes.values())
    changed = [name for name, value in after.items() if not equal(value, before[name])]
    assert not changed, f"changed in place: {changed}"


def test_nothing_that_was_in_order_has_been_changed():
    now, again = clean().inputs(), Problem(Path()).inputs()
    assert [name for name, value in now.items() if not equal(value, again[name])] == []
