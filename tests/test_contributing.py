"""The worked examples of CONTRIBUTING.md work as they stand."""

import doctest
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cosmo import Cosmo, Model
from cosmo.data import load_glyphs
from cosmo.experts import make_unseen_expert
from cosmo.gates import make_gate
from cosmo.io._packing import KNOWN, Known

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
BLOCKS = re.findall(r'```python title="([^"]+)"\n(.*?)```', GUIDE, flags=re.DOTALL)
CLASSES = re.findall(r'```json title="src/cosmo/io/classes.json"\n"(\w+)": "([\w.]+)",\n```', GUIDE)
NEW_MODULES = [(title, code) for title, code in BLOCKS if re.fullmatch(r"src/\S+", title)]
ENTRIES = [(title, code) for title, code in BLOCKS if ":" in title]
TESTS = [(title, code) for title, code in BLOCKS if title.startswith("tests/")]


def dotted(path):
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@pytest.fixture
def examples(monkeypatch):
    """Install the modules, functions and table entries of the guide for the time of a test."""
    modules = {}
    for title, code in NEW_MODULES:
        name = dotted(title)
        if (ROOT / title).exists():  # a function that is added to a module
            module = importlib.import_module(name)
            before = set(vars(module))
            exec(compile(code, title, "exec"), vars(module))
            for new in set(vars(module)) - before:
                value = vars(module).pop(new)
                monkeypatch.setattr(module, new, value, raising=False)
        else:
            module = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            exec(compile(code, title, "exec"), vars(module))
        modules[name] = module
    for title, code in ENTRIES:
        path, _, table = title.partition(": ")
        module = importlib.import_module(dotted(path))
        for key, value in eval(f"{{{code}}}", dict(vars(module))).items():
            monkeypatch.setitem(getattr(module, table), key, value)
    for name, path in CLASSES:
        monkeypatch.setitem(KNOWN, name, Known(path))
    return modules


def test_there_is_an_example_of_each():
    rooms = {title.split("/")[2] for title, _ in NEW_MODULES}
    assert rooms == {"experts", "gates", "metrics", "cli"} == {title.split("/")[1] for title, _ in TESTS}


@pytest.mark.parametrize(("title", "code"), TESTS, ids=[title for title, _ in TESTS])
def test_example_test(title, code, examples, capsys):
    scope = {}
    exec(compile(code, title, "exec"), scope)
    functions = [value for name, value in scope.items() if name.startswith("test_")]
    assert functions
    for function in functions:
        function(**({"capsys": capsys} if "capsys" in function.__code__.co_varnames else {}))


def test_metric_doctest(examples):
    function = examples["cosmo.metrics.accuracy"].worst_class_accuracy
    (example,) = doctest.DocTestFinder().find(function, globs={function.__name__: function})
    assert doctest.DocTestRunner().run(example) == doctest.TestResults(0, 1)


def test_examples_can_be_made_by_name_and_saved(examples, tmp_path):
    data = load_glyphs(n_classes=40, samples_per_class=12)
    rows = data.split.trainval
    expert, gate = make_unseen_expert("regression:alpha=1.0,temperature=1.0"), make_gate("margin")
    model = Cosmo(data.descriptions, unseen=expert, gate=gate, method="paper").fit(
        data.features[rows], data.labels[rows]
    )
    Model(model).save(tmp_path / "model.cosmo")
    again = Model.load(tmp_path / "model.cosmo")
    X = data.features[data.split.test_unseen]
    assert list(again.predict(X)) == list(model.predict(X))


def test_map_lists_the_packages_in_the_order_of_the_contract():
    listed = re.findall(r"^\| `(\w+)` \|", GUIDE, flags=re.MULTILINE)
    contract = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.DOTALL)
    assert listed == re.findall(r"cosmo\.(\w+)", contract[1])


def test_links_and_targets_exist():
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", GUIDE):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for line in re.findall(r"make ([a-z -]+)", "\n".join(re.findall(r"`[^`]*`|^make .*$", GUIDE, re.M))):
        assert all(re.search(rf"^{one}:", makefile, re.M) for one in line.split()), line
