"""Every reader of files, with files to begin from: made here, by our own writers, small."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
from PIL import Image
from scipy.io import savemat

import cosmo
from cosmo.data import GZSLDataset, Split
from cosmo.data.batches import open_batches
from cosmo.data.descriptions import read_descriptions
from cosmo.data.images import read_image, read_image_folder, read_image_table
from cosmo.data.plain import read_plain, write_plain
from cosmo.data.predictions import read_predictions
from cosmo.data.starters import write_starter
from cosmo.data.tables import read_features, read_texts
from cosmo.data.xlsa17 import read_xlsa17, write_xlsa17
from cosmo.io.model_file import read_card
from cosmo.io.model_file.container import read_arrays, read_document, write
from cosmo.io.project import read_project
from soak.kept import KEPT
from soak.mutations import mutate_json
from soak.reader import Reader

__all__ = ["READERS", "fruit"]


def _pets() -> GZSLDataset:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (6, 4)), index=["cat", "dog", "fox", "owl", "hen", "Möwe"])
    table.columns = pd.MultiIndex.from_product([["fur", "food"], ["a", "b"]])
    labels = np.repeat(table.index.to_numpy(), 3)
    rows = np.arange(18)
    split = Split(
        trainval=rows[[0, 1, 3, 4, 6, 7, 9, 10]], test_seen=rows[[2, 5, 8, 11]], test_unseen=rows[12:]
    )
    names = [f"{label}/{row}.jpg" for row, label in enumerate(labels)]
    return GZSLDataset(rng.normal(size=(18, 5)), labels, table, split, sample_names=names, name="pets")


@cache
def fruit() -> Any:
    """Return a model of measured fruit."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_starter("features", folder)
        return read_project(Path(folder, "cosmo.toml")).fit()


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(12, 3)).round(3), columns=["width", "height", "weight"])
    return frame.assign(text=[f"hello {row}, you" for row in range(12)], label=["cat", "dog", "=fox"] * 4)


# Models.


def _model(folder: Path) -> list[str]:
    cosmo.io.model_file.save(fruit(), folder / "model.cosmo")
    return ["model.cosmo"]


def _load(folder: Path, name: str) -> None:
    cosmo.io.model_file.load(folder / name)
    raise AssertionError("a changed model was loaded")


def _card(folder: Path, name: str) -> None:
    # The card is in the document, which has a sum of its own; the arrays are not looked at.
    if read_card(folder / name) != read_card(folder / "whole.cosmo"):
        raise AssertionError("a changed card was read")


def _card_files(folder: Path) -> list[str]:
    cosmo.io.model_file.save(fruit(), folder / "whole.cosmo")
    return _model(folder)


def _document(folder: Path) -> list[str]:
    """Write the document of a model alone; it is sealed anew, with sums that fit, to be read."""
    _card_files(folder)
    (folder / "document.json").write_text(json.dumps(read_document(folder / "whole.cosmo")))
    return ["document.json"]


def _sealed(folder: Path, name: str) -> None:
    try:
        content = json.loads((folder / name).read_bytes())
    except (ValueError, RecursionError):
        return
    if not isinstance(content, dict):
        return
    arrays = read_arrays(folder / "whole.cosmo", read_document(folder / "whole.cosmo"))
    content.pop("arrays", None)
    path = folder / "sealed.cosmo"
    try:
        write(path, content, arrays)
    except ValueError:  # which it cannot hold
        return
    cosmo.io.model_file.load(path)


# Benchmark folders.


def _xlsa17(folder: Path) -> list[str]:
    write_xlsa17(_pets(), folder)
    return ["res101.mat", "att_splits.mat", "attributes.txt"]


def _xlsa17_packed(folder: Path) -> list[str]:
    from scipy.io import loadmat

    _xlsa17(folder)
    for name in ("res101.mat", "att_splits.mat"):
        fields = {key: value for key, value in loadmat(folder / name).items() if not key.startswith("_")}
        savemat(folder / name, fields, do_compression=True)
    return ["res101.mat", "att_splits.mat"]


def _xlsa17_hdf5(folder: Path) -> list[str]:
    """Write the same as MATLAB does in version 7.3."""
    from scipy.io import loadmat

    _xlsa17(folder)
    for name in ("res101.mat", "att_splits.mat"):
        fields = {key: value for key, value in loadmat(folder / name).items() if not key.startswith("_")}
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
    return ["res101.mat", "att_splits.mat"]


def _read_xlsa17(folder: Path, name: str) -> None:
    named = folder / "attributes.txt" if name == "attributes.txt" else None
    read_xlsa17(folder, attributes=named)


# Tables and arrays.


def _written(**files: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    def prepare(folder: Path) -> list[str]:
        names = [name.replace("__", ".") for name in files]
        for name, make in zip(names, files.values(), strict=True):
            make(folder / name)
        return names

    return prepare


def _arrays(path: Path, *, packed: bool = False) -> None:
    data = _pets()
    (np.savez_compressed if packed else np.savez)(path, X=data.features, y=np.array(data.labels.tolist()))


class _Trap:
    """A value that runs a program when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, ("true",)


def _pickled(path: Path) -> None:
    values = np.empty((2, 2), dtype=object)
    values[:] = _Trap()
    np.save(path, values, allow_pickle=True)


def _claims(path: Path) -> None:
    """Write an array that says it is far larger than it is."""
    content = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (10**5, 10**5)}
    np.lib.format.write_array_header_1_0(content, shape)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", content.getvalue() + bytes(1000))


def _deep(path: Path) -> None:
    path.write_text("[" * 9000)


def _zip_text(path: Path) -> None:
    path.write_bytes(gzip.compress(_table().to_csv(index=False).encode(), mtime=0))


_TABLES = _written(
    a__csv=lambda path: _table().to_csv(path, index=False),
    b__csv=lambda path: _table().to_csv(path, index=False, sep=";"),
    c__tsv=lambda path: _table().to_csv(path, index=False, sep="\t"),
    d__json=lambda path: _table().to_json(path, orient="records"),
    e__jsonl=lambda path: _table().to_json(path, orient="records", lines=True),
    f__csv__gz=_zip_text,
    g__json=_deep,
    h__jsonl=_deep,
)
_PARQUET = _written(
    a__parquet=lambda path: _table().to_parquet(path, engine="pyarrow"),
    b__parquet=lambda path: _table().to_parquet(path, engine="pyarrow", compression=None, index=True),
    c__parquet=lambda path: _table().to_parquet(path, engine="pyarrow", compression="gzip"),
)
_ARRAYS = _written(
    a__npz=_arrays,
    b__npz=lambda path: _arrays(path, packed=True),
    c__npy=lambda path: np.save(path, _pets().features),
    d__npy=lambda path: np.save(path, np.asfortranarray(_pets().features)),
    e__npy=_pickled,
    f__npz=_claims,
)


def _read_table(folder: Path, name: str) -> None:
    for read in (read_features, read_texts):
        try:
            read(folder / name)
        except (ValueError, OSError) as error:
            fault = error
            if name not in str(error):
                raise
        else:
            fault = None
    if fault is not None:
        raise fault


def _read_batches(folder: Path, name: str) -> None:
    kinds = ("features",) if name.endswith(("npy", "npz")) else ("features", "text")
    for kind in kinds:
        for size in (5, 100):
            try:
                list(open_batches(folder / name, kind, keep=() if len(kinds) == 1 else ("text",)).read(size))
            except (ValueError, OSError) as error:
                if name not in str(error):
                    raise


def _plain(folder: Path) -> list[str]:
    write_plain(_pets(), folder)
    return ["features.npz", "descriptions.csv", "split.csv", "samples.csv"]


def _predictions(folder: Path) -> list[str]:
    rng = np.random.default_rng(2)
    proba = rng.dirichlet(np.ones(7), size=9)
    np.savez(folder / "pred_gzsl_test.npz", pred_test=proba)
    np.savez(folder / "rows_test.npz", rows=np.arange(9) + 1, y=np.arange(9) % 6 + 1,
             seen_classes=np.arange(4) + 1, unseen_classes=np.array([5, 6]), seen_val_seed=1002)  # fmt: skip
    return ["pred_gzsl_test.npz", "rows_test.npz"]


_DESCRIPTIONS = _written(
    a__csv=lambda path: (
        _pets()
        .descriptions.set_axis(["g::a", "g::b", "h::a", "h::b"], axis=1)
        .to_csv(path, index_label="class")
    ),
    b__json=lambda path: path.write_text(json.dumps({"cat": "a small hunter", "dog": "a loud friend"})),
    c__json=lambda path: path.write_text(json.dumps({"cat": [1, 0.5], "dog": [0, 2]})),
    d__json=lambda path: path.write_text(json.dumps({"cat": {"size": 1}, "dog": {"size": 3e1}})),
    e__json=_deep,
)


def _project(folder: Path) -> list[str]:
    write_starter("features", folder)
    return ["cosmo.toml", "samples.csv", "descriptions.csv"]


# Pictures.

_SUFFIXES = ("png", "jpg", "gif", "bmp", "tif", "webp", "ppm", "tga", "jp2", "avif")


def _pictures(folder: Path) -> list[str]:
    pixels = np.random.default_rng(3).integers(0, 255, (24, 20, 3), dtype=np.uint8)
    pixels[4:12] = 200
    names = []
    for suffix in _SUFFIXES:
        (folder / suffix).mkdir()
        try:
            Image.fromarray(pixels).save(folder / suffix / f"1.{suffix}")
        except (OSError, KeyError):  # a Pillow without that format
            (folder / suffix).rmdir()
            continue
        names.append(f"{suffix}/1.{suffix}")
    Image.fromarray(pixels).convert("P").save(folder / "png" / "2.png", transparency=3)
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "png" / "3.png")
    Image.fromarray(pixels).save(folder / "tif" / "2.tif", compression="tiff_lzw")
    # Pillow goes by the content, and would have another program run for this one.
    Image.fromarray(pixels).save(folder / "png" / "4.png", format="EPS")
    return [*names, "png/2.png", "png/3.png", "png/4.png", "tif/2.tif"]


def _read_pictures(folder: Path, name: str) -> None:
    read_image_folder(folder)
    read_image(folder / name, min_size=8)


def _picture_table(folder: Path) -> list[str]:
    Image.new("L", (8, 8)).save(folder / "1.png")
    (folder / "pets.csv").write_text("path,label\n1.png,cat\n1.png,dog\n")
    return ["pets.csv"]


#: By name.
READERS: dict[str, Reader] = {
    "model": Reader(_model, _load, guided=True),
    "model card": Reader(_card_files, _card),
    "model, sealed anew": Reader(_document, _sealed, writes=True, guided=True, change=mutate_json),
    "MATLAB 5": Reader(_xlsa17, _read_xlsa17, guided=True),
    "MATLAB 5, packed": Reader(_xlsa17_packed, _read_xlsa17, guided=True),
    "MATLAB 7.3": Reader(_xlsa17_hdf5, _read_xlsa17),
    "npz, npy": Reader(_ARRAYS, _read_table),
    "npz, npy in batches": Reader(_ARRAYS, _read_batches),
    "CSV, JSON": Reader(_TABLES, _read_table),
    "CSV, JSON in batches": Reader(_TABLES, _read_batches),
    "Parquet": Reader(_PARQUET, _read_table, needs="pyarrow"),
    "Parquet in batches": Reader(_PARQUET, _read_batches, needs="pyarrow"),
    "plain data set": Reader(_plain, lambda folder, name: read_plain(folder), guided=True),
    "predictions": Reader(_predictions, lambda folder, name: read_predictions(folder, "test")),
    "descriptions": Reader(_DESCRIPTIONS, lambda folder, name: read_descriptions(folder / name), guided=True),
    "project": Reader(_project, lambda folder, name: read_project(folder / "cosmo.toml").load(), guided=True),
    "pictures": Reader(_pictures, _read_pictures),
    "table of pictures": Reader(_picture_table, lambda folder, name: read_image_table(folder / name)),
    **KEPT,
}
