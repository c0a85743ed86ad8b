"""`cosmo init`."""

from pathlib import Path

import pytest

from cosmo.cli import main
from cosmo.io.project import STARTERS


@pytest.mark.parametrize("kind", STARTERS)
def test_what_it_writes_can_be_fitted(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "new/place", "--kind", kind]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("wrote new/place/README.md, new/place/cosmo.toml, ")
    named = printed.partition("\n")[0].removeprefix("wrote ").split(", ")
    assert all(Path(name).exists() for name in named)
    for line in ("  cd new/place\n", "  cosmo check ", "  cosmo fit ", "  cosmo evaluate model.cosmo "):
        assert line in printed
    assert main(["check", "new/place"]) == 0


def test_same_files_every_time(tmp_path):
    for name in ("one", "two"):
        assert main(["init", str(tmp_path / name), "-q"]) == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.parametrize("kind", STARTERS)
@pytest.mark.parametrize("existing", ["cosmo.toml", "descriptions"])
def test_nothing_is_overwritten(kind, existing, tmp_path, capsys):
    name = existing if existing == "cosmo.toml" else f"descriptions.{'json' if kind == 'text' else 'csv'}"
    (tmp_path / name).write_text("mine")
    assert main(["init", str(tmp_path), "--kind", kind]) == 2
    assert f"{tmp_path / name} exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_readme_of_the_folder_is_kept(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    assert main(["init", str(tmp_path), "-q"]) == 0
    assert (tmp_path / "README.md").read_text() == "mine"
