import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder():
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("COSMO_DATA", beside))
    if not folder.is_dir():
        pytest.skip("real data not found: set COSMO_DATA to the folder that holds xlsa17/ and predictions/")
    return folder
