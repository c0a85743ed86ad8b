"""Unpacking archives of others: nothing outside the folder, no links, no bombs."""

from __future__ import annotations

import bz2
import errno
import gzip
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

__all__ = ["ArchiveError", "is_archive", "unpack"]

_MOST_BYTES = 100 * 10**9
_MOST_FILES = 1_000_000
_MOST_RATIO = 200  # of unpacked to packed; pictures and features stay far below
_FREE = 10**7  # bytes that may be packed as tightly as they like
_CHUNK = 1 << 20
_ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2}  # LZMA takes what memory it asks


class ArchiveError(ValueError):
    """An archive that is damaged, or that holds what it should not; the message names it."""


def is_archive(path: Path) -> bool:
    """Tell whether a file is a zip or tar archive, by its content."""
    try:
        return zipfile.is_zipfile(path) or _is_tar(path)
    except FileNotFoundError:
        raise
    except Exception:  # what begins like an archive and goes on otherwise
        return False


@dataclass(frozen=True)
class _Member:
    name: str
    size: int
    is_folder: bool
    is_file: bool
    handle: Any


def unpack(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    most_bytes: int = _MOST_BYTES,
    most_files: int = _MOST_FILES,
) -> None:
    """Unpack a zip or tar archive into a new folder, all of it or nothing.

    If everything in the archive lies in one folder, the new folder takes the place of that. Only files and
    folders are taken: links and devices, and names that lead out of the folder, make the archive be refused.

    Parameters
    ----------
    path : path
    folder : path
        Must not exist.
    most_bytes, most_files : int
        Archives with more are refused; so are those that unpack to 200 times their size, which no data does.

    Raises
    ------
    ArchiveError
        Naming the archive and the member.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with zipfile.ZipFile(Path(home, "birds.zip"), "w") as archive:
    ...         archive.writestr("birds/list.txt", "robin")
    ...     unpack(Path(home, "birds.zip"), Path(home, "cub"))
    ...     Path(home, "cub", "list.txt").read_text()
    'robin'
    """
    path, folder = Path(path), Path(folder)
    if folder.exists():
        raise ArchiveError(f"{folder} is there already; remove it, or unpack {path} to another place")
    folder.parent.mkdir(parents=True, exist_ok=True)
    most_bytes = min(most_bytes, max(_FREE, _MOST_RATIO * path.stat().st_size))
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-unfinished-"))
    try:
        try:
            with _opened(path) as (members, open_member):
                _take(path, members, open_member, draft, most_bytes, most_files)
        except ArchiveError:
            raise
        except OSError as error:
            if error.errno not in (None, errno.EINVAL):  # of the disk, not of the archive
                raise OSError(error.errno, f"{path}: cannot be unpacked to {folder}: {error}") from error
            raise ArchiveError(f"{path}: damaged or cut short ({error}); fetch it again") from error
        except Exception as error:  # what a damaged archive raises depends on where it is damaged
            raise ArchiveError(f"{path}: damaged or cut short ({error}); fetch it again") from error
        top = list(draft.iterdir())
        os.replace(top[0] if len(top) == 1 and top[0].is_dir() else draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _take(
    path: Path, members: Iterator[_Member], open_member: Any, draft: Path, most_bytes: int, most_files: int
) -> None:
    left = most_bytes
    for number, member in enumerate(members):
        if number >= most_files:
            raise ArchiveError(f"{path}: more than {most_files} members; it is not unpacked")
        target = draft / _safe(path, member)
        if member.is_folder:
            target.mkdir(parents=True, exist_ok=True)
            continue
        if target.exists():
            raise ArchiveError(f"{path}: {member.name!r} is in it twice; it is not unpacked")
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_member(member) as source, target.open("xb") as file:
            # Counted as it comes: what an archive says about its sizes is not to be trusted.
            while chunk := source.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise ArchiveError(f"{path}: unpacks to more than {most_bytes} bytes; it is not unpacked")
                file.write(chunk)


def _safe(path: Path, member: _Member) -> PurePosixPath:
    """Return where a member goes, within the folder."""
    name = PurePosixPath(member.name.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or (name.parts and name.parts[0].endswith(":")):
        raise ArchiveError(f"{path}: {member.name!r} leads out of the folder; it is not unpacked")
    if "\0" in member.name or (not name.parts and not member.is_folder):
        raise ArchiveError(f"{path}: {member.name!r} is no name for a file; it is not unpacked")
    if not (member.is_folder or member.is_file):
        raise ArchiveError(f"{path}: {member.name!r} is a link or a device; it is not unpacked")
    return name


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Iterator[_Member], Any]]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield _zip_members(path, archive), lambda member: archive.open(member.handle)
    elif _is_tar(path):
        with _tar(path) as archive:
            yield _tar_members(path, archive), lambda member: _content(archive.extractfile(member.handle))
    else:
        raise ArchiveError(
            f"{path}: neither a zip nor a tar archive (plain, gzip or bzip2); fetch it again, or unpack it "
            "by hand"
        )


def _is_tar(path: Path) -> bool:
    try:
        with _tar(path):
            return True
    except tarfile.TarError:
        return False


@contextmanager
def _tar(path: Path) -> Iterator[tarfile.TarFile]:
    with path.open("rb") as raw:
        begin = raw.read(3)
    opened: Any = gzip.open if begin[:2] == b"\x1f\x8b" else bz2.open if begin == b"BZh" else open
    with opened(path, "rb") as file:
        pieces: Any = _InPieces(path, file)
        with tarfile.open(fileobj=pieces, mode="r:") as archive:
            yield archive


class _InPieces:
    """A file that nobody reads much of at once: headers of an archive may claim any size."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > _CHUNK:
            raise ArchiveError(f"{self._path}: a header of {size} bytes; it is not unpacked")
        return self._file.read(size)


def _zip_members(path: Path, archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        if info.flag_bits & 1:
            raise ArchiveError(f"{path}: {info.filename!r} is encrypted; unpack it by hand")
        if info.compress_type not in _ZIP_METHODS:
            raise ArchiveError(f"{path}: {info.filename!r} is packed in a rare way; unpack it by hand")
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archive was not made on Unix
        plain = kind in (0, stat.S_IFREG)
        yield _Member(info.filename, info.file_size, info.is_dir(), plain and not info.is_dir(), info)


def _tar_members(path: Path, archive: tarfile.TarFile) -> Iterator[_Member]:
    for info in archive:
        yield _Member(info.name, info.size, info.isdir(), info.isreg(), info)
    # Only at the end of the file is a packed archive compared with its sum.
    left = _FREE
    while rest := _content(archive.fileobj).read(_CHUNK):
        left -= len(rest)
        if left < 0:
            raise ArchiveError(f"{path}: goes on for more than {_FREE} bytes after its end")


def _content(file: Any) -> IO[bytes]:
    assert file is not None  # of a regular file, and of an archive that is open
    return file
