"""A process that is killed, or meets a full disk, before any change it makes to the file system.

The long version, with real commands killed at random times, is `python -m soak`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from cosmo.data import DataError
from cosmo.io.parts import Parts
from cosmo.io.writers import make_writer

ROOT = Path(__file__).parents[2]
BOUND = {"model": "m", "input": "i", "settings": {"skip": False}, "versions": {}}
EVERY_STEP = """
import json, sys
from soak.steps import at_every_step
tallies = [at_every_step(name, way, stride=stride) for name, way, stride in json.loads(sys.argv[1])]
print(json.dumps([[tally.tried, tally.findings] for tally in tallies]))
"""


def at_every_step(*cases: tuple[str, str, int]) -> None:
    """Try in a process of its own: this one has threads, and must not be forked."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", EVERY_STEP, json.dumps(cases)],
        cwd=ROOT,
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for tried, findings in json.loads(done.stdout.splitlines()[-1]):
        assert tried > 1
        assert findings == []


def test_saving_and_predicting():
    at_every_step(("replace a model", "kill", 1), ("predict, begun anew", "kill", 9))


def test_caches_and_archives():
    at_every_step(
        ("keep in the cache", "kill", 5),
        ("write MATLAB files", "kill", 4),
        ("unpack an archive", "full disk", 5),
    )


def parts(folder: Path, **options: bool) -> Parts:
    return Parts(folder / "out.csv", BOUND, make_writer(folder / "out.csv"), **options)


def filled(folder: Path) -> Parts:
    unfinished = parts(folder)
    for number in range(4):
        unfinished.add(number, {"row": [number]}, pd.DataFrame({"label": ["cat"]}))
    return unfinished


def test_parts_are_removed_from_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    filled(tmp_path)
    unlink = Path.unlink

    def dies(self: Path, missing_ok: bool = False) -> None:
        if self.name.startswith("0000000001"):
            raise KeyboardInterrupt
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", dies)
    with pytest.raises(KeyboardInterrupt):
        parts(tmp_path, restart=True)
    monkeypatch.undo()
    # What is left are the first parts, and the run goes on after them: no row is lost or there twice.
    later = parts(tmp_path)
    assert later.first_missing() == 2
    for number in (2, 3):
        later.add(number, {"row": [number]}, pd.DataFrame({"label": ["cat"]}))
    later.join(["row", "label"])
    assert (tmp_path / "out.csv").read_text() == "row,label\n0,cat\n1,cat\n2,cat\n3,cat\n"


def test_parts_after_a_gap_do_not_count(tmp_path: Path):
    filled(tmp_path)
    (tmp_path / "out.csv.parts" / "0000000001-1.part").unlink()
    assert parts(tmp_path).first_missing() == 1


@pytest.mark.skipif(os.name != "posix", reason="locks are those of Unix")
def test_two_runs_do_not_write_one_file(tmp_path: Path):
    mine = filled(tmp_path)
    script = (
        "import sys; from pathlib import Path; from cosmo.io.parts import Parts;"
        "from cosmo.io.writers import make_writer; path = Path(sys.argv[1], 'out.csv');"
        f"held = Parts(path, {BOUND!r}, make_writer(path)); print('mine', flush=True)"
    )
    other = [sys.executable, "-c", script, str(tmp_path)]
    refused = subprocess.run(other, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "out.csv: another run is writing it" in refused.stderr
    # What a killed run held is free.
    mine.join(["row", "label"])
    mine.remove()
    holder = subprocess.Popen([*other[:2], script + "; input()", other[3]], stdout=-1, stdin=-1)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"mine\n"
    with pytest.raises(DataError, match="another run"):
        parts(tmp_path)
    holder.kill()
    holder.communicate()
    time.sleep(0.1)
    assert parts(tmp_path).first_missing() == 0


def test_a_finished_run_is_no_hindrance(tmp_path: Path):
    filled(tmp_path).join(["row", "label"])  # and killed before it could tidy up
    changed = {**BOUND, "input": "another"}
    later = Parts(tmp_path / "out.csv", changed, make_writer(tmp_path / "out.csv"))
    assert later.finished is None
    assert later.first_missing() == 0
