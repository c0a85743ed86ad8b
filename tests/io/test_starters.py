"""The examples that `cosmo init` writes; its tests have more."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from cosmo.io.project import write_starter


def test_requests(tmp_path: Path):
    write_starter("text", tmp_path)
    train, test = (pd.read_csv(tmp_path / name) for name in ("samples.csv", "test.csv"))
    words = json.loads((tmp_path / "descriptions.json").read_text())
    assert set(words) - set(train["intent"]) == {"gift_wrapping", "speak_to_human"}
    assert set(test["intent"]) == set(words)
    assert train["intent"].value_counts().min() >= 6
    everything = pd.concat([train["text"], test["text"]])
    assert everything.is_unique
    assert not everything.str.contains(r"\||^\s|\s$").any()


def test_fruit(tmp_path: Path):
    write_starter("features", tmp_path)
    table = pd.read_csv(tmp_path / "descriptions.csv", index_col=0)
    groups = table.T.groupby(lambda name: name.partition("::")[0]).sum()
    assert (groups == 1).all().all()
    assert not table.duplicated().any()
    seen = table.loc[pd.read_csv(tmp_path / "samples.csv")["fruit"].unique()]
    assert (seen.sum() >= 2).all()  # every attribute can be learned


def test_unknown_kind(tmp_path: Path):
    with pytest.raises(ValueError, match="one of features, text, images, got 'sound'"):
        write_starter("sound", tmp_path)
