from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

from cosmo.cache import Cache
from cosmo.data import load_glyphs
from cosmo.experts import ESZSL, make_seen_expert
from cosmo.stages import Stages
from cosmo.training import Training, _deaf_to_interrupts, train_all


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
    two = train_all([Training("", apart, expert) for expert in experts], jobs=2)
    assert one.keys() == two.keys()
    for key in one:
        np.testing.assert_array_equal(one[key].validation, two[key].validation)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks here")
def test_workers_leave_ctrl_c_to_the_command() -> None:
    with _deaf_to_interrupts():
        masks = Parallel(n_jobs=2, return_as="generator_unordered")([delayed(_is_deaf)() for _ in range(2)])
    assert list(masks) == [True, True]
    assert not _is_deaf()


def _is_deaf() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
