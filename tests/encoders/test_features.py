"""Features of many items: found again, resumed, and honest about what cannot be read."""

import numpy as np
import pytest

from cosmo.encoders import ENCODERS, DeferredEncoder, Encoder, ExtractionError, ItemError, extract
from cosmo.encoders.base import check_text


class Letters(Encoder):
    """Counts letters; remembers what it was asked."""

    name, kind, n_features, identity = "letters", "text", 26, "letters-1"

    def __init__(self, name="letters", *, weights=None):
        self.asked = []

    def content(self, item):
        return check_text(item).encode()

    def read(self, item):
        if "!" in check_text(item):
            raise ItemError(f"{item}: too loud")
        return item

    def encode_batch(self, batch):
        assert 0 < len(batch) <= self.batch_size
        self.asked += batch
        return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in batch], dtype=np.float32)


def texts(n, start=0):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcdefgh"), 12)) + f" {i}" for i in range(start, start + n)]


@pytest.mark.parametrize("n", [0, 1, 255, 256, 600])
@pytest.mark.parametrize("cached", [False, True])
def test_same_as_encode(tmp_path, n, cached):
    items = texts(n)
    found = extract(Letters(), items, cache=tmp_path if cached else None)
    np.testing.assert_array_equal(found.features, Letters().encode(items))
    np.testing.assert_array_equal(found.rows, np.arange(n))
    assert found.problems == ()


def test_found_again_and_only_what_changed_is_redone(tmp_path):
    items = texts(600)
    first = extract(Letters(), items, cache=tmp_path / "new" / "folder")
    again = Letters()
    shuffled = items[::-1]
    shuffled[3] = "changed"
    shuffled.insert(0, "inserted")
    second = extract(again, shuffled, cache=tmp_path / "new" / "folder")
    assert again.asked == ["inserted", "changed"]
    np.testing.assert_array_equal(second.features, Letters().encode(shuffled))
    np.testing.assert_array_equal(first.features[-1], second.features[1])


def test_other_encoder_other_features(tmp_path):
    extract(Letters(), texts(10), cache=tmp_path)
    other = Letters()
    other.identity = "letters-2"
    extract(other, texts(10), cache=tmp_path)
    assert len(other.asked) == 10


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_damaged_cache_is_made_again(tmp_path, damage, caplog):
    items = texts(300)
    whole = extract(Letters(), items, cache=tmp_path).features
    path = sorted(tmp_path.iterdir())[0]
    if damage is None:
        content = bytearray(path.read_bytes())
        content[len(content) // 2 : len(content) // 2 + 60] = bytes(60)
        damage = bytes(content)
    path.write_bytes(damage)
    again = Letters()
    np.testing.assert_array_equal(extract(again, items, cache=tmp_path).features, whole)
    assert 0 < len(again.asked) < 300
    assert "cannot be read" in caplog.text
    last = Letters()
    extract(last, items, cache=tmp_path)
    assert not last.asked


def test_problems_are_all_named(tmp_path):
    items = texts(600)
    items[5], items[400], items[401] = "oh!", "", None
    for cache in (None, tmp_path):
        with pytest.raises(ExtractionError, match="3 of the text cannot be used") as caught:
            extract(Letters(), items, cache=cache)
        assert [problem.row for problem in caught.value.problems] == [5, 400, 401]
        assert "row 5: oh!: too loud" in str(caught.value)
    again = Letters()
    found = extract(again, items, cache=tmp_path, on_error="skip")
    assert not again.asked  # what was good is not lost with an error
    assert found.features.shape == (597, 26)
    assert {5, 400, 401}.isdisjoint(found.rows)
    np.testing.assert_array_equal(found.features, Letters().encode([items[row] for row in found.rows]))
    assert [problem.row for problem in found.problems] == [5, 400, 401]


def test_many_problems_stop_the_work():
    encoder = Letters()
    with pytest.raises(ExtractionError, match="at least 256 of the text") as caught:
        extract(encoder, ["oh!"] * 300 + texts(600))
    assert str(caught.value).count("\n") == 20
    assert not encoder.asked
    assert len(extract(Letters(), ["oh!"] * 300 + texts(2), on_error="skip").rows) == 2


def test_arguments():
    with pytest.raises(ValueError, match='on_error must be "raise" or "skip"'):
        extract(Letters(), [], on_error="ignore")
    with pytest.raises(TypeError, match="put it into a list"):
        extract(Letters(), "a text")


def test_report(tmp_path):
    calls = []
    extract(Letters(), texts(300), cache=tmp_path, report=lambda *counts: calls.append(counts))
    assert calls == [(256, 300), (300, 300)]


def test_interrupt_leaves_finished_chunks(tmp_path):
    class Interrupted(Letters):
        def encode_batch(self, batch):
            if len(self.asked) >= 520:
                raise KeyboardInterrupt
            return super().encode_batch(batch)

    with pytest.raises(KeyboardInterrupt):
        extract(Interrupted(), texts(900), cache=tmp_path)
    again = Letters()
    extract(again, texts(900), cache=tmp_path)
    assert again.asked == texts(900)[512:]


class TestDeferred:
    """An encoder that is loaded when something is not in the cache."""

    @pytest.fixture(autouse=True)
    def registered(self, monkeypatch):
        monkeypatch.setitem(ENCODERS, "letters", Letters)

    def test_is_loaded_for_what_is_not_cached(self, tmp_path):
        rows = extract(Letters(), ["abba", "cab"], cache=tmp_path).features
        encoder = DeferredEncoder("letters", "letters-1", 26)
        assert encoder.kind == "text"
        np.testing.assert_array_equal(extract(encoder, ["abba", "cab"], cache=tmp_path).features, rows)
        assert "_encoder" not in vars(encoder)
        more = extract(encoder, ["abba", "bad"], cache=tmp_path).features
        np.testing.assert_array_equal(more, Letters().encode(["abba", "bad"]))
        np.testing.assert_array_equal(encoder.encode(["bad"]), more[1:])
        assert encoder.loaded() is encoder.loaded()

    def test_other_weights_raise(self):
        encoder = DeferredEncoder("letters", "letters-0", 26)
        with pytest.raises(ValueError, match="other features than the one that the model was trained with"):
            extract(encoder, ["abba"])
