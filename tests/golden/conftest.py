"""Keep the frozen values: compare with them, or rewrite them by `pytest tests/golden --freeze`."""

import json
import os
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_addoption(parser):
    """Add --freeze."""
    parser.addoption("--freeze", action="store_true", help="rewrite the frozen values of tests/golden")


@pytest.fixture
def frozen(request):
    """Return the frozen values of a name; with --freeze, write what was found and return that."""

    def values(name, found):
        path = HERE / f"{name}.json"
        # The default is for runs that load this file too late to add the option.
        if request.config.getoption("--freeze", default=False):
            path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    return values


@pytest.fixture(scope="session")
def predictions_folder():
    """Return the folder of the published predictions, or skip."""
    beside = HERE.parents[2] / "shared" / "data"
    folder = Path(os.environ.get("COSMO_DATA", beside)).resolve() / "predictions"
    if not folder.is_dir():
        pytest.skip("published predictions not found: set COSMO_DATA to the folder that holds predictions/")
    return folder
