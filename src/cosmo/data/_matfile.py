"""Fields of MATLAB files: read from any version, written in version 5."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat, savemat, whosmat
from scipy.io.matlab import matfile_version

from cosmo._core.files import sync
from cosmo.data._matcheck import check_v4, check_v5
from cosmo.data._tablefile import max_unpacked_bytes
from cosmo.data.dataset import DataError

__all__ = ["MatFile", "cell_array", "field_names", "read_mat", "storable", "write_mat_files"]

_V5_LIMIT = 2**31


def read_mat(path: Path, fields: Sequence[str]) -> MatFile:
    """Read some fields of a MATLAB file up to version 7 or of version 7.3 (HDF5).

    Parameters
    ----------
    path : Path
        An existing file.
    fields : sequence of str
        Those that are absent are left out of the result.

    Returns
    -------
    MatFile
        The fields that the file has.

    Raises
    ------
    DataError
        If the file is damaged, cut short or of another kind.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_mat_files(folder, {"a.mat": {"x": np.ones((1, 2)), "y": np.zeros((1, 1))}})
    ...     file = read_mat(Path(folder, "a.mat"), ["x", "z"])
    >>> file.fields
    {'x': array([[1., 1.]])}
    """
    try:
        values = _load_hdf5(path, fields) if h5py.is_hdf5(path) else _load(path, fields)
    except Exception as error:  # what a damaged file raises depends on where it is damaged
        raise DataError(
            f"{path}: cannot be read as a MATLAB file ({type(error).__name__}: {error}); it is damaged, "
            "cut short or of another kind: fetch it again"
        ) from error
    return MatFile(path, values)


@dataclass(frozen=True)
class MatFile:
    """Fields of a file as MATLAB shows them, to be asked for by kind; errors name the file and the field.

    Parameters
    ----------
    path : Path
        Where the fields are from.
    fields : dict of str to object
        Values as `scipy.io.loadmat` gives them.

    Examples
    --------
    >>> file = MatFile(Path("a.mat"), {"x": np.array([[1, 2]]), "y": np.array(["cat"])})
    >>> file.numbers("x"), file.texts("y")
    (array([[1, 2]]), ['cat'])
    >>> file.positions("x", most=9, what="row")
    array([0, 1])
    >>> file.error("z", "is odd")
    DataError('a.mat: z is odd')
    """

    path: Path
    fields: dict[str, Any]

    def __contains__(self, field: str) -> bool:
        return field in self.fields

    def numbers(self, field: str) -> NDArray[Any]:
        """Return a full matrix of real numbers."""
        values = self._value(field)
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
            raise self.error(
                field, f"must be a full matrix of real numbers, got {_kind(values)}; convert it in MATLAB"
            )
        return values

    def matrix(self, field: str, columns: int, what: str) -> NDArray[Any]:
        """Return a matrix with so many columns: one per entry of `what`."""
        values = self.numbers(field)
        if values.ndim != 2 or values.shape[1] != columns:
            turned = values.ndim == 2 and values.shape[0] == columns
            raise self.error(
                field,
                f"must have {columns} columns, one per entry of {what}, got shape {values.shape}; "
                + ("save its transpose" if turned else "take both from the same data set"),
            )
        return values

    def positions(self, field: str, most: int, what: str) -> NDArray[np.intp]:
        """Return 1-based positions among `most` of `what` as 0-based ones."""
        values = self.numbers(field)
        if values.size == 0:
            return np.empty(0, dtype=np.intp)
        if max(values.shape, default=1) != values.size:
            raise self.error(field, f"must be a vector, got shape {values.shape}; save it as one column")
        values = values.ravel()
        fraction = values != np.floor(values)
        if fraction.any():
            place = int(np.argmax(fraction))
            raise self.error(
                field,
                f"must hold whole numbers, got {values[place]} at position {place + 1}; round or drop it",
            )
        if values.min() < 1:
            raise self.error(
                field, f"has the index {values.min():g}; indices are 1-based: add 1 to all of them"
            )
        if values.max() > most:
            raise self.error(
                field,
                f"points to {what} {values.max():.0f} of {most}; take both files from the same data set",
            )
        return values.astype(np.intp) - 1

    def texts(self, field: str) -> list[str]:
        """Return the entries of a cell array of character vectors, or the rows of a character matrix."""
        cells = self._value(field)
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
            return [text.rstrip() for text in cells.ravel().tolist()]
        if not isinstance(cells, np.ndarray) or cells.dtype != object:
            raise self.error(
                field, f"must be a cell array of character vectors, got {_kind(cells)}; use cellstr in MATLAB"
            )
        texts = []
        for place, cell in enumerate(cells.ravel(order="F"), start=1):
            text = _text(cell)
            if text is None:
                raise self.error(
                    field,
                    f"must hold character vectors only, entry {place} is not one; use cellstr in MATLAB",
                )
            texts.append(text)
        return texts

    def error(self, field: str, problem: str) -> DataError:
        """Return the error to raise for a field."""
        return DataError(f"{self.path}: {field} {problem}")

    def _value(self, field: str) -> Any:
        if field not in self.fields:
            present = ", ".join(field_names(self.path)) or "none"
            raise self.error(field, f"is missing; the file has {present}: is it the right file?")
        return self.fields[field]


def field_names(path: Path) -> list[str]:
    """Return the fields of a file for a message; a file that cannot be read has none.

    Parameters
    ----------
    path : Path
        The file.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_mat_files(folder, {"a.mat": {"y": np.ones((1, 2)), "x": np.ones((1, 2))}})
    ...     field_names(Path(folder, "a.mat"))
    ['x', 'y']
    """
    try:
        if h5py.is_hdf5(path):
            with h5py.File(path, "r") as file:
                return sorted(field for field in file if not field.startswith("#"))
        return sorted(field for field, *_ in whosmat(path, appendmat=False))
    except Exception:  # as in read_mat
        return []


def write_mat_files(
    folder: str | os.PathLike[str],
    files: Mapping[str, Mapping[str, NDArray[Any]]],
    texts: Mapping[str, str] | None = None,
) -> None:
    """Write MATLAB (version 5) files; all appear under their names only when all are complete.

    Parameters
    ----------
    folder : path
        Made if need be; files of the same names are replaced.
    files : mapping of file name to fields
        The fields are a mapping of name to array.
    texts : mapping of file name to text, optional
        Text files to be written with them.

    Raises
    ------
    DataError
        If a field has 2 GB or more.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_mat_files(folder, {"a.mat": {"x": np.eye(2)}}, {"about.txt": "x is the identity"})
    ...     sorted(os.listdir(folder))
    ['a.mat', 'about.txt']
    """
    for file, fields in files.items():
        for field, values in fields.items():
            if values.nbytes >= _V5_LIMIT:
                raise DataError(
                    f"{file}: {field} has {values.nbytes} bytes, and a MATLAB version 5 file holds less than "
                    f"{_V5_LIMIT} in a field; store fewer samples or fewer columns"
                )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as draft:
        for file, fields in files.items():
            savemat(Path(draft, file), fields, appendmat=False)
        for file, text in (texts or {}).items():
            Path(draft, file).write_text(text, encoding="utf-8")
        drafts = sorted(Path(draft).iterdir())
        for path in drafts:
            sync(path)
        for path in drafts:
            os.replace(path, folder / path.name)


def cell_array(texts: Sequence[object]) -> NDArray[np.object_]:
    """Return texts as a column of cells, to be written by `write_mat_files`.

    Parameters
    ----------
    texts : sequence
        Anything that is not a string is written as `str` shows it.

    Raises
    ------
    DataError
        If a text is not `storable`.

    Examples
    --------
    >>> cell_array(["cat", 7])
    array([['cat'],
           ['7']], dtype=object)
    """
    cells = np.empty((len(texts), 1), dtype=object)
    cells[:, 0] = [storable(str(text)) for text in texts]
    return cells


def storable(text: str) -> str:
    r"""Return the text itself, if a file can hold it.

    Parameters
    ----------
    text : str
        Neither NUL nor half of a surrogate pair can be stored.

    Examples
    --------
    >>> storable("Möwe")
    'Möwe'
    >>> storable("nul\0")
    Traceback (most recent call last):
    cosmo.data.dataset.DataError: the name 'nul\x00' has characters that the files cannot hold; rename it
    """
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(f"the name {text!r} has characters that the files cannot hold; rename it")
    return text


def _load(path: Path, fields: Sequence[str]) -> dict[str, Any]:
    major, _ = matfile_version(path, appendmat=False)
    if major == 1:  # version 5 to 7
        check_v5(path.read_bytes(), fields)
    else:
        check_v4(path.read_bytes())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Unreadable variable|Duplicate variable")
        # Newer versions announce another class for sparse matrices, which no layout here has.
        warnings.filterwarnings("ignore", message="The default value for `spmatrix`")
        values: dict[str, Any] = loadmat(path, variable_names=list(fields), appendmat=False)
    return {field: values[field] for field in fields if field in values}


def _load_hdf5(path: Path, fields: Sequence[str]) -> dict[str, Any]:
    most = max_unpacked_bytes(path.stat().st_size)
    with h5py.File(path, "r") as file:
        for field in fields:
            if isinstance(file.get(field, getlink=True), h5py.ExternalLink):
                raise ValueError(f"{field} is a link to another file")
        return {field: _from_hdf5(file, file[field], most) for field in fields if field in file}


def _from_hdf5(file: Any, node: Any, most: int) -> Any:
    """Return a variable of a version 7.3 file as `scipy.io.loadmat` would: axes reversed, text decoded."""
    if not isinstance(node, h5py.Dataset):
        return np.empty((), dtype=np.void)
    _check_hdf5(node, most)
    rows = _hdf5_text(node)
    if rows is not None:
        return np.array(rows)
    if node.attrs.get("MATLAB_empty", 0):
        return np.empty((0, 0))
    values = np.asarray(node[()]).T
    if h5py.check_ref_dtype(node.dtype) is None:
        return values
    cells = np.empty(values.shape, dtype=object)
    for place, reference in np.ndenumerate(values):
        if reference and isinstance(file[reference], h5py.Dataset):
            _check_hdf5(file[reference], most)
        rows = _hdf5_text(file[reference], untyped=True) if reference else None
        cells[place] = rows[0] if rows is not None and len(rows) == 1 else None
    return cells


def _check_hdf5(node: Any, most: int) -> None:
    """Refuse what lies in another file, and what the file cannot hold."""
    if node.external is not None or node.is_virtual:
        raise ValueError(f"{node.name} lies in another file")
    chunk = math.prod(node.chunks or ()) * node.dtype.itemsize
    if max(node.nbytes, chunk) > most:
        raise ValueError(f"{node.name} claims {node.nbytes} bytes, which the file cannot hold")


def _hdf5_text(node: Any, *, untyped: bool = False) -> list[str] | None:
    """Return the rows of a character matrix, or None if it is something else.

    With `untyped`, numbers of 16 bits without a stated MATLAB class count as characters too.
    """
    if not isinstance(node, h5py.Dataset) or node.dtype.kind != "u":
        return None
    kind = node.attrs.get("MATLAB_class")
    if kind not in (b"char", "char") and not (untyped and kind is None and node.dtype.itemsize == 2):
        return None
    if node.attrs.get("MATLAB_empty", 0):
        return [""]
    letters = np.atleast_2d(np.asarray(node[()], dtype="<u2").T)
    return [row.tobytes().decode("utf-16-le") for row in letters]


def _text(cell: object) -> str | None:
    if isinstance(cell, np.ndarray) and cell.dtype.kind == "U" and cell.size <= 1:
        return "".join(cell.ravel().tolist())
    return cell if isinstance(cell, str) else None


def _kind(values: object) -> str:
    if not isinstance(values, np.ndarray):
        return f"a {type(values).__name__}"
    named = {"O": "a cell array", "U": "text", "V": "a struct or sparse matrix", "c": "complex numbers"}
    return named.get(values.dtype.kind, "numbers")
