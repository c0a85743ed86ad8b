"""A process that is killed, or meets a full disk, leaves old files or new ones, never broken ones.

Every case runs an action of `soak.steps`, in a process that ends just before one of its changes to the file
system, for every such change (or every n-th). `python -m soak` also kills real commands at random times.
"""

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
tallies = [at_every_step(name, way, stride=stride) for name, way, stride in json.loads(sys.argv[1])]
print(json.dumps([[tally.tried, tally.findings] for tally in tallies]))
"""
CASES = [
    ("replace a model", "kill", 1),
    ("replace a model", "full disk", 2),
    ("predict to CSV", "kill", 8),
    ("write to the cache", "kill", 7),
    ("write MATLAB files", "kill", 4),
]


@pytest.mark.skipif(os.name != "posix", reason="uses fork")
def test_no_broken_file():
    # In a process of its own: this one has threads, and must not be forked.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(CASES)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for tried, findings in json.loads(done.stdout.splitlines()[-1]):
        assert tried > 1
        assert findings == []
