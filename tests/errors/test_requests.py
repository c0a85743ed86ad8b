"""Requests to the studio: whatever is sent, the answer is JSON with a status below 500."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from cosmo.viz.studio.app import make_app
from cosmo.viz.studio.live import Live

TOKEN = "the-token-of-the-tests"
HEADERS = {"X-Cosmo-Token": TOKEN, "X-Cosmo": "1", "Content-Type": "application/json"}
PREDICT, PREVIEW, KEEP = "/api/predict", "/api/classes/preview", "/api/classes/keep"


@pytest.fixture(scope="module")
def live(model) -> Live:
    return Live(model)


@pytest.fixture(scope="module")
def send(live: Live) -> Any:
    app = make_app(live, token=TOKEN, hosts=["studio"])

    async def request(path: str, body: bytes, headers: dict[str, str], method: str) -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://studio") as client:
            return await client.request(method, path, content=body, headers=headers)

    def sent(path: str, body: Any, method: str = "POST", **headers: str) -> tuple[int, Any]:
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
CASES: list[tuple[str, Any, dict[str, str], int, tuple[str, ...]]] = [
    (PREDICT, b"", {}, 400, ("no body", "JSON")),
    (PREDICT, b"features=1", {}, 400, ("not JSON",)),
    (PREDICT, b'{"features": [1', {}, 400, ("not JSON",)),
    (PREDICT, b"[" * 90_000, {}, 400, ("nested too deep",)),
    (PREDICT, [ROW], {}, 400, ("JSON object",)),
    (PREDICT, b'{"features": [NaN, 0, 0, 0, 0, 0]}', {}, 400, ("NaN",)),
    (PREDICT, {"features": ROW[:5]}, {}, 422, ("features", "6 numbers", "5")),
    (PREDICT, {"features": [*ROW[:5], "red"]}, {}, 422, ("features", "number 6", "text")),
    (PREDICT, {"features": [*ROW[:5], 1e39]}, {}, 422, ("features", "number 6", "too large")),
    (PREDICT, {"features": None}, {}, 422, ("features",)),
    (PREDICT, {"text": "a bird"}, {}, 422, ("features",)),
    (PREDICT, b" " * 300_000, {}, 413, ("larger than", "send less")),
    (PREDICT, {"features": ROW}, {"Content_Type": "text/plain"}, 415, ("text/plain", "application/json")),
    (PREDICT, {"features": ROW}, {"X_Cosmo_Token": "another"}, 401, ("token", "cosmo studio")),
    (PREDICT, {"features": ROW}, {"X_Cosmo": ""}, 403, ("X-Cosmo",)),
    (PREDICT, {"features": ROW}, {"Host": "example.org"}, 403, ("cosmo studio",)),
    (PREVIEW, {"name": "ant", "values": ROW}, {}, 422, ("'ant'", "another name")),
    (PREVIEW, {"name": " ", "values": ROW}, {}, 422, ("name", "empty")),
    (PREVIEW, {"name": "j" * 201, "values": ROW}, {}, 422, ("name", "201", "200")),
    (PREVIEW, {"name": "jay\0", "values": ROW}, {}, 422, ("name", "U+0000")),
    (PREVIEW, {"name": 7, "values": ROW}, {}, 422, ("name", "text")),
    (KEEP, {"name": "jay", "values": {"colour::a": 1}}, {}, 422, ("'colour::b'", "missing")),
    (KEEP, {"name": "jay", "values": {"f0": 1}}, {}, 422, ("no attribute 'f0'",)),
    (KEEP, {"name": "jay", "values": ROW, "path": "/"}, {}, 422, ("unknown field 'path'",)),
]


@pytest.mark.parametrize(("path", "body", "headers", "status", "parts"), CASES)
def test_refused(send, live: Live, path, body, headers, status, parts):
    found, message = send(path, body, **headers)
    assert found == status, message
    assert not [part for part in parts if part not in message], message
    assert live.kept == []


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
