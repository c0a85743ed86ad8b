"""Run the benchmarks in turn and write their tables and figures to a page.

    python benchmarks/report.py docs/results/performance.md
    python benchmarks/report.py docs/results/performance.md --only inference growth
    python benchmarks/report.py docs/results/performance.md --only growth-full

Parts whose names end with -full are slow and run only if they are named. The text of other parts is kept.
Each program can also be run alone. Programs that use real data find it by COSMO_DATA.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from cosmo._core.files import write_atomic

HERE = Path(__file__).parent


NOTES = {
    "startup": """
        `cosmo --help` imports no verb. Most of the estimator's import is that of scikit-learn and pandas
        (`python -X importtime` shows it).""",
    "selection": """
        The grid is the authors' search, vectorised over samples and classes, on the same matrices in the
        same process: it combines the experts and counts correct predictions, cell by cell. A grid on
        per-sample maxima is as cheap as the exact method: the saving comes from the maxima; exactness adds
        the best point and the whole curve. Most of the exact method's time is the search
        for the largest probabilities, for the gate, and sorting flips once per softness.""",
    "inference": """
        Most of the time of a large batch is the experts' matrix products; the rest is their soft-max and the
        gate, which needs the five largest values of both distributions. A single sample is bound by calls
        from Python. Its p99 also depends on the machine, as that of the products alone shows.""",
    "seen_expert": """
        Both minimise the same function. scikit-learn stops by the size of the mean gradient, at its default
        far above the minimum; the lines below a table show when ours gets there, and where it spends its
        time. It needs fewer passes over the rows where features are correlated, as those of networks are.
        So it does without correlation where rows are of unit length. On long rows without correlation
        L-BFGS on all features is hard to beat. Ours is the default of `Cosmo`, scikit-learn's is
        `logistic-sklearn`.
        A warm start from the validation stage does not pay: with half as many classes again and twice the
        rows, the first two subspaces contain it. scikit-learn-intelex is measured where it is installed:
        version 2026.2 took 6.0 times scikit-learn's CPU time on CUB, to 3.4e-4 above the minimum,
        so it is not used.""",
    "seen_expert-full": """
        The row with tol=1e-6 is as near as single precision lets scikit-learn get to the minimum.""",
    "experts": """
        A fit is the Gram matrix of the features, its Cholesky factor, and solutions for as many columns as
        there are classes. One eigendecomposition per side serves the whole grid of regularisers; it begins
        with a reduction to tridiagonal form, half of which is products of a matrix with a vector, which wait
        for memory. What remains is to solve for each pair, and to score the held-out rows with each
        solution.""",
    "lago": """
        Features are turned to their principal axes once; learning the detectors of attributes, and with soft
        groups the groups, is products with the features, gates over groups and log-probabilities.""",
    "streaming": """
        A stream's time is prediction, turning columns of Parquet into rows, and writing numbers as
        digits.""",
    "growth": """
        With few features and classes, the gate and the mixture cost more than the experts; with many, the
        experts take over. An exact curve is a sort and passes over arrays; what grows faster than linearly is
        the system's share, for handing out memory that the process did not hold before, and the sort, which
        waits for memory beyond the cache of the processor. Of a fit, the choice of ESZSL's regularisers takes
        most, then the seen expert. With more features than these, ESZSL's decomposition of a matrix of
        features x features will take over.""",
    "cluster": """
        The workers keep the memory that a batch has freed; left to Dask, which returns it to the system at
        once, predictions cost more (`MALLOC_TRIM_THRESHOLD_=65536 python benchmarks/inference.py` shows it).
        Every partition costs something whatever its size, to open it, to look at its columns and to find the
        numerical libraries, and so does every task, in the client and the scheduler: a partition should take
        seconds.""",
    "where": """
        Shares below 6 % are left out, and functions that only pass the work on. A share that is much larger
        than the sum of those below it is that of the function itself, or of a library that it calls.""",
}
"""Explanations below the tables, by part."""


class Part(NamedTuple):
    """A benchmark, and a description of its figure, if it draws one."""

    title: str
    command: list[str]
    picture: str = ""


PARTS = {
    "startup": Part("Start-up", ["startup.py"]),
    "selection": Part(
        "Selection and curves",
        ["selection.py"],
        "CPU time and memory of the exact way and of both grids, for each shape and for the whole study",
    ),
    "selection-full": Part("Selection and curves, the study of AWA1", ["selection.py", "--full"]),
    "inference": Part(
        "Inference",
        ["inference.py"],
        "CPU time of a row against the rows in a batch, and the same as multiples of the experts' products",
    ),
    "seen_expert": Part(
        "Seen expert",
        ["seen_expert.py"],
        "Distance of the objective to its minimum against CPU time, of both classifiers",
    ),
    "seen_expert-full": Part(
        "Seen expert, at length",
        ["seen_expert.py", "--full"],
        "The same, with scikit-learn to its end",
    ),
    "experts": Part("ESZSL", ["experts.py"]),
    "lago": Part(
        "LAGO",
        ["lago.py"],
        "Accuracy on held-out classes against CPU time, of LAGO's training and of plain Adam",
    ),
    "lago-full": Part("LAGO, other variants", ["lago.py", "--full"], "The same for the other variants"),
    "streaming": Part("Streaming, and what a kill costs", ["streaming.py"]),
    "growth": Part(
        "Growth",
        ["growth.py"],
        "CPU time and memory of predict, curve and fit against samples, classes and features",
    ),
    "growth-full": Part(
        "Growth, 21,000 classes",
        ["growth.py", "--full"],
        "CPU time and memory of predict against samples, with 21,000 classes",
    ),
    "cluster": Part(
        "Beyond one machine",
        ["cluster.py"],
        "Rows a second of this process and of one and two workers, and against the size of partitions",
    ),
    "where": Part("Where the time goes", ["where.py"]),
}
"""The benchmarks in the order of the page."""


def parts(data: str | None) -> dict[str, Part]:
    """Return the benchmarks; those that read a folder get the one below `data`."""
    cub = Path(data or "", "xlsa17", "CUB")
    if not data or not cub.is_dir():
        return PARTS
    seen = {name: part for name, part in PARTS.items() if name.startswith("seen_expert")}
    return PARTS | {name: part._replace(command=[*part.command, str(cub)]) for name, part in seen.items()}


def run(part: Part, picture: Path | None) -> tuple[str, float, float]:
    """Return what a benchmark prints, and its seconds on the clock and of the processor."""
    command = [sys.executable, str(HERE / part.command[0]), *part.command[1:]]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*command, "--plot", str(picture)] if picture else command,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, time.perf_counter() - start, cpu


def section(name: str, part: Part, picture: Path | None, text: str, wall: float, cpu: float) -> str:
    """Return what stands on the page about one benchmark."""
    command = " ".join(Path(word).name if "/" in word else word for word in part.command)
    paragraphs = [
        f"## {part.title}",
        f"`python benchmarks/{command}` ({wall:.0f} s, {cpu:.0f} s of CPU)",
        f"```\n{text.rstrip()}\n```",
        f"![{part.picture}](images/{picture.name})" if picture else "",
        " ".join(NOTES.get(name, "").split()),
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def page(sections: dict[str, str]) -> str:
    """Return the page in Markdown."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    head = (
        "# Performance\n\nWritten by `make bench` (`benchmarks/report.py`): every figure was printed by the "
        f"program named above it, on {os.cpu_count()} cores ({platform.machine()}, Python "
        f"{platform.python_version()}, {packages}). Seconds are those of this machine; compare ratios "
        "within a table. The last part shows where the time goes. "
        "Programs with `--full` take longer and run only when `benchmarks/report.py --only` names them.\n"
    )
    return "\n".join([head, *sections.values()])


def sections_of(page: Path) -> dict[str, str]:
    """Return what stands on a page already, by title."""
    text = page.read_text("utf-8") if page.exists() else ""
    found = [f"## {part}" for part in text.split("\n## ")[1:]]
    return {part.partition("\n")[0].removeprefix("## "): part for part in found}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "page", nargs="?", type=Path, help="where to write, pictures into images/ beside it (else nowhere)"
    )
    chosen = parts(os.environ.get("COSMO_DATA"))
    usual = [name for name in chosen if not name.endswith("-full")]
    names = ", ".join(chosen)
    options.add_argument("--only", nargs="+", choices=chosen, default=usual, metavar="NAME", help=names)
    arguments = options.parse_args()
    begin = time.perf_counter()
    for name in arguments.only:
        part, picture = chosen[name], None
        if arguments.page and part.picture:
            picture = arguments.page.parent / "images" / f"performance-{name.replace('_', '-')}.svg"
        print(f"{part.title} ...", flush=True)
        text, wall, cpu = run(part, picture)
        print(text, f"{wall:.0f} s, {cpu:.0f} s of CPU\n", sep="", flush=True)
        if arguments.page:  # after each, so that a run which is stopped has not been in vain
            before = sections_of(arguments.page)
            before[part.title] = section(name, part, picture, text, wall, cpu)
            kept = {one.title: before[one.title] for one in chosen.values() if one.title in before}
            write_atomic(arguments.page, page(kept).encode())
    print(f"{(time.perf_counter() - begin) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
