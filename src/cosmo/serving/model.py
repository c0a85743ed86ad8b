"""A served model: replaced, while it is in use, when its file changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from cosmo.encoders import Encoder
from cosmo.io.model import Model
from cosmo.io.predict import kind_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in memory."""

    model: Model
    fingerprint: str
    time: datetime = field(default_factory=lambda: datetime.now(UTC))


class ServedModel:
    """The model of a file. A changed file is loaded beside the old model, which stays if that fails.

    `registry` receives the metrics of reloads; `encoder` and `trusted` are those of `Model.load`. A request
    must read `current` once: it may be replaced at any time. `error` is why the file as it is now is not the
    model in use. `lock` is held while a model is used: tokenizers are not thread-safe.
    """

    def __init__(
        self,
        path: str | Path,
        registry: CollectorRegistry,
        *,
        encoder: Encoder | None = None,
        trusted: Sequence[str] = (),
    ) -> None:
        self.path, self.trusted, self.lock = Path(path), trusted, threading.Lock()
        self.error: str | None = None
        self._stamp: tuple[int, ...] | None = self._read_stamp()
        self.current = self._load(encoder)
        reloads = Counter("cosmo_reloads", "Changes of the model file", ["result"], registry=registry)
        self._succeeded, self._failed = reloads.labels("ok"), reloads.labels("failed")
        loaded = Gauge("cosmo_model_loaded_seconds", "Unix time when the model was loaded", registry=registry)
        loaded.set_function(lambda: self.current.time.timestamp())

    def watch(self, seconds: float = 1.0) -> None:
        """Look at the file at intervals, in a thread that ends with the process."""

        def work() -> None:
            while not pause.wait(seconds):
                self.check()

        pause = threading.Event()
        threading.Thread(target=work, name="model file", daemon=True).start()

    def check(self) -> None:
        """Load the file if it has changed since it was last tried."""
        stamp: tuple[int, ...] | None = None
        try:
            stamp, error = self._read_stamp(), None
            if stamp == self._stamp:
                return
            self.current = self._load(self.current.model._encoder)
        except Exception as problem:  # Whatever is wrong with the file, the old model still works.
            error = f"{type(problem).__name__}: {problem}"
            if stamp == self._stamp:  # It is missing, as before.
                return
        self._stamp, self.error = stamp, error
        (self._succeeded if error is None else self._failed).inc()
        if error is None:
            logger.info("loaded the changed model", extra={"fields": {"model": self.current.fingerprint}})
        else:
            logger.error("kept the old model", extra={"fields": {"error": error}})

    def _read_stamp(self) -> tuple[int, ...]:
        stat = self.path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _load(self, encoder: Encoder | None) -> Loaded:
        """Return the model of the file with `encoder`, if that is its encoder, or with one of its own."""
        model = Model.load(self.path, trusted=self.trusted)
        if encoder is not None and encoder.identity == model.encoder_identity:
            model._encoder = encoder
        elif kind_of(model) == "text":
            model.predict(["warm-up"])  # The weights are loaded now, not by the first request.
        return Loaded(model, model.fingerprint()[:16])
