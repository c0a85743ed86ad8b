"""A model of glyphs behind the application, and a client."""

import asyncio

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi")

from cosmo import ESZSL
from cosmo.data import load_glyphs
from cosmo.io.model import Model, fit_model
from cosmo.viz.studio import make_app
from cosmo.viz.studio.live import LiveModel, Samples

TOKEN = "the-token-of-the-tests"


class Browser:
    """HTTP client with the token and the header of the page."""

    token = TOKEN

    def __init__(self, app):
        self.app = app

    def headers(self, **more):
        return {"X-Cosmo-Token": TOKEN, "X-Cosmo": "1", **more}

    async def ask(self, method, path, **options):
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://studio") as client:
            return await client.request(method, path, **{"headers": self.headers(), **options})

    def get(self, path, **options):
        return asyncio.run(self.ask("GET", path, **options))

    def post(self, path, **options):
        return asyncio.run(self.ask("POST", path, **options))

    def at_once(self, *requests):
        async def all_of_them():
            responses = (self.ask(method, path, **options) for method, path, options in requests)
            return await asyncio.gather(*responses)

        return asyncio.run(all_of_them())


@pytest.fixture(scope="session")
def data():
    return load_glyphs(n_classes=40, samples_per_class=15, seed=3)


@pytest.fixture(scope="session")
def model_file(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("studio") / "glyphs.cosmo"
    train = data.split.trainval
    model = fit_model(
        data.features[train], data.labels[train], data.descriptions, unseen=ESZSL(1.0, 1.0), name="glyphs"
    )
    model.save(path)
    return path


@pytest.fixture
def model(model_file):
    return Model.load(model_file)


@pytest.fixture(scope="session")
def samples(data):
    rows = np.concatenate([data.split.test_seen, data.split.test_unseen])
    return Samples(data.features[rows], data.labels[rows])


@pytest.fixture(scope="session")
def shared(model_file, samples):
    return LiveModel(Model.load(model_file), samples)


@pytest.fixture
def live(shared):
    """A live model on samples, reset after each test."""
    yield shared
    shared.reset()


@pytest.fixture
def open_browser():
    return lambda live: Browser(make_app(live, token=TOKEN, hosts=["studio"]))


@pytest.fixture
def browser(live, open_browser):
    return open_browser(live)


@pytest.fixture(scope="session")
def new_class(data):
    """A description like that of an unseen class, but stronger, so that it takes samples from it."""
    return (1.3 * data.descriptions.loc[data.unseen_classes[4]].to_numpy(dtype=np.float64)).tolist()
