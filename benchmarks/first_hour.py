"""Walk three guides from an empty folder to predictions and a report, and time the every-day commands.

Each command is a process of its own. With `--before COMMIT` the every-day commands also run as of that
commit, in turn with the present ones. Last come the rates of the encoders beside those of the libraries
below them; COSMO_DATA has the texts.

    COSMO_DATA=... python benchmarks/first_hour.py --before 9e4fa4c~1 --write docs/results/first-hour.md
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image

from cosmo._core.files import write_atomic
from cosmo.encoders import extract, make_encoder
from guide import ROOT, steps

WALKS = {"texts": "text", "pictures": "images", "Python": "python"}
SENTENCE = '--description "The customer asks about gift cards."'
VERBS = {
    "check": "cosmo check",
    "fit, features cached": "cosmo fit",
    "evaluate": "cosmo evaluate model.cosmo",
    "predict": "cosmo predict model.cosmo test.csv --text text --out out.csv",
    "explain": "cosmo explain model.cosmo test.csv --text text --row 1 2 3",
    "classes add": f"cosmo classes add model.cosmo --class gift_card {SENTENCE}",
}


def timed(command: list[str], folder: Path, source: Path) -> tuple[float, float]:
    """Return wall-clock and CPU seconds of a command."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{result.stdout}{result.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cosmo(text: str, folder: Path, source: Path = ROOT / "src") -> tuple[float, float]:
    return timed([sys.executable, "-m", *shlex.split(text)], folder, source)


def walk(page: str) -> list[tuple[str, float, float]]:
    """Return the commands of a guide, with their times; all Python examples are one."""
    rows, examples = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step in steps(f"docs/guides/{page}.md"):
            if step.language == "python":
                examples.append(step.text)
            elif step.text.startswith("cd "):
                folder /= step.text[3:]
            elif step.text.startswith("cat "):
                (folder / step.text[4:]).write_text(step.output, encoding="utf-8")  # a file of the reader
            else:
                rows.append((step.text, *cosmo(step.text, folder)))
        if examples:
            (folder / "example.py").write_text("\n".join(examples), encoding="utf-8")
            rows.append(
                ("the examples of the page", *timed([sys.executable, "example.py"], folder, ROOT / "src"))
            )
        assert (folder / "report.html").stat().st_size > 100_000
    return rows


def every_day(sources: list[Path], turns: int) -> dict[str, list[tuple[float, float]]]:
    """Return the least times of each command, for each source."""
    found: dict[str, list[tuple[float, float]]] = {verb: [] for verb in VERBS}
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, str(k)) for k in range(len(sources))]
        for folder, source in zip(folders, sources, strict=True):
            folder.mkdir()
            for text in ("cosmo init --kind text", "cosmo fit -q", "cosmo evaluate model.cosmo"):
                cosmo(text, folder, source)
            (folder / "new.csv").write_text("text,intent\ncan i use a voucher,gift_card\n")
        for verb, text in VERBS.items():
            runs = []
            for _ in range(1 if verb.startswith("classes") else turns):
                runs.append([cosmo(text, *pair) for pair in zip(folders, sources, strict=True)])
            found[verb] = [tuple(map(min, zip(*times, strict=True))) for times in zip(*runs, strict=True)]
    return found


def least_times(ways: dict[Any, Callable[[], Any]], turns: int = 4) -> dict[Any, tuple[float, float]]:
    """Return the least wall-clock and CPU seconds of each way, in turn; the first turn does not count."""
    found: dict[Any, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(turns):
        for way, run in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            found[way].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {way: tuple(map(min, zip(*times[1:], strict=True))) for way, times in found.items()}


def rates(n_texts: int = 1000, n_pictures: int = 200) -> list[str]:
    """Return the section on texts and pictures per second."""
    texts = pd.read_csv(Path(os.environ.get("COSMO_DATA", "../shared/data"), "intents/clinc/utterances.csv"))
    texts = texts["text"].sample(n_texts, random_state=0).tolist()
    encoder = make_encoder("minilm")
    with tempfile.TemporaryDirectory() as name:
        rng, paths = np.random.default_rng(0), [Path(name, f"{k}.jpg") for k in range(n_pictures)]
        for path in paths:
            coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            coarse.resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
        images = make_encoder("efficientnet-lite0")
        network, preprocessing = images._backbone.network, images._backbone.preprocessing
        pixels = torch.from_numpy(preprocessing.normalise([images.read(path) for path in paths]))

        def bare() -> None:
            with torch.inference_mode():
                for part in pixels.split(8):
                    network(part)

        def decoded() -> None:
            for path in paths:
                preprocessing.resize(Image.open(path).convert("RGB"))
            bare()

        ways = {
            ("texts", "`extract`"): lambda: extract(encoder, texts),
            ("texts", "`SentenceTransformer.encode`"): lambda: encoder._model.encode(texts),
            ("pictures", "`extract`"): lambda: extract(images, paths),
            ("pictures", "network on tensors"): bare,
            ("pictures", "Pillow, then network"): decoded,
        }
        most, found = torch.get_num_threads(), {}
        for threads in sorted({1, most}):
            torch.set_num_threads(threads)
            found[threads] = least_times(ways)
        torch.set_num_threads(most)
    lines = [
        "",
        "## Rates of the encoders",
        "",
        f"{n_texts} texts of CLINC with `minilm`, {n_pictures} JPEG files of 500 × 375 pixels with "
        "`efficientnet-lite0`: `extract`, without a cache, and the libraries below it with the same weights, "
        f"in turn in one process (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors at the end), "
        "the least of three runs each. The network has batches of 8, the fastest ones. The ratio is that of "
        "`extract` to the row's rate. `--rates` prints this section alone. Where other programs run, threads "
        "of one operation wait for each other; `extract` gives each thread texts or pictures of its own. It "
        "decodes, too, and the network sees one picture at a time, so that features do not depend on others.",
        "",
        "| | threads | | per s | CPU ms each | ratio |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for (kind, way), threads in product(ways, found):
        times, n = found[threads], n_texts if kind == "texts" else n_pictures
        (wall, cpu), own = times[kind, way], times[kind, "`extract`"][0]
        ratio = "" if way == "`extract`" else f"{wall / own:.2f}"
        lines.append(f"| {kind} | {threads} | {way} | {n / wall:.0f} | {1e3 * cpu / n:.1f} | {ratio} |")
    return lines


def document(before: str | None, turns: int) -> str:
    lines = [
        "# The first hour",
        "",
        "Written by `python benchmarks/first_hour.py --before 9e4fa4c~1 --write docs/results/first-hour.md`. "
        "CPU seconds count all threads, and are steadier than wall-clock seconds, which other programs on "
        f"the machine lengthen (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors at the start).",
        "",
        "## From an empty folder to predictions and a report",
        "",
        "The commands of the guides, each in a process of its own, nothing cached.",
        "",
        "| guide | command | wall s | CPU s |",
        "|---|---|---:|---:|",
    ]
    for name, page in WALKS.items():
        rows = walk(page)
        for text, *seconds in rows:
            lines.append(f"| {name} | `{text}` | {seconds[0]:.1f} | {seconds[1]:.1f} |")
        wall, cpu = (sum(row[k] for row in rows) for k in (1, 2))
        lines.append(f"| **{name}** | **all** | **{wall:.1f}** | **{cpu:.1f}** |")
    with tempfile.TemporaryDirectory() as old:
        sources = [ROOT / "src"]
        if before:
            content = subprocess.run(
                ["git", "archive", before, "src"], cwd=ROOT, capture_output=True, check=True
            ).stdout
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(old, filter="data")
            sources.insert(0, Path(old, "src"))
        table = every_day(sources, turns)
    head = ["before: wall s", "CPU s", "now: wall s", "CPU s"][-2 * len(sources) :]
    lines += [
        "",
        "## Every-day commands",
        "",
        "On the text starter, 64 + 36 texts whose features are cached; "
        + (f"before is commit `{before}`. " if before else "")
        + "`fit` encodes the descriptions, `predict` the texts, `classes` a sentence; the others need no "
        "encoder. " + ("One run each." if turns == 1 else f"The least of {turns} runs, one of `classes`."),
        "",
        f"| command | {' | '.join(head)} |",
        f"|---|{'---:|' * len(head)}",
    ]
    for verb, times in table.items():
        lines.append(f"| {verb} | {' | '.join(f'{value:.1f}' for pair in times for value in pair)} |")
    return "\n".join([*lines, *rates(), ""])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--before", metavar="COMMIT")
    options.add_argument("--turns", type=int, default=1, help="(default %(default)s)")
    options.add_argument("--rates", action="store_true", help="rates of the encoders only")
    options.add_argument("--write", metavar="FILE")
    args = options.parse_args()
    text = "\n".join(rates()) if args.rates else document(args.before, args.turns)
    print(text)
    if args.write:
        write_atomic(Path(args.write), text.encode())


if __name__ == "__main__":
    main()
