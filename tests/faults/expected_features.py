"""What is expected of feature rows."""

from __future__ import annotations

from cells import DISTRIBUTION, FIRST, NONE, TWICE, WITHIN, equals, error, na, reads, same
from entry import GENERATORS
from file_entries import Refused
from table import COSMO_ASKED, CSV_QUERIES, CSV_SAMPLES, EXPECTED, FITS, MODEL_ASKED, SCORED, Cells, expect

from cosmo.data import DataError


def features(name: str, kind: type[Exception] = ValueError) -> Cells:
    """Return what `cosmo._core.validation.check_features` does."""
    at = f"{name} has a value that is not finite in float32 at row 3"
    text = error(kind, f"{name} must be numbers, got dtype", "astype(float)")
    shape = error(kind, f"{name} must have one row per sample (2 dimensions), got shape")
    return {
        "NaN": error(kind, at, "nan", "drop or impute"),
        "infinite": error(kind, at, "inf", "drop or impute"),
        "text": text,
        "objects": text,
        "a word": text,
        "sparse": error(TypeError if kind is ValueError else kind, f"{name} is a sparse matrix", "toarray()"),
        "masked": error(kind, f"{name} has masked values", "fill them"),
        **dict.fromkeys(("read-only", "memory-mapped", "float16", "float64", "not contiguous"), same()),
        "one dimension": shape,
        "three dimensions": shape,
        "no columns": error(kind, f"{name} has no columns", "give at least one feature"),
        "ragged": error(kind, f"{name} must have rows of the same length"),
    }


TRAINED = {
    "empty": error(ValueError, "X has no rows", "at least two classes"),
    "one row": error(ValueError, "y has one class only", "at least two are needed"),
    "duplicated rows": DISTRIBUTION,
    "a column short": DISTRIBUTION,
    "one column": DISTRIBUTION,
}
ANSWERED = {"empty": NONE, "one row": FIRST, "duplicated rows": TWICE}
WIDTH = {
    "a column short": error(ValueError, "X has 5 columns, but the training had 6"),
    "one column": error(ValueError, "X has 1 columns, but the training had 6"),
}
CONVERTED = dict.fromkeys(("text", "objects"), same())  # as scikit-learn does

expect(FITS, "features", features("X"), TRAINED)
SLOW = na("as for other networks; a training takes a second")
expect(
    [f"{name}.fit" for name in GENERATORS],
    "features",
    {fault: SLOW for fault, cell in {**features("X"), **TRAINED}.items() if cell.kind != "error"},
)
one_space = error(ValueError, "features but the descriptions have", "one encoder must make both")
expect("SimilarityExpert.fit", "features", {"a column short": one_space, "one column": one_space})
expect([*SCORED, "CMT.novelty"], "features", features("X"), ANSWERED, WIDTH)
expect("SimilarityExpert.scores", "features", {"a column short": one_space, "one column": one_space})
beyond = error(ValueError, "the hold-out points beyond the", "rows given")
expect(
    "select",
    "features",
    features("X"),
    TRAINED,
    {"empty": beyond, "one row": beyond, "duplicated rows": same()},
)
few = error(ValueError, "X cannot be used; give one row of finite numbers per sample", "sample(s)")
expect(
    ["Cosmo.fit", "fit_model"],
    "features",
    features("X"),
    TRAINED,
    CONVERTED,
    {"empty": few, "one row": few},
)
narrow = error(ValueError, "X cannot be used", "features, but Cosmo is expecting 6")
asked = {
    "empty": few,
    "one row": FIRST,
    "duplicated rows": TWICE,
    "a column short": narrow,
    "one column": narrow,
}
expect([*COSMO_ASKED, *MODEL_ASKED], "features", features("X"), CONVERTED, asked)
expect(
    "Cosmo.score", "features", {"one row": equals("1, as that row is right", 1.0), "duplicated rows": same()}
)
refused_early = {fault: features("samples")[fault] for fault in ("sparse", "masked", "ragged")}
expect([*MODEL_ASKED, "fit_model"], "features", refused_early)
expect(
    "Model.promote",
    "features",
    features("samples"),
    {
        "empty": error(ValueError, "there are no samples of 'gnu'"),
        "one row": DISTRIBUTION,
        "duplicated rows": DISTRIBUTION,
        "a column short": error(ValueError, "samples has 5 columns, but the training had 6"),
        "one column": error(ValueError, "samples has 1 columns, but the training had 6"),
    },
)
expect(
    "ExpertOutputs(evidence)",
    "features",
    features("evidence"),
    ANSWERED,
    {"a column short": features("evidence")["no columns"], "one column": na("it has one column")},
)
shaped = error(ValueError, "scores must be numbers of shape (24, 9), as the joint probabilities")
expect(
    "ExpertOutputs.from_joint(scores)",
    "features",
    features("scores"),
    dict.fromkeys(
        ("NaN", "text", "objects", "a word", "one dimension", "three dimensions", "no columns", "empty",
         "one row", "duplicated rows", "a column short", "one column"),
        shaped,
    ),
    {"infinite": na("an infinite score is a sure one")},
)  # fmt: skip
matrix = error(ValueError, "scores must be a matrix of numbers", "a column for each of the 9 classes")
expect(
    "zsl_accuracy",
    "features",
    features("scores"),
    dict.fromkeys(
        ("text", "objects", "a word", "one dimension", "three dimensions", "no columns", "a column short",
         "one column"),
        matrix,
    ),
    {
        "NaN": error(ValueError, "scores have NaN values", "fill them in or drop"),
        "infinite": WITHIN,
        "empty": equals("0: every class is without rows", 0.0),
        "one row": WITHIN,
        "duplicated rows": same(),
    },
)  # fmt: skip
expect(
    "GZSLDataset",
    "features",
    features("data: features", DataError),
    {
        "empty": error(DataError, "split.trainval is empty"),
        "one row": error(DataError, "split.test_seen has classes without training rows"),
        "duplicated rows": reads("all rows", lambda found: len(found[0]) == 2 * 48 + 18),
        "a column short": reads("fewer columns", lambda found: found[0].shape == (66, 5)),
        "one column": reads("one column", lambda found: found[0].shape == (66, 1)),
    },
)

# Features in files.

IN_A_TABLE = {
    **dict.fromkeys(
        ("text", "objects", "sparse", "masked", "read-only", "memory-mapped", "float16", "float64",
         "not contiguous", "one dimension", "three dimensions", "ragged"),
        na("a table is text"),
    ),
    "NaN": error(DataError, "row 4, column 'f1' is empty", "correct, fill or drop it"),
    "infinite": error(DataError, "column 'f1' is inf, not a finite number", "correct, fill or drop it"),
    "a word": error(DataError, "column 'f1' is 'red', not a finite number", "correct, fill or drop it"),
    "empty": error(DataError, ".csv: the table has no rows"),
    "no columns": error(DataError, ".csv: no column for features"),
}  # fmt: skip
READ = {
    "one row": reads("that row", lambda found: len(found[0]) == len(found[1]) == 1),
    "duplicated rows": reads("all rows", lambda found: len(found[0]) == len(found[1]) == 96),
    "a column short": reads("five columns", lambda found: found[0].shape == (48, 5)),
    "one column": reads("one column", lambda found: found[0].shape == (48, 1)),
}
expect(CSV_SAMPLES, "features", IN_A_TABLE)
expect("read_features(csv)", "features", READ)
fitting = reads("that this can be fitted", lambda text: "this can be fitted" in text)
expect(
    "cosmo check",
    "features",
    {
        "one row": error(Refused, "error: only 'ant' has samples; at least two classes need them"),
        "duplicated rows": reads("that there are duplicates", lambda text: "this can be fitted" in text),
        "a column short": fitting,
        "one column": fitting,
    },
)
expect(
    "cosmo fit",
    "features",
    {"one row": few, **dict.fromkeys(("duplicated rows", "a column short", "one column"), DISTRIBUTION)},
)
expect(CSV_QUERIES, "features", IN_A_TABLE, {"one row": FIRST, "duplicated rows": TWICE})
expect(
    "cosmo predict",
    "features",
    {
        "no columns": error(DataError, ".csv: the table has no rows"),
        "a column short": error(DataError, "5 columns of numbers, but rows of 6 features are needed"),
        "one column": error(DataError, "1 columns of numbers, but rows of 6 features are needed"),
    },
)
expect(["cosmo explain", "cosmo evaluate"], "features", {"a column short": narrow, "one column": narrow})
expect("cosmo explain", "features", {"one row": same(), "duplicated rows": same()})
nothing = error(DataError, ".csv: damaged, cut short or not of its kind")
expect(["cosmo explain", "cosmo classes promote"], "features", {"no columns": nothing})
expect(
    "cosmo evaluate",
    "features",
    {
        "one row": reads("one sample", lambda text: '"samples": 1' in text),
        "duplicated rows": reads("36 samples", lambda text: '"samples": 36' in text),
    },
)
expect(
    "cosmo classes promote",
    "features",
    {fault: EXPECTED["Model.promote", "features", fault] for fault in ("a column short", "one column")},
    {"one row": DISTRIBUTION, "duplicated rows": DISTRIBUTION},
)
objects = error(DataError, "damaged, cut short, or holds objects")
IN_AN_ARRAY = {
    **dict.fromkeys(
        ("sparse", "masked", "read-only", "memory-mapped", "ragged"), na("a file of arrays has none")
    ),
    "objects": objects,
    "a word": objects,
}
for entry, name in (("read_features(npz)", "samples.npz: X"), ("read_features(npy)", "samples.npy: X")):
    expect(
        entry,
        "features",
        features(name, DataError),
        IN_AN_ARRAY,
        READ,
        {"empty": error(DataError, "no rows")},
    )
SPLIT = {
    fault: EXPECTED["GZSLDataset", "features", fault]
    for fault in ("empty", "one row", "duplicated rows", "a column short", "one column")
}
expect("read_plain", "features", features("features", DataError), IN_AN_ARRAY, SPLIT)
full = error(DataError, "res101.mat: features must be a full matrix of real numbers", "convert it in MATLAB")
expect(
    "read_xlsa17",
    "features",
    features("res101.mat: features", DataError),
    IN_AN_ARRAY,
    SPLIT,
    dict.fromkeys(("text", "objects", "a word", "sparse"), full),
    dict.fromkeys(
        ("one dimension", "three dimensions"),
        error(DataError, "res101.mat: features must have 66 columns, one per entry of labels"),
    ),
)
