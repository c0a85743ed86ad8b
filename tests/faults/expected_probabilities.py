"""What is expected of probabilities, and numbers for each sample."""

from __future__ import annotations

from cells import FINITE, FIRST, NONE, TWICE, WITHIN, equals, error, na, reads, same
from entries import GATES
from table import EXPECTED, Cells, expect

from cosmo.data import DataError


def probabilities(name: str, kind: type[Exception] = ValueError, *, total: str = "1") -> Cells:
    """Return what `cosmo._core.validation.check_probabilities` does."""
    numeric = error(kind, f"{name} must be a numeric matrix (samples x classes), got shape", "astype(float)")
    finite = error(kind, f"{name} has NaN or infinite values, first in row 3", "drop such rows")
    sums = error(kind, f"{name} must sum to {total} in every row", "divide rows by their sums")
    return {
        "NaN": finite,
        "infinite": finite,
        **dict.fromkeys(("text", "objects", "a word", "one dimension", "three dimensions"), numeric),
        "sparse": error(TypeError if kind is ValueError else kind, f"{name} is a sparse matrix", "toarray()"),
        "masked": error(kind, f"{name} has masked values", "fill them"),
        **dict.fromkeys(("read-only", "memory-mapped", "float16", "float64", "not contiguous"), same()),
        "ragged": error(kind, f"{name} must have rows of the same length"),
        "no columns": error(kind, f"{name} has no columns", "give one for each class"),
        "rows sum to 2": sums,
        "logits": error(kind, f"{name} has a negative value in row 0", "logits must go through a soft-max"),
    }


SEEN_SUMS = {
    "rows sum to 0": probabilities("the seen expert's probabilities")["rows sum to 2"],
    "rows sum to 0.5": probabilities("the seen expert's probabilities")["rows sum to 2"],
    "a column short": probabilities("the seen expert's probabilities")["rows sum to 2"],
    "one column": probabilities("the seen expert's probabilities")["rows sum to 2"],
    "one sample more": error(ValueError, "the seen expert saw 25 samples, the unseen expert 24"),
}
SEEN_DOOR = {**probabilities("the seen expert's probabilities"), **SEEN_SUMS}
UNSEEN_DOOR = {
    **probabilities("the unseen expert's probabilities", total="at most 1"),
    "rows sum to 0": FINITE,
    "rows sum to 0.5": FINITE,
    "one sample more": error(ValueError, "the seen expert saw 24 samples, the unseen expert 25"),
}
HELD = {"empty": NONE, "one row": FIRST, "duplicated rows": TWICE}
by_position = na("columns are classes by position; `PrecomputedExpert` takes names")
positions = {"constant": FINITE, "ties": FINITE, "columns in another order": by_position}
expect("ExpertOutputs(seen)", "probabilities", SEEN_DOOR, HELD, positions)
expect(
    "ExpertOutputs(unseen)",
    "probabilities",
    UNSEEN_DOOR,
    HELD,
    positions,
    {
        "a column short": error(ValueError, "2 columns for 3 unseen classes"),
        "one column": error(ValueError, "1 columns for 3 unseen classes"),
    },
)
expect(
    "ExpertOutputs.from_joint",
    "probabilities",
    UNSEEN_DOOR,
    HELD,
    positions,
    {
        "a column short": error(
            ValueError, "8 columns of joint probabilities for 9 classes", "give one each"
        ),
        "one column": error(ValueError, "1 columns of joint probabilities for 9 classes", "give one each"),
    },
)
both_kinds = error(ValueError, "the gate needs held-out samples of both seen and unseen classes")
expect(
    [f"{name}.fit" for name in GATES],
    "probabilities",
    SEEN_DOOR,
    {
        "empty": both_kinds,
        "one row": both_kinds,
        "duplicated rows": WITHIN,
        "constant": WITHIN,
        "ties": WITHIN,
        "columns in another order": same(),
    },
)
expect(["MaxSoftmaxGate.fit", "NoveltyGate.fit"], "probabilities", HELD)
expect(
    "GatedMixture.fit",
    "probabilities",
    SEEN_DOOR,
    dict.fromkeys(
        ("empty", "one row"),
        error(ValueError, "held-out samples of both seen and unseen classes", "one kind is"),
    ),
    {"duplicated rows": FINITE, **positions},
)
STORED = {
    **probabilities("proba", total="at most 1"),
    **HELD,
    "rows sum to 0": equals("zeros", [[0.0] * 9] * 24),
    "rows sum to 0.5": FINITE,
    "constant": FINITE,
    "ties": FINITE,
}
frame = error(
    TypeError, "proba must be a pandas DataFrame with a row for each sample and a column for each class"
)
expect(
    "PrecomputedExpert",
    "probabilities",
    STORED,
    dict.fromkeys(("sparse", "one dimension", "three dimensions", "ragged"), frame),
    dict.fromkeys(("a column short", "one column"), error(ValueError, "no stored prediction for class")),
    {
        "masked": error(ValueError, "proba has NaN or infinite values, first in row 3", "drop such rows"),
        "one sample more": reads("25 rows", lambda found: len(found) == 25),
        "columns in another order": same(),
    },
)
expect(
    "read_predictions",
    "probabilities",
    {**STORED, **probabilities("pred_test", DataError, total="at most 1")},
    dict.fromkeys(
        ("sparse", "masked", "ragged", "read-only", "memory-mapped"), na("a file of arrays has none")
    ),
    dict.fromkeys(
        ("objects", "a word"),
        error(DataError, "cannot be read as an npz file of plain arrays", "fetch it again"),
    ),
    dict.fromkeys(
        ("no columns", "a column short", "one column", "one sample more"),
        error(DataError, "pred_test has shape", "take both files from the same expert"),
    ),
    {"columns in another order": na("the column is the class id"), "empty": NONE},
)


# One number per sample.


def scores(name: str, count: str = "") -> Cells:
    """Return what `cosmo._core.validation.check_scores` does."""
    text = error(ValueError, f"{name} must be numbers, got dtype", "astype(float)")
    return {
        "NaN": error(ValueError, f"{name} of sample 3 is nan, not a finite number", "drop such samples"),
        "infinite": error(ValueError, f"{name} of sample 3 is inf, not a finite number", "drop such samples"),
        **dict.fromkeys(("text", "objects", "a word"), text),
        "sparse": error(TypeError, f"{name} is a sparse matrix", "toarray()"),
        "masked": error(ValueError, f"{name} has masked values", "fill them"),
        **dict.fromkeys(("read-only", "memory-mapped", "float16", "float64", "not contiguous"), same()),
        "two dimensions": error(ValueError, f"{name} must be one number per sample", "got shape (24, 2)"),
        "one sample more": error(ValueError, f"{name} must be one number per sample, 24 in all"),
    }


expect(
    "ExpertOutputs(novelty)",
    "scores",
    scores("novelty"),
    HELD,
    {"constant": equals("what was given", [0.5] * 24), "ties": WITHIN},
)
measured = error(ValueError, "samples of both seen and unseen classes; one kind is missing")
for entry in ("gate_auc", "fpr_at_tpr", "gate_intervals"):
    expect(
        entry,
        "scores",
        scores("score"),
        {
            "empty": measured,
            "one row": measured,
            "duplicated rows": same(),
            "constant": WITHIN,
            "ties": WITHIN,
        },
    )
EXPECTED["gate_auc", "scores", "constant"] = equals("0.5", 0.5)
EXPECTED["fpr_at_tpr", "scores", "constant"] = equals("0.95, on the diagonal", 0.95)
EXPECTED["gate_intervals", "scores", "duplicated rows"] = WITHIN
expect(
    "sampled_ausuc",
    "scores",
    scores("acc_tr"),
    {
        "empty": error(ValueError, "the area under no points is undefined", "at least one"),
        "one row": FINITE,
        "duplicated rows": same(),
        "one sample more": error(ValueError, "acc_ts must be one number per sample, 25 in all"),
        "constant": FINITE,
        "ties": FINITE,
    },
)
for name in ("flips", "seen_gain"):
    numbers = error(ValueError, f"{name} must be a dense array of numbers, got dtype")
    unknown = error(ValueError, f"{name} has NaN or masked values", "drop such samples")
    expect(
        f"SeenUnseenCurve({name})",
        "scores",
        dict.fromkeys(("text", "objects", "a word", "sparse"), numbers),
        {"NaN": unknown, "masked": unknown},
        dict.fromkeys(("read-only", "memory-mapped", "float16", "float64", "not contiguous"), same()),
        dict.fromkeys(("empty", "one row", "duplicated rows", "constant", "ties"), FINITE),
        {
            "infinite": FINITE,
            "two dimensions": error(ValueError, f"{name} must be one number per sample, got shape (24, 2)"),
            "one sample more": error(ValueError, "seen_gain must be one number per sample, got shape"),
        },
    )
EXPECTED["SeenUnseenCurve(seen_gain)", "scores", "infinite"] = error(
    ValueError, "seen_gain has infinite values", "at most 1"
)
