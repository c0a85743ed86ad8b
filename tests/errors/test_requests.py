"""Requests to the studio: whatever is sent, the answer is JSON with a status below 500."""

import asyncio
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from cosmo.viz.studio import make_app
from cosmo.viz.studio.live import LiveModel

TOKEN = "the-token-of-the-tests"
HEADERS = {"X-Cosmo-Token": TOKEN, "X-Cosmo": "1", "Content-Type": "application/json"}
PREDICT, PREVIEW = "/api/predict", "/api/classes/preview"


@pytest.fixture(scope="module")
def live(model):
    return LiveModel(model)


@pytest.fixture(scope="module")
def send(live):
    app = make_app(live, token=TOKEN, hosts=["studio"])

    async def request(path, body, headers, method):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://studio") as client:
            return await client.request(method, path, content=body, headers=headers)

    def sent(path, body, method="POST", **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        merged = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        answer = asyncio.run(request(path, content, merged, method))
        assert answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == "application/json"
        if answer.status_code != 200:
            assert set(answer.json()) == {"error"}
            return answer.status_code, answer.json()["error"]
        return 200, answer.json()

    return sent


ROW = [0.5] * 6


def test_clean(send):
    assert send(PREDICT, {"features": ROW})[0] == 200
    assert send(PREVIEW, {"name": "jay", "values": ROW})[0] == 200
    assert send(PREDICT, {"features": ROW}, method="PUT")[0] == 405


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
fields = st.sampled_from(["features", "name", "values", "text", "description", "x"])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([PREDICT, PREVIEW]),
    body=st.binary(max_size=60) | json_values | st.dictionaries(fields, json_values | st.just(ROW)),
)
def test_any_body(send, path, body):
    status, _ = send(path, body)
    assert status in (200, 400, 413, 422)
