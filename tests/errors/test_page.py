"""The examples of docs/bad-input.md."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "bad-input.md"


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted > 10
    assert found.failed == 0
