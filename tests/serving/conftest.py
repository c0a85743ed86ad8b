"""A model of glyphs behind the API, and a client."""

import asyncio
import shutil

import httpx
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry

from cosmo import ESZSL
from cosmo.io.model import fit_model
from cosmo.serving.api import ServedModel, make_api


@pytest.fixture(scope="session")
def model_files(data, tmp_path_factory):
    """Two models of the same data with other weights."""
    folder, train = tmp_path_factory.mktemp("models"), data.split.trainval
    files = [folder / "a.cosmo", folder / "b.cosmo"]
    for path, gamma in zip(files, (1.0, 100.0), strict=True):
        unseen = ESZSL(gamma, 1.0)
        model = fit_model(data.features[train], data.labels[train], data.descriptions, unseen=unseen)
        model.save(path)
    return files


@pytest.fixture
def path(model_files, tmp_path):
    return shutil.copy(model_files[0], tmp_path / "model.cosmo")


class Client:
    """An HTTP client of the application, without a network."""

    def __init__(self, app):
        self.app = app

    def send(self, method, url, host="api", **options):
        async def request():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                return await client.request(method, url, **options)

        return asyncio.run(request())

    def get(self, url, **options):
        return self.send("GET", url, **options)

    def post(self, body, **options):
        return self.send("POST", "/predict", json=body, **options)


@pytest.fixture
def make_client():
    def make(path, *, trusted=(), token=None, hosts=(), max_rows=100, max_body=1_000_000):
        registry = CollectorRegistry()
        served = ServedModel(path, registry, trusted=trusted)
        limits = {"max_rows": max_rows, "max_body": max_body}
        client = Client(make_api(served, registry, token=token, hosts=hosts, **limits))
        client.served = served
        return client

    return make


@pytest.fixture
def client(make_client, path):
    return make_client(path)
