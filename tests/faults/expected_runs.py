"""What is expected of commands that train and evaluate on a benchmark folder."""

from __future__ import annotations

from cells import WITHIN, na, same
from spoiling import FAULTS
from table import EXPECTED, expect

READ_THE_SAME = na("`read_xlsa17` reads the usual data set")
AS_RUN = na("as `cosmo run`")
for verb in ("cosmo run", "cosmo compare", "cosmo gates"):
    for kind in ("features", "labels", "descriptions"):
        read = {fault: EXPECTED["read_xlsa17", kind, fault] for fault in FAULTS[kind]}
        expect(verb, kind, read, {fault: READ_THE_SAME for fault in read if read[fault].kind == "same"})
    expect(
        verb,
        "features",
        {"duplicated rows": AS_RUN, "a column short": na("as one column"), "one column": WITHIN},
    )
    expect(
        verb,
        "descriptions",
        {
            "all zero": WITHIN,
            "two alike": AS_RUN,
            "a column short": na("a table of its own"),
            "columns in another order": AS_RUN,
            "classes in another order": same(),
        },
    )
expect("cosmo run", "features", {"duplicated rows": WITHIN})
expect("cosmo run", "descriptions", {"two alike": WITHIN, "columns in another order": same()})
