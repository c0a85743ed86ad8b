"""What the studio answers about models of texts and of pictures, as functions of the small problem.

Their encoders are as small as one can be; `tests/studio/test_encoded.py` has the real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from entry import EXPERTS, Entry
from picturing import PIXELS
from problem import TOKEN, Problem
from sklearn.base import clone
from studio_entries import asked, told_of_class, told_of_sample

from cosmo import fit_model
from cosmo.data.images import image_bytes, read_image
from cosmo.encoders._backbones import Preprocessing
from cosmo.encoders.base import Encoder, check_text

__all__ = ["ENCODED_ENTRIES"]

WORDS = {
    "ant": "small and busy in the ground",
    "bee": "flies and makes honey",
    "cat": "hunts mice, sleeps all day",
    "gnu": "large, grazes in herds",
    "hen": "lays eggs and cackles",
}
TEXTS = {
    "ant": ["a tiny black thing", "they carry leaves", "a hill of them", "it bites"],
    "bee": ["buzzing by the flowers", "yellow and black", "honey", "the queen and her hive"],
    "cat": ["purring on my lap", "it caught a mouse", "whiskers", "it wants to go out"],
}


class Letters(Encoder):
    """Counts letters."""

    name, kind, n_features, identity, describes = "letters", "text", 26, "letters-1", True

    def content(self, item: Any) -> bytes:
        return check_text(item).encode()

    def read(self, item: Any) -> np.ndarray:
        return np.array([check_text(item).lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"])

    def encode_batch(self, batch: Sequence[Any]) -> np.ndarray:
        return np.array(batch, dtype=np.float32)

    def encode_descriptions(self, texts: Any) -> np.ndarray:
        return self.encode(texts)


class Pixels(Encoder):
    """Shrinks pictures, read as for a real network."""

    name, kind, n_features, identity = "pixels", "images", 48, "pixels-1"
    prepare = Preprocessing(size=4, mean=(0.5,) * 3, std=(0.5,) * 3)

    def content(self, item: Any) -> bytes:
        return image_bytes(item)

    def read(self, item: Any) -> np.ndarray:
        return self.prepare.resize(read_image(item, min_size=4))

    def encode_batch(self, batch: Sequence[Any]) -> np.ndarray:
        return self.prepare.normalise(list(batch)).reshape(len(batch), -1)


def _live(samples: Any, labels: Any, descriptions: Any, encoder: Encoder) -> Any:
    from cosmo.viz.studio.live import Live

    model = fit_model(samples, labels, descriptions, encoder=encoder, unseen=clone(EXPERTS["ESZSL"]))
    model.summary["kind"] = encoder.kind
    return Live(model)


@cache
def _texts() -> Any:
    samples = [text for texts in TEXTS.values() for text in texts]
    return _live(samples, np.repeat([*TEXTS], 4), pd.Series(WORDS), Letters())


@cache
def _pictures() -> Any:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((5, 3)), index=pd.Index([*WORDS], dtype=object), columns=[*"abc"])
    samples = [np.roll(PIXELS, shift, axis=1) for shift in range(12)]
    return _live(samples, np.repeat([*TEXTS], 4), table, Pixels())


@cache
def _app(live: Any) -> Any:
    from cosmo.viz.studio.app import make_app

    return make_app(live(), token=TOKEN, hosts=["studio"])


def _predict_text(p: Problem) -> Any:
    return told_of_sample(asked(p, _app(_texts), "/api/predict", {"text": p.text}))


def _predict_picture(p: Problem) -> Any:
    return told_of_sample(asked(p, _app(_pictures), "/api/predict", p.picture))


def _preview(p: Problem) -> Any:
    fields = {"name": p.name, "description": p.words}
    return told_of_class(asked(p, _app(_texts), "/api/classes/preview", fields))


def _keep(p: Problem) -> Any:
    try:
        found = asked(p, _app(_texts), "/api/classes/keep", {"name": p.name, "description": p.words})
        assert found["kept"] == found["classes"][-1:] == _texts().kept
        after = asked(p, _app(_texts), "/api/predict", {"text": p.text})
        return found["kept"][0], told_of_sample(after)[-1]
    finally:
        _texts().undo()


ENCODED_ENTRIES: dict[str, Entry] = {
    "POST /api/predict (text)": Entry(_predict_text, {"sent texts": "text", "requests": "request"}),
    "POST /api/classes/preview (words)": Entry(_preview, {"sent texts": "words", "requests": "request"}),
    "POST /api/classes/keep (words)": Entry(_keep, {"sent texts": "words", "requests": "request"}),
    "POST /api/predict (picture)": Entry(
        _predict_picture, {"sent pictures": "picture", "requests": "request"}
    ),
}
