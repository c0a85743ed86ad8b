"""docs/api.md lists the public names, each once."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
TARGETS = re.findall(r"^::: (\S+)\.(\w+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
PACKAGES = ("cosmo", "cosmo.data", "cosmo.experts", "cosmo.gates", "cosmo.model_selection", "cosmo.testing")


def test_every_target_is_exported_by_its_package():
    private = [f"{module}.{name}" for module, name in TARGETS if name not in import_module(module).__all__]
    assert private == []
    assert {module for module, _ in TARGETS} == set(PACKAGES)


def test_every_public_name_is_listed_once():
    listed = [id(getattr(import_module(module), name)) for module, name in TARGETS]
    assert len(set(listed)) == len(listed)
    missing = [
        f"{package}.{name}"
        for package in PACKAGES
        for name in import_module(package).__all__
        if id(getattr(import_module(package), name)) not in listed
    ]
    assert missing == []


def test_import_of_the_estimator_loads_few_modules():
    code = "from cosmo import Cosmo; import sys; print(sum(m.split('.')[0] == 'cosmo' for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert int(loaded) < 55
