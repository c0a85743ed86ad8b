import logging

import pytest

from cosmo.experts import _checkpoints as checkpoints
from cosmo.experts._checkpoints import Checkpoints

torch = pytest.importorskip("torch")


@pytest.fixture
def at_once(monkeypatch):
    """Every state is old enough to be followed by another."""
    monkeypatch.setattr(checkpoints, "_SECONDS", 0.0)


def state(value):
    return lambda: {"weights": {"w": torch.full((2,), value)}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_states_come_back(tmp_path, at_once):
    Checkpoints(tmp_path / "new" / "folder", "key", [2]).save(1, state(7.0))
    epoch, found = Checkpoints(tmp_path / "new" / "folder", "key", [2]).last(0, 2)
    assert epoch == 1
    assert found["weights"]["w"].tolist() == [7.0, 7.0]


def test_stops_stay_and_of_others_the_last(tmp_path, at_once):
    kept = Checkpoints(tmp_path, "key", [2, 4])
    for epoch in range(1, 7):
        kept.save(epoch, state(1.0))
    assert names(tmp_path) == ["training-key-2.pt", "training-key-4.pt", "training-key-6.pt"]


def test_last_is_within_limits(tmp_path, at_once):
    kept = Checkpoints(tmp_path, "key", [2, 4])
    for epoch in (2, 4):
        kept.save(epoch, state(float(epoch)))
    assert kept.last(0, 3)[0] == 2
    assert kept.last(0, 9)[0] == 4
    assert kept.last(2, 3) is None


def test_between_stops_some_seconds_pass(tmp_path):
    kept = Checkpoints(tmp_path, "key", [2])
    kept.save(1, state(1.0))
    assert names(tmp_path) == []
    kept.save(2, state(1.0))
    assert names(tmp_path) == ["training-key-2.pt"]


def test_trainings_share_a_folder(tmp_path, at_once):
    one, other = Checkpoints(tmp_path, "one", [1]), Checkpoints(tmp_path, "other", [1])
    one.save(1, state(1.0))
    other.save(1, state(2.0))
    (tmp_path / "notes.txt").write_text("mine")
    one.clear()
    assert names(tmp_path) == ["notes.txt", "training-other-1.pt"]


@pytest.mark.parametrize("content", [b"", b"not a file of torch", b"PK\x03\x04 half a file"])
def test_damaged_state_gives_way_to_the_one_before(tmp_path, at_once, caplog, content):
    kept = Checkpoints(tmp_path, "key", [1, 2])
    kept.save(1, state(1.0))
    (tmp_path / "training-key-2.pt").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert kept.last(0, 2)[0] == 1
    assert "training-key-2.pt cannot be read" in caplog.text


def test_without_a_folder_nothing_is_kept():
    nothing = Checkpoints(None, "key", [1])
    nothing.save(1, lambda: pytest.fail("asked for the state"))
    assert nothing.last(0, 1) is None
    nothing.clear()
