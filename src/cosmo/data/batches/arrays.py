"""Pictures, and rows of arrays, in batches."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from cosmo._core.validation import check_features
from cosmo.data._packed import check_method, most_bytes, too_much
from cosmo.data.batches.base import Batch, Batches
from cosmo.data.dataset import DataError
from cosmo.data.images import read_image_folder

__all__ = ["Array", "Pictures"]


class Pictures(Batches):
    """The pictures of a folder, or one."""

    def __init__(self, source: Path, keep: Sequence[str]) -> None:
        for name in keep:
            if name != "path":
                raise DataError(f"{source}: there is no column {name!r}; pictures have the column 'path'")
        super().__init__(source, ("path",))
        self._paths = read_image_folder(source)[0] if source.is_dir() else [source]
        self.n_rows = len(self._paths)

    def identity(self) -> str:
        """Return a fingerprint of paths, sizes and times of change."""
        digest = hashlib.blake2b(digest_size=16)
        for path in self._paths:
            state = path.stat()
            digest.update(f"{path} {state.st_size} {state.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def _read(self, size: int, start: int) -> Iterator[Batch]:
        home = self.source if self.source.is_dir() else self.source.parent
        for first in range(start, len(self._paths), size):
            paths = self._paths[first : first + size]
            names = [path.relative_to(home).as_posix() for path in paths]
            yield Batch(first, paths, {"path": names}, (first + len(paths)) / len(self._paths))


class Array(Batches):
    """An .npy, or the array X of an .npz, read row by row from the file, compressed or not."""

    def __init__(self, source: Path, keep: Sequence[str], n_features: int | None) -> None:
        if keep:
            raise DataError(
                f"{source}: an array has no columns to keep, such as {keep[0]!r}; rows are numbered"
            )
        super().__init__(source, ())
        with self._open() as file:
            shape, self._by_columns, self._dtype = _array_header(file)
            self._offset = file.tell()
        if len(shape) != 2 or self._dtype.kind not in "fiub":
            raise DataError(f"{source}: rows of numbers are needed, got {self._dtype} of shape {shape}")
        if n_features is not None and shape[1] != n_features:
            raise DataError(f"{source}: rows have {shape[1]} features, the model takes {n_features}")
        if shape[0] == 0:
            raise DataError(f"{source}: no rows")
        self.n_rows, self._width = shape

    def _open(self) -> Any:
        if self.source.suffix.lower() == ".npy":
            return self.source.open("rb")
        archive = zipfile.ZipFile(self.source)
        if "X.npy" not in archive.namelist():
            names = ", ".join(name.removesuffix(".npy") for name in archive.namelist())
            raise DataError(f"{self.source}: no array X; there are {names or 'none'}")
        check_method(self.source, archive.getinfo("X.npy"))
        return archive.open("X.npy")

    def _read(self, size: int, start: int) -> Iterator[Batch]:
        assert self.n_rows is not None
        held = self.n_rows if self._by_columns else min(size, self.n_rows)
        most = most_bytes(self.source.stat().st_size)
        if held * self._width * self._dtype.itemsize > most:
            raise too_much(self.source, f"{held:,} rows of X", most)
        with self._open() as file:
            if self._by_columns:  # a row is scattered over the file: there is no reading in pieces
                whole = npy.read_array(file, allow_pickle=False)
            else:
                file.seek(self._offset + start * self._width * self._dtype.itemsize)
            for first in range(start, self.n_rows, size):
                n_rows = min(size, self.n_rows - first)
                if self._by_columns:
                    rows = whole[first : first + n_rows]
                else:
                    content = file.read(n_rows * self._width * self._dtype.itemsize)
                    rows = np.frombuffer(content, self._dtype).reshape(n_rows, self._width)
                yield Batch(first, self._checked(rows, first), {}, (first + n_rows) / self.n_rows)

    def _checked(self, rows: NDArray[Any], first: int) -> NDArray[np.float32]:
        try:
            return check_features(rows, name="X")
        except ValueError as error:
            raise DataError(f"{self.source}, from row {first + 1} on: {error}") from error


def _array_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(file)
