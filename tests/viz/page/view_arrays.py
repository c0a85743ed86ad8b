"""Reads the stored arrays of a view."""

import base64

import numpy as np


def unpack(entry):
    content = base64.b64decode(entry["data"], validate=True)
    return np.frombuffer(content, dtype=f"<{entry['type']}").reshape(entry["shape"])
