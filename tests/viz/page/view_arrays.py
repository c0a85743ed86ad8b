"""Reads the stored arrays of a view."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np


def unpack(entry: Mapping[str, Any]) -> np.ndarray:
    content = base64.b64decode(entry["data"], validate=True)
    return np.frombuffer(content, dtype=f"<{entry['type']}").reshape(entry["shape"])
