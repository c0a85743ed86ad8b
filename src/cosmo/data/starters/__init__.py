"""Example projects for `cosmo init`: the files in the folders of this package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from cosmo._core.files import write_atomic
from cosmo.data.glyphs import write_glyph_images

__all__ = ["STARTERS", "write_starter"]

#: Kinds of example projects.
STARTERS = {
    "features": "fruit by measurements; described by attributes in groups",
    "text": "requests to a small shop; described by a sentence each",
    "images": "images of letters; described by attributes in groups",
}


def write_starter(kind: str, folder: str | Path) -> list[str]:
    """Write an example project: `cosmo.toml` and the data that it names.

    Parameters
    ----------
    kind : {"features", "text", "images"}
    folder : path
        Created if necessary.

    Returns
    -------
    list of str
        Names of the files and folders written.

    Raises
    ------
    FileExistsError
        If one of them exists; nothing is overwritten.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_starter("text", folder)
    ['cosmo.toml', 'descriptions.json', 'samples.csv', 'test.csv']
    """
    if kind not in STARTERS:
        raise ValueError(f"kind must be one of {', '.join(STARTERS)}, got {kind!r}")
    folder = Path(folder)
    contents = {file.name: file.read_bytes() for file in files(__name__).joinpath(kind).iterdir()}
    names = sorted([*contents, *(("descriptions.csv", "test", "train") if kind == "images" else ())])
    for name in names:
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} exists already; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "images":
        write_glyph_images(folder, n_classes=24, samples_per_class=16, image_size=48)
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return names
