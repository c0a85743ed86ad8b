from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cosmo.evaluation.stages import Stages
from cosmo.evaluation.training import Training, train_all

from cosmo._core.cache import Cache
from cosmo._core.parallel import Workers
from cosmo.data import load_glyphs
from cosmo.experts import ESZSL, make_seen_expert


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    data = load_glyphs(n_classes=40, samples_per_class=12)
    return Stages(data, Cache(tmp_path_factory.mktemp("cache")))


def test_equal_trainings_are_done_once_and_kept(stages: Stages) -> None:
    reports: list[str] = []
    trainings = [
        Training("seen", stages, make_seen_expert("logistic")),
        Training("one", stages, ESZSL(gamma=1.0, lam=1.0)),
        Training("two", stages, ESZSL(gamma=1.0, lam=1.0)),
        Training("other", stages, ESZSL(gamma=10.0, lam=1.0)),
    ]
    first = train_all(trainings, report=reports.append)
    assert len(first) == 3
    assert reports[0] == "0 of 3 experts are trained already"
    assert len(reports) == 4
    again = train_all(trainings, report=reports.append)
    assert reports[4:] == ["3 of 3 experts are trained already"]
    for key, said in first.items():
        np.testing.assert_array_equal(said.test, again[key].test)


def test_processes_give_the_same(stages: Stages, tmp_path: Path) -> None:
    apart = Stages(stages.dataset, Cache(tmp_path))
    experts = [ESZSL(gamma=1.0, lam=1.0), ESZSL(gamma=10.0, lam=1.0)]
    one = train_all([Training("", stages, expert) for expert in experts])
    two = train_all([Training("", apart, expert) for expert in experts], workers=Workers(2))
    assert one.keys() == two.keys()
    for key in one:
        np.testing.assert_array_equal(one[key].validation, two[key].validation)


def test_several_data_sets_and_caches_by_relative_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = (40, 44)
    places = [Stages(load_glyphs(n_classes=n, samples_per_class=12), Cache(f"cache-{n}")) for n in sizes]
    expert = ESZSL(gamma=1.0, lam=1.0)
    said = train_all(
        [Training(f"{n}", stages, expert) for n, stages in zip(sizes, places, strict=True)],
        workers=Workers(2),
    )
    for n, stages in zip(sizes, places, strict=True):
        assert stages.kept(expert)
        assert said[stages.key(expert)].test.shape[1] == n
        assert stages.cache.folder == Path(f"cache-{n}")
