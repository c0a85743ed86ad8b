"""What is expected of class descriptions."""

from __future__ import annotations

from cells import DISTRIBUTION, FINITE, REVERSED, UPSIDE_DOWN, error, na, reads, same
from entry import EXPERTS, GENERATORS
from expected_features import SLOW, fitting, one_space
from expected_labels import release
from file_entries import Refused
from table import EXPECTED, FITS, Cells, expect

from cosmo.data import DataError


def descriptions(kind: type[Exception] = ValueError, *, label: str = "cat", row: int = 1) -> Cells:
    """Return what `cosmo._core.validation.check_descriptions` does."""
    value = error(
        kind, f"has a missing or infinite value: class '{label}'", "fill it in or drop the attribute"
    )
    empty = error(kind, "is empty (shape", "a row for each class and a column for each attribute")
    return {
        "NaN": value,
        "infinite": value,
        "empty": empty,
        "no columns": empty,
        "an array": error(
            TypeError if kind is ValueError else kind, "must be a pandas DataFrame with one row per class"
        ),
        "text": error(kind, "must hold numbers only", "'red'", "encode words as numbers first"),
        **dict.fromkeys(("objects", "sparse", "read-only", "float16", "float64", "not contiguous"), same()),
        "a class twice": error(kind, "describes a class more than once", "keep one row for each"),
        "a class without a name": error(
            kind, f"has no class label in row {row}", "name the class or drop the row"
        ),
    }


missing = error(ValueError, "y without a description: 'ant'", "add a row for each to the descriptions")
others = error(ValueError, "y without a description: 'bee'", "add a row for each to the descriptions")
LEARNED = {
    "one class": others,
    "a class missing": missing,
    **dict.fromkeys(
        ("all zero", "two alike", "a column short", "columns in another order", "classes in another order"),
        DISTRIBUTION,
    ),
}
expect([*FITS, "select", "Cosmo.fit", "fit_model"], "descriptions", descriptions(), LEARNED)
ordered = ["ESZSL.fit", "DAP.fit", "SJE.fit", "DeViSE.fit", "ALE.fit", "SynC.fit", "Kernel.fit", "TRIPLE.fit"]
expect([*ordered, "select", "Cosmo.fit", "fit_model"], "descriptions", {"columns in another order": same()})
closed = ["ESZSL.fit", "SimilarityExpert.fit", "TRIPLE.fit", "select", "Cosmo.fit", "fit_model"]
expect(closed, "descriptions", {"classes in another order": REVERSED})
expect(
    [f"{name}.fit" for name in GENERATORS],
    "descriptions",
    {fault: SLOW for fault, cell in {**descriptions(), **LEARNED}.items() if cell.kind != "error"},
)
expect("SimilarityExpert.fit", "descriptions", {"a column short": one_space})
expect(
    "fit_model",
    "descriptions",
    {"an array": error(TypeError, "descriptions must be a DataFrame of numbers", "got ndarray")},
)
expect(
    [f"{name}.scores" for name in EXPERTS if name not in GENERATORS],
    "descriptions",
    descriptions(),
    {
        "one class": FINITE,
        "a class missing": FINITE,
        "all zero": FINITE,
        "two alike": FINITE,
        "a column short": error(
            ValueError, "descriptions must have the 6 attributes of the training", "got 5"
        ),
        "columns in another order": error(ValueError, "attributes of the training, in the same order"),
        "classes in another order": REVERSED,
    },
)
MORE = {
    **dict.fromkeys(("one class", "a class missing", "all zero", "two alike"), DISTRIBUTION),
    "a column short": error(
        ValueError, "the new descriptions must have the same 6 attributes as the model's"
    ),
    "columns in another order": same(),
    "classes in another order": DISTRIBUTION,
}
expect("Cosmo.add_classes", "descriptions", descriptions(label="kea"), MORE)
TOLD = {
    "all zero": reads("the zeros", lambda found: not found[2].iloc[1].any()),
    "two alike": reads("both", lambda found: found[2].iloc[0].equals(found[2].iloc[1])),
    "a column short": reads("five columns", lambda found: found[2].shape == (9, 5)),
    "columns in another order": reads("as they are", lambda found: found[2].shape == (9, 6)),
    "classes in another order": reads("as they are", lambda found: found[2].index[0] == "fox"),
}
expect(
    "GZSLDataset",
    "descriptions",
    descriptions(DataError),
    TOLD,
    {
        "one class": error(DataError, "labels without a description: 'bee'", "add a row for each"),
        "a class missing": error(DataError, "labels without a description: 'ant'", "add a row for each"),
    },
)

# Descriptions in files.

unwritten = na("a table is text")
CSV_DESCRIPTIONS = {
    **dict.fromkeys(
        ("objects", "sparse", "read-only", "float16", "float64", "not contiguous", "an array"), unwritten
    ),
    "NaN": error(DataError, "column 'colour::blue' is empty", "correct, fill or drop it"),
    "infinite": error(
        DataError, "column 'colour::blue' is inf, not a finite number", "correct, fill or drop it"
    ),
    "text": error(
        DataError, "column 'colour::blue' is 'red', not a finite number", "correct, fill or drop it"
    ),
    "empty": error(DataError, ".csv: the table has no rows"),
    "no columns": error(DataError, "only classes ('class'), nothing that describes them"),
    "a class twice": error(DataError, "described more than once", "keep one row for each class"),
    "a class without a name": error(DataError, "row 2 has no label", "fill or drop it"),
}
expect(
    "read_descriptions",
    "descriptions",
    CSV_DESCRIPTIONS,
    {
        "one class": reads("it", lambda found: found.shape == (1, 6)),
        "a class missing": reads("the others", lambda found: found.shape == (8, 6)),
        "all zero": reads("the zeros", lambda found: not found.iloc[1].any()),
        "two alike": reads("both", lambda found: found.iloc[0].equals(found.iloc[1])),
        "a column short": reads("five columns", lambda found: found.shape == (9, 5)),
        "columns in another order": reads("as they are", lambda found: found.shape == (9, 6)),
        "classes in another order": UPSIDE_DOWN,
    },
)
expect(
    "cosmo check",
    "descriptions",
    CSV_DESCRIPTIONS,
    dict.fromkeys(
        ("all zero", "two alike", "a column short", "columns in another order", "classes in another order"),
        fitting,
    ),
    {
        "one class": error(
            Refused, "error: 5 classes of samples have no description: 'bee'", "describe them"
        ),
        "a class missing": error(
            Refused, "error: 1 class of samples has no description: 'ant'", "describe it"
        ),
    },
)
expect(
    "cosmo fit",
    "descriptions",
    CSV_DESCRIPTIONS,
    LEARNED,
    {
        "one class": error(
            DataError, "5 classes of samples have no description: 'bee'", "correct the labels"
        ),
        "a class missing": error(DataError, "1 classes of samples have no description: 'ant'", "correct the"),
        "columns in another order": same(),
        "classes in another order": REVERSED,
    },
)
expect("cosmo classes add", "descriptions", CSV_DESCRIPTIONS, MORE)
expect(
    "read_plain",
    "descriptions",
    CSV_DESCRIPTIONS,
    {
        fault: EXPECTED["GZSLDataset", "descriptions", fault]
        for fault in (*TOLD, "one class", "a class missing")
    },
    {
        "NaN": error(DataError, "column 'colour::blue' is '', not a number", "correct it"),
        "infinite": error(DataError, "has a missing or infinite value: class 'cat'", "fill it in"),
        "text": error(DataError, "column 'colour::blue' is 'red', not a number", "correct it"),
        "no columns": error(DataError, "the first column must be called class, and others describe it"),
        "a class twice": error(DataError, "describes a class more than once: 'ant'", "keep one row for each"),
        "a class without a name": error(DataError, "row 2 has no class", "name it or drop the row"),
    },
)
cell_array = error(DataError, "att must be a full matrix of real numbers", "convert it in MATLAB")
expect(
    "read_xlsa17",
    "descriptions",
    descriptions(DataError),
    TOLD,
    dict.fromkeys(("empty", "one class", "a class missing", "a class without a name"), release),
    {
        **dict.fromkeys(("read-only", "sparse", "an array"), na("a file of matrices has none")),
        "text": cell_array,
        "objects": cell_array,
        "a class twice": error(DataError, "allclasses_names has 'ant' more than once", "rename one"),
    },
)
