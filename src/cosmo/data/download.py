"""Benchmark archives: where they are, fetched with resume and checksums, unpacked with care."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pooch
import requests

from cosmo._core.files import write_whole
from cosmo.data._unpacking import ArchiveError, is_archive, unpack

__all__ = ["ARCHIVES", "Archive", "FetchError", "Fetched", "ResumingDownloader", "fetch"]

logger = logging.getLogger(__name__)

_ATTEMPTS = 5  # at one address, each from where the last one broke off
_CHUNK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte
_SECONDS = 5.0  # between two reports
_BROKEN = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)


@dataclass(frozen=True)
class Archive:
    """A file that is known to be public.

    Parameters
    ----------
    name : str
    about : str
        What is in it.
    urls : tuple of str
        Addresses, tried in this order.
    page : str
        Where its makers describe it, and where a new address would be found.
    size : str
        Roughly.
    checksum : str, optional
        "sha256:..." or "md5:..." where a trustworthy one is known; else the first download is trusted.

    Examples
    --------
    >>> ARCHIVES["cub"].urls[0].endswith("CUB_200_2011.tgz")
    True
    """

    name: str
    about: str
    urls: tuple[str, ...]
    page: str
    size: str
    checksum: str | None = None


_XIAN = "datasets.d2.mpi-inf.mpg.de/xian"
_XIAN_PAGE = (
    "https://www.mpi-inf.mpg.de/departments/computer-vision-and-machine-learning/research/zero-shot-learning/"
    "zero-shot-learning-the-good-the-bad-and-the-ugly"
)
_SUN = "cs.brown.edu/people/gmpatter"
_SUN_PAGE = "https://cs.brown.edu/~gmpatter/sunattributes.html"
_AWA2 = "https://cvml.ista.ac.at/AwA2"
_CUB_PAGE = "https://www.vision.caltech.edu/datasets/cub_200_2011/"

#: Known archives by name.
ARCHIVES: dict[str, Archive] = {
    archive.name: archive
    for archive in (
        Archive(
            "xlsa17",
            "proposed splits, attributes and ResNet-101 features of AWA1, AWA2, CUB, SUN and APY",
            (f"https://{_XIAN}/xlsa17.zip", f"http://{_XIAN}/xlsa17.zip"),
            _XIAN_PAGE,
            "0.9 GB",
        ),
        Archive(
            "cvpr18xian",
            "ResNet-101 features and sentence descriptions of FLO, with its split",
            (f"https://{_XIAN}/cvpr18xian.zip", f"http://{_XIAN}/cvpr18xian.zip"),
            _XIAN_PAGE,
            "not known",
        ),
        Archive(
            "cub",
            "Caltech-UCSD Birds-200-2011: pictures and attributes",
            ("https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",),
            _CUB_PAGE,
            "1.1 GB",
            "md5:97eceeb196236b17998738112f37df78",
        ),
        Archive(
            "awa2-base",
            "Animals with Attributes 2: classes and attributes, no pictures",
            (f"{_AWA2}/AwA2-base.zip", "https://cvml.ist.ac.at/AwA2/AwA2-base.zip"),
            f"{_AWA2}/",
            "32 kB",
        ),
        Archive(
            "awa2",
            "Animals with Attributes 2: pictures",
            (f"{_AWA2}/AwA2-data.zip", "https://cvml.ist.ac.at/AwA2/AwA2-data.zip"),
            f"{_AWA2}/",
            "13 GB",
        ),
        Archive(
            "sun-attributes",
            "SUN attribute database: attributes of each picture",
            (
                f"https://{_SUN}/Attributes/SUNAttributeDB.tar.gz",
                f"http://{_SUN}/Attributes/SUNAttributeDB.tar.gz",
            ),
            _SUN_PAGE,
            "0.5 MB",
            "md5:883293e5b645822f6ae0046c6df54183",
        ),
        Archive(
            "sun-images",
            "SUN attribute database: pictures",
            (f"https://{_SUN}/Attributes/SUNAttributeDB_Images.tar.gz",),
            _SUN_PAGE,
            "1.8 GB",
        ),
    )
}


class FetchError(OSError):
    """An archive could not be had; the message says what went wrong at each address, and what to do."""


@dataclass(frozen=True)
class Fetched:
    """What `fetch` returns: the archive, the folder with its content, and how far it can be trusted."""

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
    report: Callable[[str], None] = logger.info,
) -> Fetched:
    """Download an archive, check it and unpack it into a folder of its name.

    A download that broke off is continued, now or in a later call. Where no checksum is known, that of the
    first download is kept beside the file (`FILE.sha256`) and holds from then on.

    Parameters
    ----------
    name : str
        One of `ARCHIVES`; or, with `urls`, any name for the folder.
    to : path
        Folder for both; made if need be.
    urls : sequence of str
        Addresses to try before the known ones.
    sha256 : str, optional
        Checksum of the file, if you know it; it takes the place of the known one.
    report : callable
        Gets a line on the progress every few seconds.

    Raises
    ------
    FetchError
        If no address gives the right file.
    ArchiveError
        If the file cannot be unpacked safely.

    Examples
    --------
    A file that is there already is checked and unpacked.

    >>> import tempfile, zipfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with zipfile.ZipFile(Path(home, "birds.zip"), "w") as archive:
    ...         archive.writestr("list.txt", "robin")
    ...     fetched = fetch("birds", home, urls=["https://example.org/birds.zip"])
    ...     fetched.folder.name, fetched.trusted_on_first_use, sorted(os.listdir(home))
    ('birds', True, ['birds', 'birds.zip', 'birds.zip.sha256'])
    """
    archive = ARCHIVES.get(name)
    if archive is None and not urls:
        raise ValueError(
            f"there is no archive {name!r} known; there are {', '.join(ARCHIVES)}, or give its --url"
        )
    if re.fullmatch(r"[\w-][\w.-]*", name) is None:
        raise ValueError(f"{name!r} cannot be the name of a folder; use letters, digits, '-', '_' and '.'")
    if sha256 is not None and re.fullmatch("[0-9a-fA-F]{64}", sha256) is None:
        raise ValueError(f"a SHA-256 checksum has 64 hexadecimal digits, got {sha256!r}")
    addresses = [*urls, *(archive.urls if archive else ())]
    for url in addresses:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise ValueError(f"{url!r} is not an address; it begins with https:// or http://")
    # Named by the archive, so that a mirror with another file name still continues the same download.
    filename = Path(unquote(urlsplit(archive.urls[0] if archive else urls[0]).path)).name
    if not filename or filename == "..":
        raise ValueError(f"{urls[0]!r} does not end in the name of a file")
    home, file = Path(to), Path(to, filename)
    noted = file.with_name(f"{file.name}.sha256")
    known = f"sha256:{sha256.lower()}" if sha256 else archive.checksum if archive else None
    first_use = known is None
    if known is None and noted.exists():
        known = f"sha256:{_read_note(noted)}"
    home.mkdir(parents=True, exist_ok=True)
    was_here = file.exists()
    _download(addresses, file, known, noted if first_use else None, archive, report)
    folder = home / name
    if folder.exists():
        report(f"{folder} is there already; remove it to unpack {file.name} again")
    else:
        report(f"unpacking {file}")
        try:
            unpack(file, folder)
        except ArchiveError:
            if known is None and not was_here:  # else it would be found, and fail, for ever
                file.unlink()
            raise
    if known is None:
        digest = pooch.file_hash(str(file))
        write_whole(noted, f"{digest}  {file.name}\n".encode())
        known = f"sha256:{digest}"
        report(f"no checksum is known of {file.name}: this one is trusted and kept in {noted.name}")
    return Fetched(file, folder, known, first_use)


def _read_note(noted: Path) -> str:
    """Return the checksum that was kept of the first download."""
    if match := re.match(rb"([0-9a-f]{64})\s", noted.read_bytes()):
        return match[1].decode()
    raise FetchError(f"{noted}: holds no checksum; if you trust the file beside it, remove this one")


def _download(
    addresses: Sequence[str],
    file: Path,
    known: str | None,
    noted: Path | None,
    archive: Archive | None,
    report: Callable[[str], None],
) -> None:
    """Get a file from the first address that has the right one."""
    pooch.get_logger().setLevel(logging.WARNING)  # progress is told by the downloader
    failures, waiting = [], list(addresses)
    while waiting:
        url = waiting.pop(0)
        downloader = ResumingDownloader(
            file.with_name(f"{file.name}.partial"), checked=known is not None, report=report
        )
        try:
            pooch.retrieve(url, known, fname=file.name, path=file.parent, downloader=downloader)
            return
        except (requests.RequestException, OSError) as error:
            failures.append(f"  {url}: {error}")
        except ValueError as error:  # pooch's word for a wrong checksum
            if "hash" not in str(error).lower():
                raise
            if downloader.continued:  # perhaps from another file: what had come is gone, so ask once more
                waiting.insert(0, url)
                continue
            differs = f"the file there is not the expected one ({known})"
            if noted is not None:
                differs += (
                    f": it was another when it was first fetched; if you trust the new one, remove {noted}"
                )
            failures.append(f"  {url}: {differs}")
        report(failures[-1].strip())
    page = f"addresses may move: see {archive.page}, and give " if archive else "give "
    raise FetchError(
        "\n".join(
            [f"{file.name} could not be fetched:", *failures, f"{page}another one by --url (and --sha256)"]
        )
    )


class ResumingDownloader:
    """Downloads for `pooch` that go on where they broke off, now or in another process.

    Parameters
    ----------
    partial : path
        What has come so far; a note beside it (`.json`) says from where, and which version.
    checked : bool
        Whether a checksum will be checked afterwards. Then what has come so far is continued from any
        address; else only from the same one, and only if it says that the file has not changed.
    report : callable
        Gets a line on the progress every few seconds.
    """

    def __init__(
        self, partial: Path, *, checked: bool = False, report: Callable[[str], None] = logger.info
    ) -> None:
        self._partial, self._checked, self._report = partial, checked, report
        self._note = partial.with_name(f"{partial.name}.json")
        self.continued = False  # whether an earlier call's part was used

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:
        """Put the file at an address into `output_file`."""
        self.continued = self._so_far() > 0
        for attempt in range(1, _ATTEMPTS + 1):
            before = self._so_far()
            try:
                self._go_on(url)
                break
            except _BROKEN as error:
                # Without progress there is no point in trying for long.
                if attempt == _ATTEMPTS or (attempt > 1 and self._so_far() <= before):
                    raise
                self._report(f"interrupted after {_size(self._so_far())}, trying again ({error})")
                time.sleep(min(0.1 * 2**attempt, 5.0))
        if not is_archive(self._partial):
            start = self._partial.read_bytes()[:60] if self._so_far() < 1 << 20 else b""
            self._forget()
            raise FetchError(f"what is there is no zip or tar archive: {start!r}")
        os.replace(self._partial, output_file)
        self._forget()

    def _so_far(self) -> int:
        return self._partial.stat().st_size if self._partial.exists() else 0

    def _forget(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def _go_on(self, url: str) -> None:
        """Ask for what is missing, and append it."""
        headers = {"Accept-Encoding": "identity"}  # bytes on the wire are bytes of the file
        validator = self._validator(url)
        if self._so_far() and not (validator or self._checked):
            self._forget()
        if self._so_far():
            headers["Range"] = f"bytes={self._so_far()}-"
            if validator and not self._checked:
                headers["If-Range"] = validator
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            if answer.status_code == 416 and self._so_far():  # nothing is missing, or too much is here
                total = answer.headers.get("Content-Range", "").rpartition("/")[2]
                if total == str(self._so_far()):
                    return
                self._forget()
                raise requests.ConnectionError("what was here is longer than the file; beginning anew")
            answer.raise_for_status()
            start = self._so_far() if answer.status_code == 206 else 0
            if start and not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                self._forget()
                raise requests.ConnectionError("the server sends another part than was asked for")
            length = answer.headers.get("Content-Length")
            total_size = None if length is None else start + int(length)
            state = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            write_whole(self._note, json.dumps({"url": url, "state": state}).encode())
            self._receive(answer, start, total_size)

    def _validator(self, url: str) -> str | None:
        """Return what the server said about the version of the file, if it was the same server."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            state = note["state"] if note["url"] == url else None
        except (OSError, ValueError, TypeError, KeyError):
            return None
        weak = state is None or str(state).startswith("W/")  # which does not promise the same bytes
        return None if weak else str(state)

    def _receive(self, answer: requests.Response, start: int, total: int | None) -> None:
        began = said = time.monotonic()
        done = start
        with self._partial.open("ab" if start else "wb") as file:
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                now = time.monotonic()
                if now - said >= _SECONDS:
                    said = now
                    rate = (done - start) / (now - began)
                    left = "" if total is None else f" of {_size(total)}, {(total - done) / rate:.0f} s left"
                    self._report(f"{_size(done)}{left}, {_size(rate)} per second")
        if total is not None and done < total:
            raise requests.ConnectionError(f"{_size(done)} of {_size(total)} came")


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.2f} GB"
