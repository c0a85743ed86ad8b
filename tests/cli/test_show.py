"""`cosmo show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosmo.cli import main
from cosmo.data import load_glyphs
from cosmo.io.model import Model, fit_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = load_glyphs(n_classes=24, samples_per_class=8)
    train = data.split.trainval
    path = tmp_path_factory.mktemp("show") / "glyphs.cosmo"
    fit_model(data.features[train, ::6], data.labels[train], data.descriptions, name="glyphs").save(path)
    return path


def test_card(model: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["show", str(model)]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    card = Model.load(model).card()
    assert lines["data"].strip() == "glyphs"
    assert lines["seen classes"].strip() == "17"
    assert lines["unseen expert"].strip() == "ESZSL"
    assert f"acc_h {card['validation']['acc_h']:.4g}" in lines["validation"]
    assert "numpy" in lines["versions"]


def test_json(model: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["show", str(model), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["format_version"] >= 1
    assert card["validation"] == Model.load(model).card()["validation"]


def test_a_plain_classifier_has_a_card_too(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from cosmo.io.model_file import save

    save(Model.load(model).cosmo, tmp_path / "plain.cosmo")
    assert main(["show", str(tmp_path / "plain.cosmo")]) == 0
    assert "unseen classes 7" in " ".join(capsys.readouterr().out.split())


def test_damage_is_named(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    content = bytearray(model.read_bytes())
    content[-40] ^= 1
    path = tmp_path / "damaged.cosmo"
    path.write_bytes(content)
    assert main(["show", str(path), "-q"]) == 2
    assert f"{path}: damaged or altered" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "no.cosmo")]) == 2
    assert "no.cosmo" in capsys.readouterr().err
    assert main(["show", str(model), "-q"]) == 0
    assert capsys.readouterr().out == ""
