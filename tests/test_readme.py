"""README and guides can be followed to the letter, each from an empty folder."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cosmo.cli import main

ROOT = Path(__file__).parent.parent
_SPEC = importlib.util.spec_from_file_location("guide", ROOT / "benchmarks" / "guide.py")
guide = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(guide)

# Pages and a package of the extra that they need.
PAGES = {
    "README.md": "sentence_transformers",
    "docs/index.md": None,
    "docs/guides/features.md": "skops",
    "docs/guides/text.md": "sentence_transformers",
    "docs/guides/images.md": "efficientnet_lite_pytorch",
    "docs/guides/python.md": None,
    "docs/guides/benchmark.md": None,
    "docs/guides/new-classes.md": "sentence_transformers",
    "docs/guides/operating-points.md": "sentence_transformers",
    "docs/guides/unknown.md": "sentence_transformers",
    "docs/guides/discover.md": "sentence_transformers",
    "docs/guides/large-inputs.md": "pyarrow",
    "docs/guides/report.md": None,
    "docs/guides/serving.md": "onnxruntime",
    "docs/guides/studio.md": "fastapi",
}
ELSEWHERE = {"cluster.md", "own-experts.md", "alternatives.md"}  # guides of other tests, or without commands
# The least accuracy on known and on new classes, percent; the READMEs of the starters state the figures.
STARTERS = {"docs/guides/features.md": 80, "docs/guides/text.md": 85, "docs/guides/images.md": 80}


class Reader:
    """Types every command of a page; pages with the same benchmark share its files."""

    def __init__(self, monkeypatch, capfd, runs):
        self.patch, self.capfd, self.runs, self.scope = monkeypatch, capfd, runs, {}
        self.server, self.address, self.token = None, "", ""

    def follow(self, step):
        self.capfd.readouterr()
        words = shlex.split(step.text) if step.language == "sh" else ["python"]
        if words[0] == "cat" and not Path(words[1]).exists():
            Path(words[1]).write_text(step.output)  # a file of the reader
        match words:
            case ["python"]:
                exec(compile(step.text, "page", "exec"), self.scope)
            case ["cd", folder]:
                self.patch.chdir(folder)
            case ["cosmo", "serve" | "studio", *_]:
                self.serve(words[1:])
            case ["cosmo", *arguments]:
                failing = f"cosmo {arguments[0]}: " in step.output
                assert self.run(arguments) == (2 if failing else 0), step.text
            case _:
                assert words[0] in ("cat", "curl", "mkdir", "mv"), step.text
                address = [re.sub(r"http://127.0.0.1:\d+", self.address, word) for word in words]
                environment = os.environ | {"TOKEN": self.token}
                words = [word.replace("$TOKEN", self.token) for word in address]
                subprocess.run(words, env=environment, check=True)
        printed = "".join(self.capfd.readouterr())
        assert not step.output or guide.same_output(step.output, printed), (step.text, printed)

    def run(self, words):
        if words[0] != "run":
            return main(words)
        kept = self.runs / "_".join(words)
        if not kept.exists():
            assert main(words) == 0
            Path("cosmo-runs", "printed").write_text(self.capfd.readouterr().out)
            shutil.copytree("cosmo-runs", kept)
        shutil.copytree(kept, "cosmo-runs", dirs_exist_ok=True)
        print((kept / "printed").read_text())
        return 0

    def serve(self, words):
        """Start a server in place of the one before, on a free port."""
        self.stop()
        words += ["--port", "0", *["--no-browser"] * (words[0] == "studio")]
        command = [sys.executable, "-m", "cosmo", *words]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        for line in self.server.stdout:
            lines.append(line)
            if found := re.search(r"(http://[\d.]+:\d+)/?(?:\?token=)?([\w-]*)", line):
                self.address, self.token = found.groups()
                return
        raise AssertionError("".join(lines))

    def stop(self):
        if self.server is not None:
            self.server.terminate()
            self.server.communicate(timeout=30)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def reader(tmp_path, monkeypatch, capfd, runs):
    monkeypatch.chdir(tmp_path)
    one = Reader(monkeypatch, capfd, runs)
    yield one
    one.stop()


@pytest.mark.parametrize("page", PAGES)
def test_page(page, reader, capfd):
    extra = PAGES[page]
    if extra is not None and importlib.util.find_spec(extra) is None:
        pytest.skip(f"{extra} is not installed")
    steps = list(guide.steps(page))
    assert steps
    for step in steps:
        reader.follow(step)
    if page in STARTERS:
        assert main(["evaluate", "model.cosmo", "--json", "-q"]) == 0
        scores = json.loads(capfd.readouterr().out)
        found = 100 * np.array([scores["acc_tr"], scores["acc_ts"]])
        with capfd.disabled():
            print("\n{}: {:.1f} % on known classes, {:.1f} % on new classes".format(page, *found))
        readme = Path("README.md").read_text("utf-8")
        stated = re.search(r"defaults: (\d+) % on known classes, (\d+) %", readme)
        assert min(found) >= STARTERS[page]
        assert found == pytest.approx(np.array(stated.groups(), dtype=float), abs=3)


def test_every_guide_is_followed():
    guides = {path.name for path in ROOT.joinpath("docs", "guides").glob("*.md")} - ELSEWHERE
    assert {f"docs/guides/{name}" for name in guides} <= {*PAGES}
    assert (
        len(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0]) < 800
    )
