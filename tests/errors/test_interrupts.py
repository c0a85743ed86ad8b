"""A process that is killed, or meets a full disk, leaves old files or new ones, never broken ones.

Every case runs an action of `soak.steps`, in a process that ends just before one of its changes to the file
system, for every such change (or every n-th). `python -m soak` also kills real commands at random times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
from soak.steps import at_every_step
tally = at_every_step(sys.argv[1], sys.argv[2], stride=int(sys.argv[3]))
print(json.dumps([tally.tried, tally.findings]))
"""


@pytest.mark.skipif(os.name != "posix", reason="uses fork")
@pytest.mark.parametrize(
    ("action", "way", "stride"),
    [
        ("replace a model", "kill", 1),
        ("replace a model", "full disk", 1),
        ("predict to CSV", "kill", 5),
        ("keep in the cache", "kill", 5),
        ("write MATLAB files", "kill", 4),
    ],
)
def test_no_broken_file(action: str, way: str, stride: int):
    # In a process of its own: this one has threads, and must not be forked.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, action, way, str(stride)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tried, findings = json.loads(done.stdout.splitlines()[-1])
    assert tried > 1
    assert findings == []
