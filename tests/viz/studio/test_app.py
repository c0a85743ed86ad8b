"""Every address of the studio: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import cosmo
from cosmo.io.model import Model
from cosmo.viz.page import read_view
from cosmo.viz.studio.live import Live
from cosmo.viz.studio.states import Samples

PREDICT, PREVIEW, KEEP, UNDO = (
    "/api/predict",
    "/api/classes/preview",
    "/api/classes/keep",
    "/api/classes/undo",
)


def error_of(answer: Any, status: int) -> str:
    """Return the sentence of a refusal."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert "Traceback" not in answer.text
    return answer.json()["error"]


class TestPage:
    def test_page_is_live_and_carries_the_view(self, browser: Any, live: Live):
        answer = browser.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        view = read_view(answer.text)
        assert view["kind"] == "studio"
        assert view["sets"][0]["classes"]["names"] == live.names
        told = json.loads(re.search(r'<script[^>]*id="live"[^>]*>([^<]*)<', answer.text)[1])  # type: ignore[index]
        assert (told["api"], told["takes"], told["features"]) == ("/api", "features", live.n_features)
        assert (told["described_by"], told["samples"], told["kept"]) == ("numbers", True, [])
        assert told["attributes"] == live.attributes
        assert told["attributes"][0].count("::") == 1
        assert told["limits"]["upload_bytes"] == 10_000_000

    def test_policy_is_that_of_the_page_and_fits_its_script(self, browser: Any):
        answer = browser.get("/")
        policy = answer.headers["content-security-policy"]
        own = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', answer.text)
        assert own is not None
        assert policy == own[1].replace("&#39;", "'") + "; frame-ancestors 'none'"
        script = re.search(r"<script>(.*?)</script>", answer.text, re.DOTALL)
        assert script is not None
        digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'" in policy
        assert "connect-src 'self'" in policy

    def test_view_is_the_same_text(self, browser: Any):
        answer = browser.get("/api/view")
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.text in browser.get("/").text
        assert json.loads(zlib.decompress(base64.b64decode(answer.text)))["format"] == 1

    def test_names_are_never_markup(self, browser: Any, new_class: list[float]):
        name = "<script>alert(1)</script><img src=x onerror=alert(1)>"
        answer = browser.post(KEEP, json={"name": name, "values": new_class})
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["classes"][-1] == name
        page = browser.get("/")
        assert name not in page.text
        assert "<script>alert" not in page.text
        assert read_view(page.text)["sets"][0]["classes"]["names"][-1] == name

    @pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/static/page.html", "/icon.ico"])
    def test_nothing_else_is_served(self, browser: Any, path: str):
        assert error_of(browser.get(path), 404) == f"there is nothing at {path}"

    @pytest.mark.parametrize(
        "path",
        [
            "/../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/..%2f..%2fetc%2fpasswd",
            "//etc/passwd",
            "/api/../api/health/",
            "/api/model/../../x",
            "/api/model/%00",
            "/api/health/",
            "/\u0661",
        ],
    )
    def test_paths_are_no_files(self, browser: Any, path: str):
        answer = browser.get(path)
        assert answer.status_code == 404
        assert "root:" not in answer.text

    def test_wrong_methods(self, browser: Any):
        assert error_of(browser.get(PREDICT), 405) == "/api/predict does not take GET"
        assert error_of(browser.post("/api/model"), 405) == "/api/model does not take POST"


class TestPredict:
    def test_equals_the_model(self, browser: Any, model: Model, samples: Samples):
        for row in samples.rows[::40]:
            record = browser.post(PREDICT, json={"features": row.tolist()}).json()
            told = model.cosmo.explain(row[None])
            assert record["answer"] == model.predict(row[None])[0]
            assert record["score"] == pytest.approx(told.gate_score[0])
            assert record["classes"] == told.classes.tolist()
            assert record["milliseconds"] > 0

    @pytest.mark.parametrize(
        ("content", "status", "reason"),
        [
            ('{"features": [1, 2]}', 422, "features must be "),
            ('{"features": NaN}', 400, "NaN is no number"),
            ('{"features": [Infinity]}', 400, "Infinity is no number"),
            ('{"features": {"a": 1}}', 422, "must be a list of "),
            ('{"text": "hello"}', 422, 'this model takes features; send JSON with the field "features"'),
            ("{}", 422, "this model takes features"),
            ('{"features": [], "path": "/etc/passwd"}', 422, "unknown field 'path'"),
            ("[1, 2, 3]", 400, "must be a JSON object"),
            ("[" * 30_000, 400, "nested too deep"),
            ("", 400, "no body"),
        ],
        ids=["length", "nan", "infinity", "object", "text", "nothing", "path", "list", "deep", "empty"],
    )
    def test_what_is_refused(self, browser: Any, content: str, status: int, reason: str):
        headers = browser.headers(**{"Content-Type": "application/json"})
        assert reason in error_of(browser.post(PREDICT, content=content, headers=headers), status)

    @pytest.mark.parametrize("number", ["1e999", "1e39", "-1e39", "9" * 5000, "true", '"1"', "null", "[1]"])
    def test_numbers_that_are_none(self, browser: Any, live: Live, number: str):
        content = json.dumps({"features": [0.0] * live.n_features}).replace("0.0]", f"{number}]")
        headers = browser.headers(**{"Content-Type": "application/json; charset=utf-8"})
        reason = error_of(browser.post(PREDICT, content=content, headers=headers), 422)
        assert reason.startswith(f"features: number {live.n_features} is ")

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "image/gif", ""])
    def test_other_types(self, browser: Any, kind: str):
        answer = browser.post(PREDICT, content=b"{}", headers=browser.headers(**{"Content-Type": kind}))
        assert error_of(answer, 415).endswith("is not taken; send application/json")

    def test_pictures_are_for_models_of_pictures(self, browser: Any):
        headers = browser.headers(**{"Content-Type": "image/png"})
        answer = browser.post(PREDICT, content=b"x", headers=headers)
        assert "takes features, not pictures" in error_of(answer, 415)


class TestBodies:
    def test_too_large_by_its_own_words(self, browser: Any):
        content = b'{"features": [' + b"0," * 200_000 + b"0]}"
        headers = browser.headers(**{"Content-Type": "application/json"})
        assert "is larger than" in error_of(browser.post(PREDICT, content=content, headers=headers), 413)

    def test_too_large_without_saying_so(self, browser: Any):
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 10_000
                yield b" " * 10_000

        headers = browser.headers(**{"Content-Type": "application/json"})
        assert "is larger than" in error_of(browser.post(PREDICT, content=endless(), headers=headers), 413)
        assert sent < 1_000_000

    def test_a_small_announcement_does_not_help(self, browser: Any):
        headers = browser.headers(**{"Content-Type": "application/json", "Content-Length": "2"})
        answer = browser.post(PREDICT, content=iter_bytes(b" " * 400_000), headers=headers)
        assert "is larger than" in error_of(answer, 413)

    def test_too_slow(self, live: Live, open_browser: Any):
        async def slow() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.sleep(30)

        browser = open_browser(live, body_seconds=0.1)
        headers = browser.headers(**{"Content-Type": "application/json"})
        begin = time.monotonic()
        answer = browser.post(PREDICT, content=slow(), headers=headers)
        assert "did not arrive within 0.1 seconds" in error_of(answer, 408)
        assert time.monotonic() - begin < 10


async def iter_bytes(content: bytes) -> AsyncIterator[bytes]:
    yield content


class TestClasses:
    def test_preview_is_the_change_and_nothing_more(self, browser: Any, live: Live, new_class: list[float]):
        answer = browser.post(PREVIEW, json={"name": " neu ", "values": new_class})
        assert answer.json() == live.preview("neu", new_class)
        assert answer.json()["taken"] > 0
        assert live.kept == []

    def test_values_by_name(self, browser: Any, live: Live, new_class: list[float]):
        named = dict(zip(live.attributes or [], new_class, strict=True))
        by_name = browser.post(PREVIEW, json={"name": "neu", "values": dict(reversed(named.items()))})
        assert by_name.json() == browser.post(PREVIEW, json={"name": "neu", "values": new_class}).json()

    def test_keep_download_undo(self, browser: Any, live: Live, new_class: list[float], tmp_path: Path):
        names = live.names
        kept = browser.post(KEEP, json={"name": "neu", "values": new_class}).json()
        assert kept == {"classes": [*names, "neu"], "kept": ["neu"], "n_seen": live.n_seen}
        answer = browser.get("/api/model?path=/etc/passwd")
        assert answer.headers["content-disposition"] == 'attachment; filename="model.cosmo"'
        assert int(answer.headers["content-length"]) == len(answer.content)
        tmp_path.joinpath("m.cosmo").write_bytes(answer.content)
        assert "neu" in cosmo.load(tmp_path / "m.cosmo").classes.index
        assert '"kept": ["neu"]' in browser.get("/").text
        assert browser.post(UNDO, json={}).json() == {"classes": names, "kept": [], "n_seen": live.n_seen}
        tmp_path.joinpath("m.cosmo").write_bytes(browser.get("/api/model").content)
        assert "neu" not in cosmo.load(tmp_path / "m.cosmo").classes.index

    def test_undo_needs_no_body(self, browser: Any):
        assert browser.post(UNDO).status_code == 200

    @pytest.mark.parametrize("path", [PREVIEW, KEEP])
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"name": ""}, "the name is empty"),
            ({"name": None}, "the name must be text, got null"),
            ({"name": "x" * 201}, "the name has 201 characters"),
            ({"name": "a\nb"}, "the name has the control character U+000A"),
            ({"values": [1.0]}, "values must be "),
            ({"values": None}, "values must be a list of "),
            ({"values": {"color::red": 1.0}}, "there is no attribute 'color::red'"),
            ({"description": "a bird"}, "unknown field 'description'; known are name, values"),
        ],
        ids=str,
    )
    def test_what_is_refused(
        self, browser: Any, live: Live, new_class: list[float], path: str, change: Any, reason: str
    ):
        body = {"name": "neu", "values": new_class, **change}
        assert reason in error_of(browser.post(path, json=body), 422)
        assert live.kept == []

    def test_names_that_are_there(self, browser: Any, live: Live, new_class: list[float]):
        for name in (live.names[0], live.names[-1]):
            answer = browser.post(KEEP, json={"name": name, "values": new_class})
            assert "there is a class" in error_of(answer, 422)

    def test_at_most_so_many(self, live: Live, open_browser: Any, new_class: list[float]):
        browser = open_browser(live, kept=1)
        assert browser.post(KEEP, json={"name": "a1", "values": new_class}).status_code == 200
        answer = browser.post(KEEP, json={"name": "a2", "values": new_class})
        assert "1 classes are kept already" in error_of(answer, 422)


class TestMany:
    def test_more_than_the_queue_takes(self, live: Live, open_browser: Any, samples: Samples):
        browser = open_browser(live, at_once=1, waiting=3)
        body = {"json": {"features": samples.rows[0].tolist()}}
        answers = browser.at_once(*[("POST", PREDICT, body)] * 40)
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {200, 503}
        for answer in answers:
            if answer.status_code == 503:
                assert answer.headers["retry-after"] == "1"
                assert "try again" in answer.json()["error"]
        assert browser.post(PREDICT, **body).status_code == 200

    def test_keeping_among_previews(self, browser: Any, live: Live, new_class: list[float]):
        requests = []
        for k in range(8):
            requests.append(("POST", KEEP, {"json": {"name": f"kept {k}", "values": new_class}}))
            requests.append(("POST", PREVIEW, {"json": {"name": f"preview {k}", "values": new_class}}))
        assert {answer.status_code for answer in browser.at_once(*requests)} == {200}
        assert sorted(live.kept) == [f"kept {k}" for k in range(8)]

    def test_too_long_an_answer(self, live: Live, open_browser: Any, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(live, "undo", lambda: time.sleep(0.5))
        browser = open_browser(live, answer_seconds=0.05)
        assert "no answer within 0.05 seconds" in error_of(browser.post(UNDO), 503)
