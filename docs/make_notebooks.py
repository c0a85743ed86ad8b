"""Writes notebook versions of three examples, with their output: `examples/*.ipynb`.

python docs/make_notebooks.py
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("quick_start", "new_class", "operating_point")


def paragraphs(name: str) -> tuple[str, list[str]]:
    """Return the docstring of an example, and its code in paragraphs that are complete statements."""
    source = EXAMPLES.joinpath(f"{name}.py").read_text("utf-8")
    lines, parts = source.splitlines(), []
    first, *body = ast.parse(source).body
    for k, node in enumerate(body):
        end = body[k + 1].lineno - 1 if k + 1 < len(body) else len(lines)
        text = "\n".join(lines[node.lineno - 1 : end])
        separate = k == 0 or not lines[node.lineno - 2].strip()
        parts = [*parts, text] if separate else [*parts[:-1], f"{parts[-1]}\n{text}"]
    return str(ast.literal_eval(first.value)), [part.rstrip() for part in parts]  # type: ignore[attr-defined]


def run(parts: list[str]) -> list[str]:
    """Run the paragraphs one after the other, and return what each prints."""
    scope: dict[str, Any] = {}
    printed = []
    for part in parts:
        with redirect_stdout(io.StringIO()) as stream:
            exec(compile(part, "cell", "exec"), scope)
        printed.append(stream.getvalue())
    return printed


def notebook(name: str) -> dict[str, Any]:
    """Return an example as a notebook of format 4.5."""
    title, parts = paragraphs(name)
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": [f"# {title}"]}
    ]
    for k, (part, printed) in enumerate(zip(parts, run(parts), strict=True), start=1):
        output = {"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)}
        cells.append(
            {
                "cell_type": "code",
                "execution_count": k,
                "id": f"cell-{k}",
                "metadata": {},
                "outputs": [output] if printed else [],
                "source": part.splitlines(keepends=True),
            }
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    """Write the notebooks that are named, or all."""
    for name in sys.argv[1:] or NAMES:
        text = json.dumps(notebook(name), indent=1, ensure_ascii=False)
        EXAMPLES.joinpath(f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
