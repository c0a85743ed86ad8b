"""README and guides can be followed to the letter."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from cosmo.cli import main

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
# Commands of other programs, and those that serve until they are stopped or that need a cluster.
ELSEWHERE = ("make ", "pip ", ". ", "python -m venv", "cosmo studio", "cosmo serve", "ssh ")


def test_python_example(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    assert len(example.strip().splitlines()) <= 10
    scope = {}
    exec(compile(example, "README.md", "exec"), scope)
    assert "gate score" in capsys.readouterr().out
    assert "new" in scope["model"].classes_


def commands(path):
    """Yield the commands of all shell blocks, without comments."""
    for block in re.findall(r"```sh\n(.*?)```", path.read_text("utf-8"), flags=re.DOTALL):
        for line in block.splitlines():
            yield from filter(None, (one.strip() for one in re.sub(r"\s+#.*", "", line).split("&&")))


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("README.md", "sentence_transformers"),
        ("docs/guides/text.md", "sentence_transformers"),
        ("docs/guides/images.md", "efficientnet_lite_pytorch"),
        ("docs/guides/features.md", "skops"),
    ],
)
def test_commands_in_order(name, extra, tmp_path, monkeypatch, capsys):
    if extra is not None and importlib.util.find_spec(extra) is None:
        pytest.skip(f"{extra} is not installed")
    monkeypatch.chdir(tmp_path)
    ran = []
    for command in commands(ROOT / name):
        program, *words = shlex.split(command)
        if program == "cd":
            monkeypatch.chdir(words[0])
        elif not command.startswith(ELSEWHERE):
            assert program == "cosmo", command
            assert main(words) == 0, (command, capsys.readouterr().err)
            ran.append(words[0])
    assert ran[:4] == ["init", "check", "fit", "evaluate"]
    known, new, balanced = capsys.readouterr().out.partition("Known classes")[2].splitlines()[:3]
    accuracies = [float(re.search(r"([\d.]+) %", line)[1]) for line in (known, new)]
    print(known, new, balanced, sep="\n")
    stated = re.search(r"defaults: (\d+) % on known classes, (\d+) %", Path("README.md").read_text("utf-8"))
    assert min(accuracies) >= (90 if extra == "sentence_transformers" else 80)
    assert accuracies == pytest.approx([float(text) for text in stated.groups()], abs=3)
