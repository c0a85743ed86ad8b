"""Benchmark archives: known addresses, downloaded and unpacked with pooch."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pooch
import requests

from cosmo._core.files import write_atomic

logger = logging.getLogger(__name__)

_TIMEOUT = 30.0  # seconds without a byte


@dataclass(frozen=True)
class Archive:
    """A public archive: addresses, in the order of trial, and the page that would announce a new one.

    `checksum` is "sha256:..." or "md5:...", if published; `size` is approximate.
    """

    name: str
    about: str
    urls: list[str]
    page: str
    size: str
    checksum: str | None = None


#: Known archives, by name.
ARCHIVES = {
    one["name"]: Archive(**one)
    for one in json.loads(resources.files("cosmo.data").joinpath("archives.json").read_text())
}


class FetchError(OSError):
    """Raised when an archive cannot be downloaded, verified or unpacked."""


@dataclass(frozen=True)
class Fetched:
    """Result of `fetch`: the archive, the folder with its content, and the checksum."""

    file: Path
    folder: Path
    checksum: str
    trusted_on_first_use: bool


def fetch(
    name: str,
    to: str | os.PathLike[str] = ".",
    *,
    urls: Sequence[str] = (),
    sha256: str | None = None,
    report: Callable[[int, int | None], None] = lambda done, total: None,
) -> Fetched:
    """Download an archive to the folder `to`, verify its checksum and unpack it.

    Where no checksum is known, that of the first download is stored beside the file (`FILE.sha256`) and
    verified from then on. A file that exists already is verified and unpacked. `urls` are tried before the
    known ones; with them, `name` may be any name for the folder. `report` receives the number of bytes
    downloaded and the size of the file, if known.
    """
    archive = ARCHIVES.get(name)
    if archive is None and not urls:
        raise ValueError(f"unknown archive {name!r}; known are {', '.join(ARCHIVES)}; others need a --url")
    if re.fullmatch(r"[\w-][\w.-]*", name) is None:
        raise ValueError(f"{name!r} cannot be the name of a folder; use letters, digits, '-', '_' and '.'")
    if sha256 is not None and re.fullmatch("[0-9a-fA-F]{64}", sha256) is None:
        raise ValueError(f"a SHA-256 checksum has 64 hexadecimal digits, got {sha256!r}")
    addresses = [*urls, *(archive.urls if archive else ())]
    filename = Path(unquote(urlsplit(archive.urls[0] if archive else urls[0]).path)).name
    if not filename or filename == "..":
        raise ValueError(f"{urls[0]!r} does not end in the name of a file")
    file, folder = Path(to, filename), Path(to, name)
    checksum_file = file.with_name(f"{file.name}.sha256")
    published = f"sha256:{sha256.lower()}" if sha256 else archive.checksum if archive else None
    checksum = published
    if published is None and checksum_file.exists():
        match = re.match(rb"([0-9a-f]{64})\s", checksum_file.read_bytes())
        if match is None:
            raise FetchError(
                f"{checksum_file}: holds no checksum; remove it if you trust the archive beside it"
            )
        checksum = f"sha256:{match[1].decode()}"
    file.parent.mkdir(parents=True, exist_ok=True)
    _download(addresses, file, folder, checksum, archive, report)
    if checksum is None:
        digest = pooch.file_hash(str(file))
        write_atomic(checksum_file, f"{digest}  {file.name}\n".encode())
        checksum = f"sha256:{digest}"
        logger.info("no checksum is known of %s: stored in %s", file.name, checksum_file.name)
    return Fetched(file, folder, checksum, published is None)


def unpack(path: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into a new folder, completely or not at all.

    If the archive has a single top-level folder, `folder` takes its place.
    """
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(draft)
        else:
            # Not pooch.Untar: before Python 3.12 it extracts without this filter.
            with tarfile.open(path) as archive:
                archive.extractall(draft, filter="data")
                while archive.fileobj.read(1 << 20):
                    pass  # a gzip checksum is verified at the end of the file only
        entries = list(draft.iterdir())
        os.replace(entries[0] if len(entries) == 1 and entries[0].is_dir() else draft, folder)
    except Exception as error:  # depends on where the archive is damaged
        if isinstance(error, OSError) and error.errno:  # of the disk, not of the archive
            raise
        raise FetchError(f"{path}: not an intact zip or tar archive ({error})") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _download(
    addresses: Sequence[str],
    file: Path,
    folder: Path,
    checksum: str | None,
    archive: Archive | None,
    report: Callable[[int, int | None], None],
) -> None:
    """Download a file from the first address that has an archive with that checksum, and unpack it."""
    pooch.get_logger().setLevel(logging.WARNING)  # `logger` has the same
    exists = file.exists()
    failures = []
    for url in addresses:
        try:
            logger.info("downloading %s", url)
            downloader = pooch.HTTPDownloader(timeout=_TIMEOUT, progressbar=_Progress(report))
            pooch.retrieve(url, checksum, fname=file.name, path=file.parent, downloader=downloader)
            if folder.exists():
                logger.info("%s exists; remove it to unpack %s again", folder, file.name)
            else:
                logger.info("unpacking %s", file)
                unpack(file, folder)
            return
        except FetchError as error:
            if exists:  # a file of the user's own is left alone
                raise
            file.unlink()
            failures.append(f"  {url}: {error}")
        except (requests.RequestException, OSError) as error:
            failures.append(f"  {url}: {error}")
        except ValueError:  # raised by pooch for a wrong checksum
            failures.append(f"  {url}: the file does not have the checksum {checksum}")
        logger.info(failures[-1].strip())
    hint = f"see {archive.page} for a new address and give" if archive else "give"
    raise FetchError(
        "\n".join([f"{file.name} could not be fetched:", *failures, f"{hint} it by --url (and --sha256)"])
    )


class _Progress:
    """Progress bar of a pooch downloader that calls `report`."""

    total: int = 0

    def __init__(self, report: Callable[[int, int | None], None]) -> None:
        self._report = report
        self._done = 0

    def update(self, n_bytes: int) -> None:
        self._done = min(self._done + n_bytes, self.total or self._done + n_bytes)
        self._report(self._done, self.total or None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass
