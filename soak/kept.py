"""Readers of what we keep ourselves, of archives and of our own pages."""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cosmo._core.cache import Cache
from cosmo.data.download import unpack
from cosmo.encoders import Encoder, extract
from cosmo.io.parts import Parts
from cosmo.io.writers import make_writer
from soak.reader import Reader

__all__ = ["KEPT", "Letters"]

# Damage means work again, never a wrong result.


_ARRAYS = {"x": np.arange(50.0) ** 2, "names": np.array(["a", "bc"])}
_CHOICE = {"best": {"gamma": 0.25, "epochs": 12}, "scores": [0.5, None]}


def _cached(folder: Path) -> list[str]:
    store = Cache(folder)
    store.arrays("squares", "1", lambda: _ARRAYS)
    store.write("choice", "1", _CHOICE)
    return ["squares-1.npz", "choice-1.json"]


def _read_cached(folder: Path, name: str) -> None:
    store = Cache(folder)
    found = store.arrays("squares", "1", lambda: _ARRAYS)
    same = found.keys() == _ARRAYS.keys() and all(np.array_equal(found[k], _ARRAYS[k]) for k in _ARRAYS)
    if not same or store.read("choice", "1") not in ({}, _CHOICE):
        raise AssertionError("a damaged entry of the cache was taken for good")


class Letters(Encoder):
    """Counts letters; as quick as an encoder can be."""

    name, kind, n_features, identity, describes = "letters", "text", 26, "letters-1", True

    def content(self, item: Any) -> bytes:
        """Return a text as bytes."""
        return item.encode()

    def read(self, item: Any) -> Any:
        """Return the counts."""
        return np.array([item.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"])

    def encode_batch(self, batch: Any) -> Any:
        """Return the counts of several texts."""
        return np.array(batch, dtype=np.float32)


_WORDS = [f"{word} {number}" for number in range(6) for word in ("robin", "plover", "finch")]


def _extracted(folder: Path) -> list[str]:
    extract(Letters(), _WORDS, cache=folder)
    return [path.name for path in folder.glob("features-*.npz")]


def _read_extracted(folder: Path, name: str) -> None:
    if not np.array_equal(extract(Letters(), _WORDS, cache=folder).features, Letters().encode(_WORDS)):
        raise AssertionError("damaged features were taken for good")


_BOUND = {"model": "m", "input": "i", "settings": {"skip": False, "raw": False}, "versions": {"python": "3"}}


def _parts(folder: Path) -> list[str]:
    parts = Parts(folder / "out.csv", _BOUND, make_writer(folder / "out.csv"))
    parts.add(0, {"row": [1, 2]}, pd.DataFrame({"label": ["cat", "dog"]}))
    return ["out.csv.parts/manifest.json"]


def _read_parts(folder: Path, name: str) -> None:
    Parts(folder / "out.csv", _BOUND, make_writer(folder / "out.csv"))


def _checkpoint(folder: Path) -> list[str]:
    import torch

    from cosmo.experts._network import Checkpoints

    Checkpoints(folder, "k", [10]).save(10, lambda: {"weights": torch.arange(20.0), "epoch": 10})
    return ["training-k-10.pt"]


def _read_checkpoint(folder: Path, name: str) -> None:
    from cosmo.experts._network import Checkpoints

    Checkpoints(folder, "k", [10]).last(0, 10)


# Archives of others, and our own pages.


_LIST, _NOTES = b"robin\n" * 30, bytes(range(200))


def _archives(folder: Path) -> list[str]:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("birds/list.txt", _LIST)
        archive.writestr("birds/more/notes.txt", _NOTES)
    for name, mode in (("b.tar", "w"), ("c.tgz", "w:gz")):
        with tarfile.open(folder / name, mode) as archive:  # type: ignore[call-overload]
            for member, content in (("birds/list.txt", _LIST), ("birds/more/notes.txt", _NOTES)):
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return ["a.zip", "b.tar", "c.tgz"]


def _unpack(folder: Path, name: str) -> None:
    target = folder / "new" / "place"
    try:
        target.parent.mkdir()
        unpack(folder / name, target)
        contents = {path.read_bytes() for path in target.rglob("*") if path.is_file()}
        if name != "b.tar" and not contents <= {_LIST, _NOTES}:  # a plain tar archive has no sums
            raise AssertionError("a damaged archive was unpacked")
    finally:
        shutil.rmtree(folder / "new", ignore_errors=True)


def _page(folder: Path) -> list[str]:
    from cosmo.viz.page import render_page  # type: ignore[import-not-found]

    view = {
        "format": 1,
        "kind": "run",
        "title": "pets",
        "lead": "a",
        "version": "0",
        "arrays": [],
        "sets": [],
    }
    (folder / "report.html").write_text(render_page(view))
    return ["report.html"]


def _read_page(folder: Path, name: str) -> None:
    from cosmo.viz.page import read_view

    try:
        read_view((folder / name).read_text())
    except UnicodeDecodeError:  # of the call above
        return
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error  # it is given the text, not the file


#: By name.
KEPT: dict[str, Reader] = {
    "cache": Reader(_cached, _read_cached, writes=True),
    "kept features": Reader(_extracted, _read_extracted, writes=True),
    "parts of a result": Reader(_parts, _read_parts, writes=True, guided=True),
    "checkpoints": Reader(_checkpoint, _read_checkpoint, writes=True, needs="torch"),
    "archives": Reader(_archives, _unpack, writes=True, guided=True),
    "report": Reader(_page, _read_page, guided=True, needs="cosmo.viz.page.render"),
}
