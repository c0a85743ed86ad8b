"""A small run."""

import pytest

from cosmo.data import GZSLDataset, load_glyphs
from cosmo.evaluation.run import Settings, run_experiment


@pytest.fixture(scope="session")
def data():
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    return GZSLDataset(
        glyphs.features[:, ::6],
        glyphs.labels,
        glyphs.descriptions,
        glyphs.split,
        images=glyphs.images,
        sample_names=[f"/far/away/letters/{row}.png" for row in range(len(glyphs))],
        name="small",
    )


@pytest.fixture(scope="session")
def experiment(data):
    return run_experiment(data, Settings(unseen="eszsl"))
