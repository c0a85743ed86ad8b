"""A browser per module, and a client of it per test."""

from dataclasses import replace

import pytest
from chromium import Shown, Visitor, chromium

from cosmo.data import load_glyphs
from cosmo.evaluation.run import Settings, run_experiment
from cosmo.viz.page import write_report


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def visitor(browser):
    one = Visitor(browser)
    yield one
    one.leave()


@pytest.fixture(scope="session")
def experiment():
    data = load_glyphs(n_classes=40, samples_per_class=12)
    return run_experiment(data, Settings(unseen="eszsl"))


@pytest.fixture(scope="session", params=["calibrated", "paper"])
def shown(request, experiment, report, tmp_path_factory):
    """The report of a run with the calibrated method, and of one with the paper's ways only."""
    if request.param == "calibrated":
        model, outputs = experiment.calibrated, experiment.calibrated_test
        return Shown(report, experiment, "COSMO, calibrated", model, outputs)
    evaluations = experiment.evaluations[:-1]
    paper = replace(experiment, evaluations=evaluations, calibrated=None, calibrated_test=None)
    path = write_report(paper, tmp_path_factory.mktemp("paper"))
    return Shown(path, paper, "COSMO", paper.model, paper.test)


@pytest.fixture(scope="session")
def report(experiment, tmp_path_factory):
    return write_report(experiment, tmp_path_factory.mktemp("report"))
