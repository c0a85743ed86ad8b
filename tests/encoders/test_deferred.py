"""An encoder that is loaded when something is not in the cache."""

from string import ascii_lowercase

import numpy as np
import pytest

from cosmo.encoders import ENCODERS, DeferredEncoder, Encoder, extract


class Letters(Encoder):
    kind, n_features, identity, describes = "text", 26, "letters-1", True
    made = 0

    def __init__(self, name, *, weights=None):
        self.name = name
        Letters.made += 1

    def content(self, item):
        return item.encode()

    def read(self, item):
        return [item.lower().count(letter) for letter in ascii_lowercase]

    def encode_batch(self, batch):
        return np.array(batch, dtype=np.float32)

    def encode_descriptions(self, texts):
        return self.encode(texts)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(ENCODERS, "letters", Letters)
    monkeypatch.setattr(Letters, "made", 0)


def test_is_loaded_for_what_is_not_cached(tmp_path):
    texts = ["abba", "cab"]
    rows = extract(Letters("letters"), texts, cache=tmp_path).features
    encoder = DeferredEncoder("letters", "letters-1", 26)
    assert encoder.kind == "text"
    np.testing.assert_array_equal(extract(encoder, texts, cache=tmp_path).features, rows)
    assert Letters.made == 1
    more = extract(encoder, [*texts, "bad"], cache=tmp_path).features
    np.testing.assert_array_equal(more, Letters("letters").encode([*texts, "bad"]))
    np.testing.assert_array_equal(encoder.encode(["bad"]), more[2:])
    np.testing.assert_array_equal(encoder.encode_descriptions(["bad"]), more[2:])
    assert Letters.made == 3  # two of this test's own


def test_other_weights_raise():
    encoder = DeferredEncoder("letters", "letters-0", 26)
    with pytest.raises(ValueError, match="gives other features than the one that the model was trained with"):
        extract(encoder, ["abba"])
