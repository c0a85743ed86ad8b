"""What is expected of the seen expert by itself, a scikit-learn classifier that speaks as such."""

from __future__ import annotations

from dataclasses import replace

from cells import DISTRIBUTION, FIRST, TWICE, by_sklearn, error, na, same
from table import expect

converted = by_sklearn(ValueError, "could not convert string to float: 'red'")
ROWS = {
    "NaN": by_sklearn(ValueError, "Input X contains NaN"),
    "infinite": by_sklearn(ValueError, "Input X contains infinity"),
    "empty": by_sklearn(ValueError, "Found array with 0 sample(s)", "a minimum of 1 is required"),
    "a word": converted,
    "masked": na("scikit-learn takes what is under a mask; `Cosmo` refuses it"),
    **dict.fromkeys(
        ("objects", "read-only", "memory-mapped", "float16", "float64", "not contiguous"), same()
    ),
    "one dimension": by_sklearn(ValueError, "Expected 2D array, got 1D array instead", "Reshape your data"),
    "three dimensions": by_sklearn(ValueError, "Found array with dim 3", "<= 2"),
    "no columns": by_sklearn(ValueError, "Found array with 0 feature(s)", "a minimum of 1 is required"),
    "ragged": by_sklearn(ValueError, "setting an array element with a sequence"),
}
two = by_sklearn(ValueError, "needs samples of at least 2 classes in the data")
expect(
    "SoftmaxRegression.fit",
    "features",
    ROWS,
    {
        "one row": two,
        "text": same(),
        "sparse": by_sklearn(TypeError, "dense data is required", ".toarray()"),
        **dict.fromkeys(("duplicated rows", "a column short", "one column"), DISTRIBUTION),
    },
)
expect(
    "SoftmaxRegression.predict_proba",
    "features",
    ROWS,
    {
        "one row": FIRST,
        "text": by_sklearn(ValueError, "not compatible with arrays of bytes/strings", "Convert your data"),
        "sparse": same(),
        "duplicated rows": TWICE,
        "a column short": by_sklearn(ValueError, "X has 5 features, but SoftmaxRegression is expecting 6"),
        "one column": by_sklearn(ValueError, "X has 1 features, but SoftmaxRegression is expecting 6"),
    },
)
undescribed = na("descriptions are not asked for")
expect(
    "SoftmaxRegression.fit",
    "labels",
    {
        "too few": by_sklearn(ValueError, "inconsistent numbers of samples: [48, 47]"),
        "two dimensions": by_sklearn(ValueError, "y should be a 1d array, got an array of shape (48, 2)"),
        "nested lists": same(warns=True),
        "a missing label": error(ValueError, "y has no label in row 3", "drop the row"),
        "NaN": by_sklearn(ValueError, "Input contains NaN"),
        "one class": two,
        "outside both sets": undescribed,
        "a class without samples": DISTRIBUTION,
        "no unseen class": undescribed,
        "both seen and unseen": undescribed,
        "empty": ROWS["empty"],
    },
)
refused = {
    name: by_sklearn(ValueError, f"The '{name}' parameter of SoftmaxRegression must be")
    for name in ("C", "tol", "max_iter")
}
expect(
    "SoftmaxRegression(tol)",
    "numbers",
    dict.fromkeys(("negative", "NaN", "infinite", "text"), refused["tol"]),
    dict.fromkeys(("zero", "a fraction", "above the class count"), DISTRIBUTION),
)
expect(
    "SoftmaxRegression(max_iter)",
    "numbers",
    dict.fromkeys(("negative", "NaN", "infinite", "a fraction", "text"), refused["max_iter"]),
    {"zero": replace(DISTRIBUTION, warns=True), "above the class count": same()},
)
expect(
    "SoftmaxRegression(C)",
    "numbers",
    dict.fromkeys(("zero", "negative", "NaN", "text"), refused["C"]),
    {"infinite": error(ValueError, "C must be finite, got inf", "a large C")},
    dict.fromkeys(("a fraction", "above the class count"), DISTRIBUTION),
)
