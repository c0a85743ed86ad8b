from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cosmo.data._unpacking import ArchiveError, unpack

NOISE = np.random.default_rng(0).bytes(300_000)


def tarred(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


class TestUnpack:
    def refused(self, path: Path, message: str, **options: int) -> None:
        before = set(path.parent.rglob("*"))
        with pytest.raises(ArchiveError, match=message):
            unpack(path, path.parent / "new", **options)
        assert set(path.parent.rglob("*")) == before  # nothing is left, inside or outside

    def test_tar(self, tmp_path: Path):
        unpack(tarred(tmp_path / "a.tgz", ("a/b/c.txt", b"c"), ("d.txt", b"d")), tmp_path / "new")
        assert (tmp_path / "new" / "a" / "b" / "c.txt").read_bytes() == b"c"
        assert (tmp_path / "new" / "d.txt").read_bytes() == b"d"

    @pytest.mark.parametrize(
        "name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "..\\evil.txt", "C:/evil"]
    )
    def test_names_that_lead_out(self, tmp_path: Path, name: str):
        self.refused(tarred(tmp_path / "a.tgz", ("good.txt", b""), (name, b"")), "leads out of the folder")
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr(name, "")
        self.refused(tmp_path / "a.zip", "leads out of the folder")

    @pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
    def test_links_and_devices(self, tmp_path: Path, kind: bytes):
        path = tarred(tmp_path / "a.tgz", link("way", "/etc", kind), ("way/evil.txt", b""))
        self.refused(path, "'way' is a link or a device")

    def test_links_in_zip(self, tmp_path: Path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            info = zipfile.ZipInfo("way")
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, "/etc")
        self.refused(tmp_path / "a.zip", "'way' is a link or a device")

    def test_bombs(self, tmp_path: Path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros", bytes(20_000_000))
        self.refused(tmp_path / "a.zip", "unpacks to more than 10000000 bytes")
        self.refused(tarred(tmp_path / "b.tgz", ("x", bytes(999))), "more than 500 bytes", most_bytes=500)
        many = tarred(tmp_path / "c.tgz", *((f"{k}", b"") for k in range(4)))
        self.refused(many, "more than 3 members", most_files=3)

    def test_what_takes_the_memory_that_it_asks_for(self, tmp_path: Path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("x", "packed")
        self.refused(tmp_path / "a.zip", "'x' is packed in a rare way; unpack it by hand")
        with tarfile.open(tmp_path / "b.txz", "w:xz") as archive:
            archive.addfile(tarfile.TarInfo("x"))
        self.refused(tmp_path / "b.txz", r"neither a zip nor a tar archive \(plain, gzip or bzip2\)")
        (tmp_path / "c.lzma").write_bytes(b"\x5d\xff\xff\xff\xff" + bytes(100))  # a window of 4 GB
        self.refused(tmp_path / "c.lzma", "neither a zip nor a tar archive")

    @pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
    def test_headers_without_end(self, tmp_path: Path, kind: bytes):
        header = tarfile.TarInfo("x")
        header.type, header.size = kind, 5_000_000
        with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
            archive.addfile(header, io.BytesIO(bytes(5_000_000)))
        self.refused(tmp_path / "a.tgz", "a header of 5000192 bytes")

    @pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
    def test_ways_of_packing(self, tmp_path: Path, mode: str):
        with tarfile.open(tmp_path / "a.tar", mode) as archive:
            info = tarfile.TarInfo("a" * 200)  # needs a header of its own
            info.size = len(NOISE)
            archive.addfile(info, io.BytesIO(NOISE))
        unpack(tmp_path / "a.tar", tmp_path / "new")
        assert (tmp_path / "new" / ("a" * 200)).read_bytes() == NOISE

    def test_same_name_twice(self, tmp_path: Path):
        self.refused(tarred(tmp_path / "a.tgz", ("x", b"1"), ("x", b"2")), "'x' is in it twice")

    @pytest.mark.parametrize("cut", [40, 150_000])
    def test_damage(self, tmp_path: Path, cut: int):
        path = tarred(tmp_path / "a.tgz", ("x", NOISE))
        path.write_bytes(path.read_bytes()[:cut])
        self.refused(path, "damaged or cut short|neither a zip nor a tar")
        with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
            archive.writestr("x", NOISE)
        damaged = bytearray((tmp_path / "b.zip").read_bytes())
        damaged[1000] ^= 1
        (tmp_path / "b.zip").write_bytes(damaged)
        self.refused(tmp_path / "b.zip", "damaged or cut short")

    def test_folder_that_is_there(self, tmp_path: Path):
        (tmp_path / "new").mkdir()
        self.refused(tarred(tmp_path / "a.tgz", ("x", b"")), "is there already")
