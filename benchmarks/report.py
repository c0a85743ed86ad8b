"""Run the benchmarks one after the other and write what they print to a page.

    python benchmarks/report.py docs/results/performance.md
    python benchmarks/report.py --only inference growth

Each program also runs alone. Those that can take real data find it through COSMO_DATA.
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

from cosmo.files import write_whole

HERE = Path(__file__).parent


NOTES = {
    "selection": """The grid is the authors' search, vectorised over samples and classes, on the same
        matrices in the same process. What is left of ours is fitting the gates and sorting flips once per
        softness. A grid on per-sample maxima is as cheap as the exact way: the saving is the
        maxima's; exactness adds the best point and the whole curve.""",
    "inference": """A large batch is bound by the experts' matrix products. Above them stand one
        exponential per class and expert, and the gate, which tempers both distributions (a
        logarithm and a second
        exponential) and looks for the five largest of each. A single sample is bound by the calls
        from Python.""",
    "seen_expert": """Both minimise the same function. Ours is bound by products of the features with the
        weights; it needs fewer of them where features are correlated, as those of networks are.""",
    "experts": """One eigendecomposition per side serves the whole grid of regularisers; the rest is products,
        and the scores of held-out rows for each pair.""",
    "lago": """Bound by the products of a mini-batch with the attributes' weights and by the soft-min over
        groups.""",
    "streaming": "Bound by turning columns of Parquet into rows and numbers into digits.",
    "growth": """Exact curves cost a sort, which beyond the cache of the processor grows faster than
        linearly. Everything else stays below linear at these sizes; with more features than these,
        ESZSL's decomposition of a matrix of features x features will take over.""",
    "cluster": """Each task costs some milliseconds of the client and of the scheduler, so a partition should
        take seconds.""",
}


class Part(NamedTuple):
    """A benchmark, and what limits it."""

    title: str
    command: list[str]
    note: str


def parts(data: str | None) -> dict[str, Part]:
    """Return the benchmarks in the order of the page."""
    cub = [str(Path(data, "xlsa17", "CUB"))] if data and Path(data, "xlsa17", "CUB").is_dir() else []
    titles = {
        "selection": "Selection and curves",
        "inference": "Inference",
        "seen_expert": "Seen expert",
        "experts": "ESZSL",
        "lago": "LAGO",
        "streaming": "Streaming, and what a kill costs",
        "growth": "Growth",
        "cluster": "Beyond one machine",
    }
    return {
        name: Part(
            title, [f"{name}.py", *(cub if name == "seen_expert" else [])], " ".join(NOTES[name].split())
        )
        for name, title in titles.items()
    }


def run(part: Part) -> tuple[str, float, float]:
    """Return what a benchmark prints, and its seconds on the clock and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(HERE / part.command[0]), *part.command[1:]],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, time.perf_counter() - start, cpu


def section(part: Part, text: str, wall: float, cpu: float) -> str:
    """Return what stands on the page about one benchmark."""
    command = " ".join(Path(word).name if "/" in word else word for word in part.command)
    return (
        f"## {part.title}\n\n`python benchmarks/{command}` ({wall:.0f} s, {cpu:.0f} s of CPU)\n\n"
        f"```\n{text.rstrip()}\n```\n\n{part.note}\n"
    )


def page(sections: dict[str, str]) -> str:
    """Return the page in Markdown."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    head = (
        "# Performance\n\nWritten by `make bench` (`benchmarks/report.py`): every figure was printed by the "
        f"program named above it, on {os.cpu_count()} cores ({platform.machine()}, Python "
        f"{platform.python_version()}, {packages}). Seconds are those of this machine; compare ratios "
        "within a table.\n"
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
    options.add_argument("page", nargs="?", type=Path, help="where to write (else nothing is written)")
    chosen = parts(os.environ.get("COSMO_DATA"))
    options.add_argument("--only", nargs="+", choices=chosen, default=list(chosen), metavar="NAME")
    arguments = options.parse_args()
    for name in arguments.only:
        print(f"{chosen[name].title} ...", flush=True)
        text, wall, cpu = run(chosen[name])
        print(text, f"{wall:.0f} s, {cpu:.0f} s of CPU\n", sep="", flush=True)
        if arguments.page:  # after each, so that a run which is stopped has not been in vain
            before = sections_of(arguments.page)
            before[chosen[name].title] = section(chosen[name], text, wall, cpu)
            order = [part.title for part in chosen.values()]
            kept = {title: before[title] for title in order if title in before}
            write_whole(arguments.page, page(kept).encode())


if __name__ == "__main__":
    main()
