"""The bad-input matrix: entry points, faults of their inputs, and what is expected of each pair.

`EXPECTED[entry, input, fault]` has a cell for every entry and every fault of each input that it takes; a test
fails where one is missing.
"""

from __future__ import annotations

import expected_descriptions
import expected_encoded
import expected_features
import expected_labels
import expected_numbers
import expected_orders
import expected_probabilities
import expected_requests
import expected_runs
import expected_seen
from entries import ENTRIES
from spoiling import FAULTS
from table import EXPECTED

__all__ = [
    "ENTRIES",
    "EXPECTED",
    "FAULTS",
    "expected_descriptions",
    "expected_encoded",
    "expected_features",
    "expected_labels",
    "expected_numbers",
    "expected_orders",
    "expected_probabilities",
    "expected_requests",
    "expected_runs",
    "expected_seen",
]
