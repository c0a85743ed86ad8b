"""The promise of the demo: on `glyphs`, COSMO leads, on average over seeds."""

import pytest

from cosmo.data import load_glyphs
from cosmo.evaluation.run import Settings, run_experiment, summarise

SEEDS = range(5)


@pytest.fixture(scope="module")
def summary():
    return summarise([run_experiment(load_glyphs(seed=s), Settings(seed=s)) for s in SEEDS])


@pytest.mark.parametrize(
    "other", ["unseen expert alone", "CS + unseen expert", "Independent-Hard", "Independent-Soft"]
)
@pytest.mark.parametrize("measure", ["Acc_H", "AUSUC"])
def test_cosmo_leads_beyond_the_interval(summary, other, measure):
    lead, margin = summary.loc[other, ("lead", measure)], summary.loc[other, ("lead ±", measure)]
    assert lead > margin > 0


def test_each_part_helps(summary):
    area = summary["mean", "AUSUC"]
    assert area["CB-Gating"] > area["Independent-Soft"]
    assert area["Adaptive-Smoothing"] > area["Independent-Soft"]
