"""The state of a training on disk, so that one that was stopped goes on where it was."""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from cosmo._core.extras import require
from cosmo._core.files import write_whole

__all__ = ["Checkpoints"]

logger = logging.getLogger(__name__)

_SECONDS = 10.0  # between checkpoints


class Checkpoints:
    """States of one training, by the number of epochs done.

    Parameters
    ----------
    folder : path or None
        None keeps nothing.
    key : str
        Fingerprint of what is trained on what.
    stops : collection of int
        Epochs whose states stay until the training is over; of the others only the last one does.

    Examples
    --------
    >>> nothing = Checkpoints(None, "", [10])
    >>> nothing.save(10, lambda: {})
    >>> nothing.last(0, 10)
    """

    def __init__(self, folder: str | Path | None, key: str, stops: Collection[int]) -> None:
        self.folder = None if folder is None else Path(folder)
        self.key = key
        self.stops = stops
        self.saved_at = time.monotonic()
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, epoch: int, state: Any) -> None:
        """Keep `state()`, unless the last one is of some seconds ago and this is no stop."""
        if self.folder is None or (epoch not in self.stops and time.monotonic() - self.saved_at < _SECONDS):
            return
        content = io.BytesIO()
        require("torch").save(state(), content)
        write_whole(self._path(epoch), content.getvalue())
        self.saved_at = time.monotonic()
        for older in self._epochs():
            if older < epoch and older not in self.stops:
                self._path(older).unlink(missing_ok=True)

    def last(self, done: int, limit: int) -> tuple[int, dict[str, Any]] | None:
        """Return the newest state of more than `done` and at most `limit` epochs, with its epoch."""
        for epoch in sorted(self._epochs(), reverse=True):
            if not done < epoch <= limit:
                continue
            path = self._path(epoch)
            try:
                # Data only: nothing in the file is executed.
                state = require("torch").load(path, weights_only=True)
            except Exception as error:  # what a damaged file raises depends on where it is damaged
                logger.warning("%s cannot be read (%s); training from before it", path, error)
                continue
            logger.info("going on from epoch %d of an interrupted training", epoch)
            return epoch, state
        return None

    def clear(self) -> None:
        """Remove the files: the training is over."""
        for epoch in self._epochs():
            self._path(epoch).unlink(missing_ok=True)

    def _epochs(self) -> list[int]:
        if self.folder is None:
            return []
        found = (
            re.fullmatch(rf"training-{self.key}-(\d+)\.pt", path.name)
            for path in self.folder.glob(f"training-{self.key}-*.pt")
        )
        return [int(match[1]) for match in found if match]

    def _path(self, epoch: int) -> Path:
        assert self.folder is not None
        return self.folder / f"training-{self.key}-{epoch}.pt"
