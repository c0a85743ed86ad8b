"""The matrix as a page: `python tests/faults/page.py > docs/bad-input.md`."""

from __future__ import annotations

from collections import Counter

from entries import GATES
from entry import EXPERTS, GENERATORS
from matrix import ENTRIES, EXPECTED, FAULTS
from studio_entries import STUDIO_ENTRIES
from table import FITS, SCORED

INPUTS = {
    "features": "Samples, a row for each, or a matrix of scores.",
    "labels": "The class of each sample.",
    "descriptions": "A row for each class.",
    "probabilities": "What experts say: a row for each sample, a column for each class.",
    "scores": "One number for each sample.",
    "numbers": "Parameters.",
    "class order": "Classes, and what has a column for each; names count, not places.",
    "sent numbers": "A sample, or the description of a class, as JSON.",
    "sent names": "The name of a new class, as JSON.",
    "sent texts": "A sample, or the description of a class, in words, as JSON.",
    "sent pictures": "A sample, as a file.",
    "requests": "All else that a client of the studio sends.",
}
TOGETHER = {
    "`fit` of every unseen expert": set(FITS),
    "`scores` of every unseen expert": set(SCORED),
    "`scores` of every unseen expert that makes no features": {
        f"{name}.scores" for name in EXPERTS if name not in GENERATORS
    },
    "`fit` of every unseen expert that makes no features": {
        f"{name}.fit" for name in EXPERTS if name not in GENERATORS
    },
    "`fit` of every gate": {f"{name}.fit" for name in GATES},
    "the studio": set(STUDIO_ENTRIES),
}
START = """\
# Bad input

What every entry point does about input that is wrong or unusual: the right result, or an error that names
the input and says what to do. No input is changed in place, no warning is left to guess about, and no error
comes from a library below. `python tests/faults/page.py` makes these tables from those that drive the tests:
{entries} entry points, {faults} faults, {cells} pairs. Of these {error} end in an error, {same} in the
result of clean input, {works} in another right one; {na} cannot occur.

An entry point such as `Cosmo.operate_at(threshold)` stands for its parameter. Seen experts are scikit-learn
classifiers; `Cosmo` checks what they get. By itself, `SoftmaxRegression` behaves as those do: it is the one
whose errors are scikit-learn's. The studio (`POST ...`) answers with a status and a sentence, never with a
status of 500 or above.
"""


def page() -> str:
    """Return the page."""
    count = Counter(cell.kind for cell in EXPECTED.values())
    faults = sum(len(kinds) for kinds in FAULTS.values())
    told = {kind: count[kind] for kind in ("error", "same", "works")}
    sizes = {"entries": len(ENTRIES), "faults": faults, "cells": len(EXPECTED), "na": count["n/a"]}
    lines = [START.format(**sizes, **told)]
    for kind, faults_of in FAULTS.items():
        lines += [f"## {kind.capitalize()}", "", INPUTS[kind], ""]
        lines += ["| fault | what happens | where |", "| --- | --- | --- |"]
        for fault in faults_of:
            outcomes: dict[str, list[str]] = {}
            for entry, about in ENTRIES.items():
                if kind in about.takes:
                    outcomes.setdefault(_outcome(entry, kind, fault), []).append(entry)
            lines += [f"| {fault} | {outcome} | {_names(names)} |" for outcome, names in outcomes.items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _outcome(entry: str, kind: str, fault: str) -> str:
    cell = EXPECTED[entry, kind, fault]
    if cell.error is not None:
        names = {"Refused": "exit status 2: ", "Answered": ""}
        name = names.get(cell.error.__name__, f"`{cell.error.__name__}`: ")
        return f"{name}{_plain(cell.about)}"
    if cell.kind == "n/a":
        return f"– ({_plain(cell.about)})"
    return _plain(cell.about) or "the usual result"


def _names(names: list[str]) -> str:
    left, told = list(names), []
    for text, group in TOGETHER.items():
        if group <= set(left):
            told.append(text)
            left = [name for name in left if name not in group]
    return ", ".join([*told, *(f"`{name}`" for name in left)])


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
