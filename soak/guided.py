"""Hostile files that coverage of our own readers leads to (atheris); without it these trials are left out.

`python -m soak.guided SECONDS FOLDER SEED` is one process. The first two bytes of what atheris makes up say
which reader, and which of its files, the rest is for.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from soak.tally import LOST, SURVIVED, Tally

__all__ = ["guided"]

_ADVICE = "atheris is not installed (pip install atheris): files are changed at random only"
_MEGABYTES = 4000
_PATIENCE = 20
_LONGEST = 40_000


def guided(minutes: float, seed: int, report: Callable[[str], None]) -> Iterator[Tally]:
    """Let coverage lead for some minutes; a process that dies is followed by another."""
    if importlib.util.find_spec("atheris") is None:
        report(_ADVICE)
        return
    tallies: dict[str, Tally] = {}
    end, left = time.monotonic() + 60 * minutes, 60 * minutes
    while left > 0:
        with tempfile.TemporaryDirectory(prefix="soak-") as home:
            folder = Path(home)
            command = [sys.executable, "-m", "soak.guided", f"{left:.0f}", home, str(seed + 1)]
            with (folder / "log").open("wb") as log:
                status = subprocess.run(command, stdout=log, stderr=log).returncode
            for name, done in _counts(folder).items():
                tally = tallies.setdefault(name, Tally(f"guided: {name}"))
                outcomes = [one for one in _findings(folder) if one[0] == name]
                for _, outcome, what in outcomes:
                    tally.add(outcome, what)
                for _ in range(done - len(outcomes)):
                    tally.add(SURVIVED)
            if status:
                lines = (folder / "log").read_text(errors="replace").strip().splitlines()
                tallies.setdefault("all", Tally("guided")).add(LOST, f"ended with {status}: {lines[-3:]}")
        left, seed = end - time.monotonic(), seed + 1
    for tally in tallies.values():
        tally.seconds = 60 * minutes / len(tallies)
        report(f"{tally.kind}: {tally.tried} files, {len(tally.findings)} not survived")
        yield tally


def _counts(folder: Path) -> dict[str, int]:
    from soak.worker import Place

    return {path.read_text(): Place(path.with_suffix(".at")).get()[1] for path in folder.glob("*.name")}


def _findings(folder: Path) -> list[list[str]]:
    said = folder / "said"
    return [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []


def main() -> None:
    """Be one process: read what atheris thinks of, until the time is over."""
    import atheris

    began = time.monotonic()
    seconds, folder, seed = float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    with atheris.instrument_imports(include=["cosmo"]):
        from soak.readers import READERS
        from soak.worker import Place, Trial
    corpus = folder / "corpus"
    corpus.mkdir()
    names = [name for name, reader in READERS.items() if reader.guided and reader.here]
    trials, places, done = [], [], [0] * len(names)
    for number, name in enumerate(names):
        home = folder / str(number)
        home.mkdir()
        trials.append(Trial(name, home))
        (folder / f"{number}.name").write_text(name)
        places.append(Place(folder / f"{number}.at"))
        for place, content in enumerate(trials[-1].files.values()):
            (corpus / f"{number}-{place}").write_bytes(bytes([number, place]) + content)
    said = (folder / "said").open("a")

    def one(content: bytes) -> None:
        if len(content) < 2:
            return
        number = content[0] % len(names)
        files = trials[number].files
        file = list(files)[content[1] % len(files)]
        outcome, what = SURVIVED, ""
        if content[2:] != files[file]:
            outcome, what = trials[number].judge(file, content[2:])
        if outcome != SURVIVED:
            print(json.dumps([names[number], outcome, f"{file}: {what}"]), file=said, flush=True)
        done[number] += 1
        places[number].set(done[number], done[number])

    left = max(1, round(seconds - (time.monotonic() - began)))
    limits = [f"-max_total_time={left}", f"-rss_limit_mb={_MEGABYTES}", f"-timeout={_PATIENCE}"]
    options = [f"-seed={seed}", f"-max_len={_LONGEST}", f"-artifact_prefix={folder}/", str(corpus)]
    atheris.Setup([sys.argv[0], *limits, *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
