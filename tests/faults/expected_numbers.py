"""What is expected of parameters."""

from __future__ import annotations

from cells import DISTRIBUTION, FINITE, WITHIN, error, na, reads
from entries import ENTRIES
from table import EXPECTED, Cells, expect


def number(name: str, refused: Cells, taken: Cells, *, whole: bool = False) -> Cells:
    """Return what `cosmo._core.validation.as_number` does, with the range and what lies in it."""
    kind = "a whole number" if whole else "a number"
    only_whole = error(ValueError, f"{name} must be a whole number, got")
    return {
        "NaN": error(ValueError, f"{name} must be {kind}, got nan"),
        "text": error(TypeError, f"{name} must be a number, got 'three'"),
        **({"a fraction": only_whole, "infinite": only_whole} if whole else {}),
        **refused,
        **taken,
    }


def refusing(faults: tuple[str, ...], *says: str) -> Cells:
    """Return one error for several faults."""
    return dict.fromkeys(faults, error(ValueError, *says))


LARGE = ("a fraction", "above the class count")
NOT_POSITIVE = ("zero", "negative")
OUTSIDE = ("negative", "infinite", *LARGE)
POSITIVE = "softness must be positive and finite, got"
for entry, result in (("Cosmo(softnesses)", DISTRIBUTION), ("GatedMixture(softnesses)", FINITE)):
    refused = refusing((*NOT_POSITIVE, "infinite"), "softnesses must be positive and finite, got")
    expect(entry, "numbers", number("softness", refused, dict.fromkeys(LARGE, result)))
folds = refusing((*NOT_POSITIVE, "above the class count"), "folds must be between 1 and 5")
expect("Cosmo(folds)", "numbers", number("folds", folds, {}, whole=True))
by_hand = number(
    "threshold",
    refusing(("infinite",), "threshold must be finite, got"),
    dict.fromkeys((*NOT_POSITIVE, *LARGE), DISTRIBUTION),
)
soft = number("softness", refusing((*NOT_POSITIVE, "infinite"), POSITIVE), dict.fromkeys(LARGE, DISTRIBUTION))
floor = number(
    "min_seen", refusing(OUTSIDE, "min_seen is an accuracy between 0 and 1, got"), {"zero": DISTRIBUTION}
)
usage = {"text": na("argparse prints the usage")}
for option, cells in (("threshold", by_hand), ("softness", soft), ("min_seen", floor)):
    expect(f"Cosmo.operate_at({option})", "numbers", cells)
    expect(f"cosmo operate --{option.replace('_', '-')}", "numbers", cells, usage)
expect("SeenUnseenCurve.best(min_seen)", "numbers", floor, {"zero": WITHIN})
EXPECTED["SeenUnseenCurve.best(min_seen)", "numbers", "zero"] = FINITE
everywhere = dict.fromkeys((*NOT_POSITIVE, "infinite", *LARGE), WITHIN)
expect("SeenUnseenCurve.at", "numbers", number("threshold", {}, everywhere))
top = refusing(NOT_POSITIVE, "top must be a whole number of at least 1")
named = reads("every class", lambda found: found.shape == (18, 19))
expect(
    "Model.predict_frame(top)", "numbers", number("top", top, {"above the class count": named}, whole=True)
)
flat = dict.fromkeys(("infinite", *LARGE), DISTRIBUTION)
tempered = number("temperature", refusing(NOT_POSITIVE, "temperature must be positive, got"), flat)
expect(
    [entry for entry in ENTRIES if entry.endswith("(temperature)")],
    "numbers",
    tempered,
)
expect(
    [
        "ConfidenceGate(temperatures)",
        "MaxSoftmaxGate(temperature)",
        "LeaveOutGate(temperature)",
        "OdinGate(temperature)",
    ],
    "numbers",
    tempered,
    dict.fromkeys(flat, WITHIN),
)
atleast = refusing(NOT_POSITIVE, "k must be at least 1, got")
for entry in ("ConfidenceGate(k)", "EvidenceGate(k)"):
    expect(entry, "numbers", number("k", atleast, {"above the class count": WITHIN}, whole=True))
parts = refusing(NOT_POSITIVE, "folds must be at least 2, got")
expect(
    "LeaveOutGate(folds)", "numbers", number("folds", parts, {"above the class count": WITHIN}, whole=True)
)
push = refusing(("negative", "infinite"), "epsilon must not be negative, got")
expect("OdinGate(epsilon)", "numbers", number("epsilon", push, dict.fromkeys(("zero", *LARGE), WITHIN)))
constant = refusing(("infinite",), "constant must be finite, got")
shifted = dict.fromkeys((*NOT_POSITIVE, *LARGE), FINITE)
expect("CalibratedStacking(constant)", "numbers", number("constant", constant, shifted))
for entry, name in (
    ("SeenUnseenCurve.area_interval(level)", "level"),
    ("gzsl_intervals(level)", "level"),
    ("fpr_at_tpr(tpr)", "tpr"),
    ("hold_out(classes)", "classes"),
):
    share = refusing(("zero", *OUTSIDE), f"{name} is a share between 0 and 1, got")
    expect(entry, "numbers", number(name, share, {}))
splits = refusing(
    (*NOT_POSITIVE, "above the class count"), "n_splits must be between 2 and the number of classes, 6"
)
expect("class_folds(n_splits)", "numbers", number("n_splits", splits, {}, whole=True))
