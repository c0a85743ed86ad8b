import re

import pytest
from matplotlib.figure import Figure

from cosmo.viz.plots import save_figure, shorten


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("short", 5, "short"),
        ("Black_throated_Blue_Warbler", 11, "Black…rbler"),
        ("abcdef", 4, "ab…f"),
        ("abcdef", 1, "…"),
        ("two\nlines and\ttabs", 24, "two lines and tabs"),
        (12, 24, "12"),
        ("", 3, ""),
    ],
)
def test_shorten(name, width, expected):
    assert shorten(name, width) == expected


def made(text="text"):
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().set_title(text)
    return figure


def test_both_files_are_written_whole(tmp_path):
    png, svg = save_figure(made(), tmp_path / "CUB v1.2")
    assert [png.name, svg.name] == ["CUB v1.2.png", "CUB v1.2.svg"]
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_text("utf-8").rstrip().endswith("</svg>")
    assert sorted(tmp_path.iterdir()) == [png, svg]


def test_no_date_and_no_program_in_the_files(tmp_path):
    png, svg = save_figure(made(), str(tmp_path / "a"))
    assert not re.search(rb"dc:date|dc:creator", svg.read_bytes())
    assert b"Software" not in png.read_bytes()
