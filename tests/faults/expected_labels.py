"""What is expected of labels."""

from __future__ import annotations

from cells import DISTRIBUTION, FIRST, NONE, WITHIN, equals, error, na, reads, same
from entry import GENERATORS
from expected_features import SLOW, SPLIT, TRAINED, beyond, few, fitting
from file_entries import Refused
from spoiling import FAULTS
from table import CSV_SAMPLES, EXPECTED, FITS, Cells, expect

from cosmo.data import DataError

FLAT = {
    "two dimensions": error(ValueError, "labels must be one per sample, got shape", "ravel()"),
    "nested lists": error(ValueError, "labels must be one per sample", "unpack them"),
}
CANNOT_BE_BOTH = na("a class is seen if it has samples")


def labels(kind: type[Exception], few: str, missing: str) -> Cells:
    """Return what is said of labels that do not fit the samples, are missing or unknown."""
    return {
        **FLAT,
        "too few": error(kind, *few.split(" … ")),
        "a missing label": error(kind, *missing.split(" … ")),
        "NaN": error(kind, *missing.split(" … ")),
        "outside both sets": error(kind, "without a description: 'yak'", "add a row for each"),
        "both seen and unseen": CANNOT_BE_BOTH,
    }


GAP = "y has no label in row 3 … fill it in or drop the row"
expect(
    FITS,
    "labels",
    labels(ValueError, "X has 48 rows but y has 47 labels … give one label per row", GAP),
    {
        "one class": TRAINED["one row"],
        "a class without samples": DISTRIBUTION,
        "no unseen class": DISTRIBUTION,
        "empty": TRAINED["empty"],
    },
)
expect(
    [f"{name}.fit" for name in GENERATORS],
    "labels",
    {"a class without samples": SLOW, "no unseen class": SLOW},
)
expect(
    "select",
    "labels",
    labels(ValueError, "X has 48 rows but y has 47 labels", GAP),
    dict.fromkeys(("one class", "a class without samples", "empty"), beyond),
    {"no unseen class": same()},
)
EXPECTED["select", "labels", "no unseen class"] = DISTRIBUTION
lonely = error(ValueError, "y has only one class ('ant')", "at least two seen classes")
no_unseen = error(ValueError, "no unseen class", "add a row to the descriptions for each class to recognise")
expect(
    ["Cosmo.fit", "fit_model"],
    "labels",
    labels(ValueError, "one label in training … [48, 47]", GAP),
    {
        "one class": lonely,
        "a class without samples": DISTRIBUTION,
        "no unseen class": no_unseen,
        "empty": few,
    },
)
expect("Cosmo.fit", "labels", {"nested lists": same(warns=True)})
some = {
    "no unseen class": na("the classes are those of the model"),
    "empty": few,
}
expect(
    "Cosmo.score",
    "labels",
    labels(ValueError, "17 true labels but 18 predictions … give one of each", GAP),
    some,
    {"one class": equals("1, as both rows are right", 1.0), "a class without samples": WITHIN},
)
undescribed = error(
    DataError, "1 classes of samples have no description: 'yak'; described are 'ant'", "correct the labels"
)
gap = "labels have none in row 3 … fill it in or drop the row"
expect(
    "evaluate_model",
    "labels",
    labels(DataError, "", gap),
    some,
    {
        "too few": error(ValueError, "X has 18 rows but y has 17 labels"),
        "outside both sets": undescribed,
        "one class": FIRST,
        "a class without samples": reads("the other rows", lambda found: len(found) == 16),
    },
)
EXPECTED["evaluate_model", "labels", "one class"] = reads("its rows", lambda found: len(found) == 2)
expect(
    "match_labels",
    "labels",
    labels(DataError, "", gap),
    {
        "too few": reads("those that are there", lambda found: len(found) == 47),
        "outside both sets": undescribed,
        "one class": reads("those that are there", lambda found: set(found) == {"ant"}),
        "a class without samples": reads("those that are there", lambda found: len(found) == 40),
        "no unseen class": same(),
        "empty": NONE,
    },
)
expect(
    "hold_out",
    "labels",
    labels(ValueError, "", gap),
    {
        "too few": na("there are no samples to count"),
        "outside both sets": na("descriptions are not asked for"),
        "one class": error(
            ValueError, "holding out a class needs at least two classes, got 1", "add samples"
        ),
        "a class without samples": reads("rows of the others", lambda found: found.max() < 40),
        "no unseen class": same(),
        "empty": error(ValueError, "holding out a class needs at least two classes, got 0", "add samples"),
    },
)
target = error(ValueError, "target must be a column number from 0 to 8 for every sample")
expect(
    "ExpertOutputs(seen)",
    "labels",
    dict.fromkeys(
        ("too few", "two dimensions", "nested lists", "a missing label", "NaN", "outside both sets"), target
    ),
    {
        "one class": reads("its rows", lambda found: len(found) == 2),
        "a class without samples": reads("the other rows", lambda found: len(found) == 22),
        "no unseen class": na("classes are given by name"),
        "both seen and unseen": error(ValueError, "a class is both seen and unseen: 'gnu'"),
        "empty": NONE,
    },
)
groups = error(ValueError, "groups must name the class of each of the 24 samples")
expect(
    "SeenUnseenCurve.area_interval(groups)",
    "labels",
    dict.fromkeys(FLAT, FLAT["two dimensions"]),
    dict.fromkeys(("too few", "a missing label", "NaN"), groups),
    dict.fromkeys(("one class", "a class without samples", "empty", "outside both sets"), WITHIN),
    dict.fromkeys(("no unseen class", "both seen and unseen"), na("classes are groups of rows only")),
)
ignored = reads("the accuracy on the others", lambda found: (found >= 0).all() and (found <= 1).all())
for entry in ("gzsl_scores", "gzsl_intervals"):
    expect(
        entry,
        "labels",
        labels(
            ValueError, "17 true labels but 18 predictions … give one of each",
            "y_true has no label in row 3 … fill it in or drop the row",
        ),
        dict.fromkeys(("one class", "outside both sets", "a class without samples", "empty"), ignored),
        {
            "no unseen class": na("classes are given by name"),
            "both seen and unseen": error(ValueError, "a class is both seen and unseen", "name it in one"),
        },
    )  # fmt: skip
expect("gzsl_intervals", "labels", {"both seen and unseen": na("each interval is of its own classes")})
expect(
    "GZSLDataset",
    "labels",
    labels(DataError, "66 feature rows but 65 labels", "labels has no label in row 3 … fill it in or drop"),
    {fault: error(DataError, *cell.says) for fault, cell in FLAT.items()},
    {
        "one class": SPLIT["one row"],
        "a class without samples": error(
            DataError, "split.test_seen has classes without training rows: 'ant'"
        ),
        "no unseen class": error(DataError, "labels without a description: 'gnu', 'hen', 'ibis'"),
        "both seen and unseen": error(DataError, "a class is both seen and unseen: 'gnu'"),
        "empty": SPLIT["empty"],
    },
)

# Labels in files.

TABLE_LABELS = {
    **dict.fromkeys(("two dimensions", "nested lists"), na("a table has one label a row")),
    "too few": error(DataError, "row 48 has no label", "fill or drop it"),
    "a missing label": error(DataError, "row 4 has no label", "fill or drop it"),
    "NaN": error(DataError, "row 4 has no label", "fill or drop it"),
    "both seen and unseen": CANNOT_BE_BOTH,
    "empty": error(DataError, ".csv: the table has no rows"),
}
UNCOUNTED = {
    "one class": reads("its rows", lambda found: set(found[1]) == {"ant"}),
    "outside both sets": reads("the label as it is", lambda found: "yak" in set(found[1])),
    "a class without samples": reads("the other rows", lambda found: len(found[0]) == 40),
    "no unseen class": na("descriptions are not asked for"),
    "both seen and unseen": CANNOT_BE_BOTH,
}
expect(CSV_SAMPLES, "labels", TABLE_LABELS)
expect("read_features(csv)", "labels", UNCOUNTED)
expect(
    "cosmo check",
    "labels",
    {
        "one class": EXPECTED["cosmo check", "features", "one row"],
        "outside both sets": error(
            Refused, "error: 1 class of samples has no description: 'yak'", "describe it"
        ),
        "a class without samples": fitting,
        "no unseen class": error(Refused, "error: every described class has samples", "describe a class"),
    },
)
expect(
    "cosmo fit",
    "labels",
    {
        "one class": lonely,
        "outside both sets": undescribed,
        "a class without samples": DISTRIBUTION,
        "no unseen class": no_unseen,
    },
)
expect(
    "cosmo evaluate",
    "labels",
    TABLE_LABELS,
    some,
    {
        "too few": error(DataError, "row 18 has no label", "fill or drop it"),
        "one class": reads("two samples", lambda text: '"samples": 2' in text),
        "outside both sets": undescribed,
        "a class without samples": reads("16 samples", lambda text: '"samples": 16' in text),
        "empty": TABLE_LABELS["empty"],
    },
)
never_missing = na("a text in an array is never missing")
as_many = error(DataError, "48 rows of features need as many labels, got shape")
for entry in ("read_features(npz)", "read_features(npy)"):
    expect(
        entry,
        "labels",
        UNCOUNTED,
        {
            "too few": as_many,
            "two dimensions": as_many,
            "nested lists": as_many,
            "a missing label": never_missing,
            "NaN": never_missing,
            "empty": error(DataError, "no rows"),
        },
    )
expect(
    "read_features(npy)", "labels", dict.fromkeys(("two dimensions", "nested lists"), na("one label a line"))
)
expect(
    "read_plain",
    "labels",
    {fault: EXPECTED["GZSLDataset", "labels", fault] for fault in FAULTS["labels"]},
    {
        "two dimensions": error(DataError, "features.npz: y must be a row of names or whole numbers"),
        "nested lists": na("as two dimensions"),
        "a missing label": never_missing,
        "NaN": never_missing,
    },
)
release = error(DataError, "labels points to class 99 of", "take both files from the same data set")
expect(
    "read_xlsa17",
    "labels",
    {fault: EXPECTED["GZSLDataset", "labels", fault] for fault in FAULTS["labels"]},
    dict.fromkeys(("two dimensions", "nested lists"), na("labels are positions of classes")),
    dict.fromkeys(("a missing label", "NaN", "outside both sets", "no unseen class"), release),
    {"too few": error(DataError, "features must have 65 columns, one per entry of labels")},
)
