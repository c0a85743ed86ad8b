"""What an entry point may do about a fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

Check = Callable[[Any, Any], None]


@dataclass(frozen=True)
class Cell:
    """An outcome.

    Parameters
    ----------
    kind : {"same", "works", "error", "n/a"}
    about : str
        For the page: what is checked of the result, what the message says, or why there is nothing to try.
    check : function of the result and that of the clean input
    error : exception, of which the message has all of `says`
    warns : bool
        Whether a warning is part of a dependency's contract.
    theirs : bool
        Whether the error is scikit-learn's own.
    """

    kind: str
    about: str = ""
    check: Check | None = None
    error: type[BaseException] | None = None
    says: tuple[str, ...] = ()
    warns: bool = False
    theirs: bool = False


def same(*, warns: bool = False) -> Cell:
    """The result is that of the clean input."""
    return Cell("same", check=assert_alike, warns=warns)


def works(about: str, check: Check) -> Cell:
    """There is a result, which passes a check."""
    return Cell("works", about, check)


def error(kind: type[BaseException], *says: str) -> Cell:
    """Our own error, whose message names the input and the fix."""
    return Cell("error", " … ".join(says), error=kind, says=says)


def by_sklearn(kind: type[BaseException], *says: str) -> Cell:
    """The error of scikit-learn, of a class that extends one of its own."""
    return replace(error(kind, *says), theirs=True)


def na(why: str) -> Cell:
    """There is nothing to try."""
    return Cell("n/a", why)


def assert_alike(result: Any, expected: Any, *, atol: float = 1e-4) -> None:
    """Check that two results are equal, numbers up to rounding."""
    if isinstance(expected, tuple):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(result, expected, check_dtype=False, rtol=1e-3, atol=atol)
    elif isinstance(expected, str):
        assert result == expected
    elif np.asarray(expected).dtype.kind == "f":
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=atol)
    else:
        np.testing.assert_array_equal(result, expected)


def _rows(result: Any, rows: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_rows(one, rows) for one in result)
    if isinstance(result, pd.DataFrame):
        part = result.iloc[rows].reset_index(drop=True)
        return part.assign(row=np.arange(1, len(part) + 1)) if "row" in part else part
    return result[rows]


def _distribution(result: Any, clean: Any) -> None:
    assert np.isfinite(result).all()
    assert (result >= 0).all()
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=1e-4)


def _finite(result: Any, clean: Any) -> None:
    values = np.asarray(result, dtype=np.float64)
    assert np.isfinite(values).all()


def _within(result: Any, clean: Any) -> None:
    values = np.asarray(result, dtype=np.float64)
    assert ((values >= 0) & (values <= 1)).all()


FIRST = works("the first row of the usual result", lambda r, c: assert_alike(r, _rows(c, slice(0, 1))))
NONE = works("no rows", lambda r, c: assert_alike(r, _rows(c, slice(0, 0))))
TWICE = works(
    "the usual result, twice", lambda r, c: assert_alike(r, _rows(c, np.tile(np.arange(len(c)), 2)))
)
DISTRIBUTION = works("probabilities that sum to one", _distribution)
FINITE = works("finite numbers", _finite)
WITHIN = works("numbers from 0 to 1", _within)
# A sharp gate magnifies how sums are rounded.
REVERSED = works("the usual columns, in that order", lambda r, c: assert_alike(r, c[:, ::-1], atol=2e-3))
UPSIDE_DOWN = works("the usual rows, in that order", lambda r, c: assert_alike(r, c.iloc[::-1]))


def equals(about: str, value: Any) -> Cell:
    """The result is known beforehand."""
    return works(about, lambda r, c: assert_alike(np.asarray(r, dtype=float), np.asarray(value, dtype=float)))


def reads(about: str, right: Callable[[Any], bool]) -> Cell:
    """What is read, or printed, is right."""

    def check(result: Any, clean: Any) -> None:
        assert right(result), result

    return works(about, check)
