import pytest
from compositional import Task


@pytest.fixture(scope="module")
def task():
    """Return the small task that every expert is tried on."""
    return Task()
