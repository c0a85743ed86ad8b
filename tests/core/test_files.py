"""Atomic writes: complete files or none."""

import os

import pytest

from cosmo._core.files import write_atomic


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "table.csv"
    file.write_bytes(b"old")
    return file


def check_untouched(path):
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_new_file(tmp_path):
    write_atomic(tmp_path / "new", b"\x00\r\n")
    assert (tmp_path / "new").read_bytes() == b"\x00\r\n"
    assert os.listdir(tmp_path) == ["new"]


def test_synced_before_it_is_renamed(path, monkeypatch):
    steps = []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor):
        steps.append("sync")
        assert os.fstat(descriptor).st_size == 3
        sync(descriptor)

    def spy(draft, target):
        steps.append("replace")
        assert path.read_bytes() == b"old"
        assert draft.read_bytes() == b"new"
        # A draft left behind by a killed process does not match patterns such as *.csv.
        assert draft.name.startswith(".")
        assert not draft.match("*.csv")
        replace(draft, target)

    monkeypatch.setattr("cosmo._core.files.os.fsync", fsync)
    monkeypatch.setattr("cosmo._core.files.os.replace", spy)
    write_atomic(path, b"new")
    assert steps == ["sync", "replace"]
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_failure_leaves_what_was_there(step, error, path, monkeypatch):
    def failing(*_args):
        raise error

    monkeypatch.setattr(f"cosmo._core.files.os.{step}", failing)
    with pytest.raises(type(error)):
        write_atomic(path, b"new")
    monkeypatch.undo()
    check_untouched(path)
