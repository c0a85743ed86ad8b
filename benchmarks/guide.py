"""Commands and examples of a page of the documentation, in order, with the output that the page shows."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# Commands of other programs.
_ELSEWHERE = ("make ", "pip ", ". ", "ssh ", "docker ", "COSMO_TOKEN=", "st ")


class Step(NamedTuple):
    """A command, or a Python example."""

    language: str  # "sh" or "python"
    text: str
    output: str  # as shown, or empty


def steps(page: str) -> Iterator[Step]:
    """Yield the steps of a page; `page` is relative to the root of the repository."""
    text = (ROOT / page).read_text("utf-8")
    for language, block, after in re.findall(
        r"^```(sh|console|python)\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", text, flags=re.DOTALL | re.MULTILINE
    ):
        if language == "python":
            yield Step("python", block, after)
            continue
        prompt = "$ " if language == "console" else ""
        for command, output in re.findall(
            rf"^{re.escape(prompt)}((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)" if prompt else r"((?:.*\\\n)*.*\n)()",
            block,
            flags=re.MULTILINE,
        ):
            parts = re.sub(r"\s+#.*|\\\n", "", command).split("&&")
            for k, part in enumerate(filter(None, map(str.strip, parts)), start=1):
                if not part.startswith(_ELSEWHERE):
                    yield Step("sh", part, output if k == len(parts) else "")


def same_output(shown: str, printed: str) -> bool:
    """Return whether output is as shown, except for numbers, spaces, and anything in place of `...`."""
    pattern = ".*".join(re.escape(_masked(part)) for part in shown.split("..."))
    return re.fullmatch(pattern, _masked(printed)) is not None


def _masked(text: str) -> str:
    """Return a text without numbers, spaces, rules and progress."""
    lines = [line for line in text.splitlines() if not re.match(r" *[\d.]+ s  ", line)]
    return re.sub(r"\b[0-9a-f]{16}\b|\d[\d.,]*(e-?\d+)?", "#", re.sub(r"[\s─]", "", "\n".join(lines)))
