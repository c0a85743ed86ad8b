"""File formats: how to write small files of each, and how to read them."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import h5py
import numpy as np
import pandas as pd
import torch
from PIL import Image
from scipy.io import loadmat, savemat
from sklearn.naive_bayes import BernoulliNB

from cosmo._core.cache import Cache
from cosmo.data.images import read_image, read_image_folder
from cosmo.data.plain import read_plain, write_plain
from cosmo.data.tables import read_descriptions, read_features, read_texts
from cosmo.data.xlsa17 import read_xlsa17, write_xlsa17
from cosmo.experts._network import Checkpoints
from cosmo.io import _foreign
from cosmo.io.model_file import _read_arrays, _read_document, _write, load
from cosmo.io.project import read_project
from soak.mutations import mutate, mutate_json
from soak.samples import fruit, fruit_model, pets, write_fruit


@dataclass(frozen=True)
class Format:
    """A file format.

    `prepare` fills a folder and returns the names of the files to damage. `read` raises AssertionError if
    damage was accepted that the format can detect; `writes` permits it to write into the folder.
    """

    prepare: Callable[[Path], list[str]]
    read: Callable[[Path, str], object]
    writes: bool = False
    damage: Callable[[bytes, list[bytes], Any], bytes] = mutate


# Models.


def _model(folder: Path) -> list[str]:
    fruit_model().save(folder / "model.cosmo")
    fruit_model().save(folder / "whole.cosmo")
    return ["model.cosmo"]


def _load(folder: Path, name: str) -> None:
    load(folder / name)
    raise AssertionError("a damaged model was loaded")


def _document(folder: Path) -> list[str]:
    _model(folder)
    (folder / "document.json").write_text(json.dumps(_read_document(folder / "whole.cosmo")))
    return ["document.json"]


def _load_forged(folder: Path, name: str) -> None:
    """Load a model whose document was changed before its checksum was computed."""
    try:
        content = json.loads((folder / name).read_bytes())
        arrays = _read_arrays(folder / "whole.cosmo", _read_document(folder / "whole.cosmo"))
        content.pop("arrays", None)
        _write(folder / "forged.cosmo", content, arrays)
    except (ValueError, RecursionError, AttributeError):  # not a document that can be written
        return
    load(folder / "forged.cosmo")


def _archive(folder: Path) -> list[str]:
    samples, _ = fruit()
    seen = BernoulliNB().fit(samples.drop(columns="label"), samples["label"])
    (folder / "seen.skops").write_bytes(_foreign.dump(seen, "seen")[0])
    with ZipFile(folder / "seen.skops") as archive:
        archive.extract("schema.json", folder)
    return ["seen.skops", "schema.json"]


def _damage_archive(content: bytes, others: list[bytes], rng: Any) -> bytes:
    return (mutate_json if content.startswith(b"{") else mutate)(content, others, rng)


def _read_archive(folder: Path, name: str) -> None:
    """Load an archive of skops without trusting any type; a changed schema stands for a forged one."""
    content = (folder / "seen.skops").read_bytes()
    if name == "schema.json":
        data = io.BytesIO()
        with ZipFile(io.BytesIO(content)) as source, ZipFile(data, "w") as target:
            for one in source.namelist():
                target.writestr(one, (folder / name).read_bytes() if one == name else source.read(one))
        content = data.getvalue()
    with suppress(_foreign.ModelError):  # The reader of model files adds the name of the file.
        _foreign.load(content, [])


# Benchmark folders.


def _xlsa17(folder: Path) -> list[str]:
    write_xlsa17(pets(), folder)
    return ["res101.mat", "att_splits.mat", "attributes.txt"]


def _fields(path: Path) -> dict[str, Any]:
    return {key: value for key, value in loadmat(path).items() if not key.startswith("_")}


def _xlsa17_compressed(folder: Path) -> list[str]:
    names = _xlsa17(folder)[:2]
    for name in names:
        savemat(folder / name, _fields(folder / name), do_compression=True)
    return names


def _xlsa17_hdf5(folder: Path) -> list[str]:
    """Write the files as MATLAB 7.3 does."""
    names = _xlsa17(folder)[:2]
    for name in names:
        fields = _fields(folder / name)
        with h5py.File(folder / name, "w", userblock_size=512) as file:
            for field, values in fields.items():
                if values.dtype != object:
                    packed = {"compression": "gzip", "chunks": True} if values.size > 30 else {}
                    file.create_dataset(field, data=values.T, **packed)
                    continue
                cells = file.create_dataset(field, values.T.shape, h5py.ref_dtype)
                for place, text in enumerate(values.ravel()):
                    letters = np.array([[ord(letter)] for letter in str(text[0])], dtype=np.uint16)
                    one = file.create_dataset(f"#refs#/{field}{place}", data=letters)
                    one.attrs["MATLAB_class"] = np.bytes_("char")
                    cells[0, place] = one.ref
        with (folder / name).open("r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")
    return names


def _read_xlsa17(folder: Path, name: str) -> None:
    read_xlsa17(folder, attributes=folder / "attributes.txt" if name == "attributes.txt" else None)


# Tables and arrays.


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(12, 3)).round(3), columns=["width", "height", "weight"])
    return frame.assign(text=[f"hello {row}, you" for row in range(12)], label=["cat", "dog", "=fox"] * 4)


def _tables(folder: Path) -> list[str]:
    table = _table()
    table.to_csv(folder / "a.csv", index=False)
    table.to_csv(folder / "b.tsv", index=False, sep="\t")
    table.to_json(folder / "c.json", orient="records")
    table.to_json(folder / "d.jsonl", orient="records", lines=True)
    (folder / "e.csv.gz").write_bytes(gzip.compress(table.to_csv(index=False).encode(), mtime=0))
    (folder / "f.json").write_text("[" * 9000)
    return [path.name for path in sorted(folder.iterdir())]


class _Trap:
    """A value that runs a program when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("true",)


def _arrays(folder: Path) -> list[str]:
    data = pets()
    arrays = {"X": data.features, "y": np.array(data.labels.tolist())}
    np.savez(folder / "a.npz", **arrays)
    np.savez_compressed(folder / "b.npz", **arrays)
    np.save(folder / "c.npy", np.asfortranarray(data.features))
    trap = np.empty((2, 2), dtype=object)
    trap[:] = _Trap()
    np.save(folder / "d.npy", trap, allow_pickle=True)
    claim = io.BytesIO()  # of 40 GB
    np.lib.format.write_array_header_1_0(
        claim, {"descr": "<f4", "fortran_order": False, "shape": (10**5, 10**5)}
    )
    with zipfile.ZipFile(folder / "e.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", claim.getvalue() + bytes(1000))
    return [path.name for path in sorted(folder.iterdir())]


def _read_table(folder: Path, name: str) -> None:
    try:
        read_features(folder / name)
    finally:
        read_texts(folder / name)


def _plain(folder: Path) -> list[str]:
    write_plain(pets(), folder)
    return ["features.npz", "descriptions.csv", "split.csv", "samples.csv"]


def _descriptions(folder: Path) -> list[str]:
    table = pets().descriptions.set_axis(["g::a", "g::b", "h::a", "h::b"], axis=1)
    table.to_csv(folder / "a.csv", index_label="class")
    documents = {"cat": "a small hunter", "dog": "a loud friend"}, {"cat": [1, 0.5], "dog": [0, 2]}
    for name, document in zip(("b.json", "c.json"), documents, strict=True):
        (folder / name).write_text(json.dumps(document))
    return ["a.csv", "b.json", "c.json"]


def _project(folder: Path) -> list[str]:
    write_fruit(folder)
    (folder / "cosmo.toml").write_text(
        'kind = "features"\nsamples = "samples.csv"\ndescriptions = "descriptions.csv"\nlabel = "label"\n'
    )
    return ["cosmo.toml", "samples.csv", "descriptions.csv"]


# Pictures.


def _pictures(folder: Path) -> list[str]:
    pixels = np.random.default_rng(3).integers(0, 255, (24, 20, 3), dtype=np.uint8)
    pixels[4:12] = 200
    for suffix in ("png", "jpg", "gif", "bmp", "tif", "webp", "ppm", "jp2", "avif"):
        (folder / suffix).mkdir()
        try:
            Image.fromarray(pixels).save(folder / suffix / f"1.{suffix}")
        except (OSError, KeyError):  # a Pillow without this format
            (folder / suffix).rmdir()
    Image.fromarray(pixels).convert("P").save(folder / "png" / "2.png", transparency=3)
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "png" / "3.png")
    # Pillow recognises the content, and would run ghostscript for it.
    Image.fromarray(pixels).save(folder / "png" / "4.png", format="EPS")
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.*"))]


def _read_pictures(folder: Path, name: str) -> None:
    read_image_folder(folder)
    read_image(folder / name, 8)


# Files that the program keeps for itself: damage means computing again, never a wrong result.

_SQUARES = {"x": np.arange(50.0) ** 2, "names": np.array(["a", "bc"])}
_CHOICE = {"best": {"gamma": 0.25, "epochs": 12}, "scores": [0.5, None]}


def _cache(folder: Path) -> list[str]:
    store = Cache(folder)
    store.arrays("squares", "1", lambda: _SQUARES)
    store.write("choice", "1", _CHOICE)
    return ["squares-1.npz", "choice-1.json"]


def _read_cache(folder: Path, name: str) -> None:
    store = Cache(folder)
    found = store.arrays("squares", "1", lambda: _SQUARES)
    same = found.keys() == _SQUARES.keys() and all(np.array_equal(found[k], _SQUARES[k]) for k in _SQUARES)
    if not same or store.read("choice", "1") not in ({}, _CHOICE):
        raise AssertionError("a damaged cache entry was used")


def _checkpoint(folder: Path) -> list[str]:
    Checkpoints(folder, "k", [10]).save(10, lambda: {"weights": torch.arange(20.0), "epoch": 10})
    return ["training-k-10.pt"]


def _read_checkpoint(folder: Path, name: str) -> None:
    Checkpoints(folder, "k", [10]).last(0, 10)


FORMATS = {
    "model": Format(_model, _load),
    "model with a forged document": Format(_document, _load_forged, writes=True, damage=mutate_json),
    "archive of skops": Format(_archive, _read_archive, damage=_damage_archive),
    "MATLAB 5": Format(_xlsa17, _read_xlsa17),
    "MATLAB 5, compressed": Format(_xlsa17_compressed, _read_xlsa17),
    "MATLAB 7.3": Format(_xlsa17_hdf5, _read_xlsa17),
    "npz, npy": Format(_arrays, _read_table),
    "CSV, JSON": Format(_tables, _read_table),
    "plain data set": Format(_plain, lambda folder, name: read_plain(folder)),
    "descriptions": Format(_descriptions, lambda folder, name: read_descriptions(folder / name)),
    "project": Format(_project, lambda folder, name: read_project(folder / "cosmo.toml").load()),
    "pictures": Format(_pictures, _read_pictures),
    "cache": Format(_cache, _read_cache, writes=True),
    "checkpoints": Format(_checkpoint, _read_checkpoint, writes=True),
}
