"""Every address of the studio: responses, and refused requests."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import expit

import cosmo
from cosmo import ESZSL
from cosmo.io.model import fit_model
from cosmo.viz import studio as studio_app
from cosmo.viz.page import model_view, read_view
from cosmo.viz.page.render import decompress
from cosmo.viz.studio import live as studio_live
from cosmo.viz.studio.live import LiveModel

PREDICT, OPERATE = "/api/predict", "/api/operate"
PREVIEW, KEEP, UNDO = (f"/api/classes/{action}" for action in ("preview", "keep", "undo"))


def error_of(answer, status):
    """Return the message of a refused request."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert "Traceback" not in answer.text
    return answer.json()["error"]


class TestPage:
    def test_page_is_live_and_carries_the_view(self, browser, live):
        answer = browser.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        view = read_view(answer.text)
        assert view["kind"] == "studio"
        assert view["sets"][0]["classes"]["names"] == live.names
        facts = json.loads(re.search(r'<script[^>]*id="live"[^>]*>([^<]*)<', answer.text)[1])
        assert (facts["api"], facts["takes"], facts["features"]) == ("/api", "features", live.n_features)
        assert (facts["described_by"], facts["samples"], facts["kept"]) == ("numbers", True, [])
        assert facts["attributes"] == live.attributes
        assert facts["attributes"][0].count("::") == 1
        assert facts["limits"]["upload_bytes"] == 10_000_000

    def test_policy_is_that_of_the_page_and_fits_its_script(self, browser):
        answer = browser.get("/")
        policy = answer.headers["content-security-policy"]
        own = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', answer.text)
        assert policy == own[1].replace("&#39;", "'") + "; frame-ancestors 'none'"
        script = re.search(r"<script>(.*?)</script>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'" in policy
        assert "connect-src 'self'" in policy

    @pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/static/page.html", "/icon.ico"])
    def test_nothing_else_is_served(self, browser, path):
        assert error_of(browser.get(path), 404) == "Not Found"


class TestPredict:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ('{"features": [1, 2]}', "features must have "),
            ('{"features": NaN}', "features: Input should be a valid array"),
            ('{"features": [Infinity]}', "features.0: Input should be a finite number"),
            ('{"features": {"a": 1}}', "features: Input should be a valid array"),
            ('{"text": "hello"}', 'this model takes features: send JSON with the field "features"'),
            ("{}", "this model takes features"),
            ('{"features": [], "path": "/etc/passwd"}', "path: Extra inputs are not permitted"),
            ("[1, 2, 3]", "Input should be an object"),
            ("[" * 30_000, "recursion limit exceeded"),
            ("{", "Invalid JSON"),
            (b"\xff\xfe\x00", "Invalid JSON"),
            ("", "Invalid JSON"),
        ],
        ids=str,
    )
    def test_refused_bodies(self, browser, content, reason):
        headers = browser.headers(**{"Content-Type": "application/json"})
        assert reason in error_of(browser.post(PREDICT, content=content, headers=headers), 422)

    @pytest.mark.parametrize("number", ["1e999", "1e39", "-1e39", "9" * 5000, "true", '"1"', "null", "[1]"])
    def test_refused_numbers(self, browser, live, number):
        content = json.dumps({"features": [0.0] * live.n_features}).replace("0.0]", f"{number}]")
        headers = browser.headers(**{"Content-Type": "application/json; charset=utf-8"})
        reason = error_of(browser.post(PREDICT, content=content, headers=headers), 422)
        assert reason.startswith((f"features.{live.n_features - 1}: Input should be ", "Invalid JSON"))

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "image/gif", ""])
    def test_other_types(self, browser, kind):
        answer = browser.post(PREDICT, content=b"{}", headers=browser.headers(**{"Content-Type": kind}))
        assert "the Content-Type must be application/json or image/png" in error_of(answer, 415)

    def test_images_need_a_model_of_images(self, browser):
        headers = browser.headers(**{"Content-Type": "image/png"})
        answer = browser.post(PREDICT, content=b"x", headers=headers)
        assert "takes features, not images" in error_of(answer, 415)


@pytest.mark.parametrize("path", [PREDICT, PREVIEW, KEEP])
@pytest.mark.parametrize("announced", [None, "2"])
def test_endless_bodies(live, open_browser, path, announced, monkeypatch):
    monkeypatch.setattr(studio_app, "MAX_BODY_BYTES", 100_000)
    browser, sent = open_browser(live), 0

    async def endless():
        nonlocal sent
        while True:
            sent += 10_000
            yield b" " * 10_000

    headers = browser.headers(**{"Content-Type": "application/json"})
    if announced is not None:
        headers["Content-Length"] = announced
    answer = browser.post(path, content=endless(), headers=headers)
    assert "larger than 100,000 bytes" in error_of(answer, 413)
    assert answer.headers["connection"] == "close"
    assert sent <= 200_000


class TestClasses:
    def test_preview_adds_nothing(self, browser, live, new_class):
        answer = browser.post(PREVIEW, json={"name": " neu ", "values": new_class})
        assert answer.json() == live.preview("neu", new_class)
        assert answer.json()["taken"] > 0
        assert live.added == []

    def test_values_by_name(self, browser, live, new_class):
        named = dict(zip(live.attributes or [], new_class, strict=True))
        by_name = browser.post(PREVIEW, json={"name": "neu", "values": dict(reversed(named.items()))})
        assert by_name.json() == browser.post(PREVIEW, json={"name": "neu", "values": new_class}).json()

    def test_keep_download_undo(self, browser, live, new_class, tmp_path):
        names = live.names
        kept = browser.post(KEEP, json={"name": "neu", "values": new_class}).json()
        assert kept == {"classes": [*names, "neu"], "kept": ["neu"], "n_seen": live.n_seen}
        answer = browser.get("/api/model?path=/etc/passwd")
        assert answer.headers["content-disposition"] == 'attachment; filename="model.cosmo"'
        assert int(answer.headers["content-length"]) == len(answer.content)
        tmp_path.joinpath("m.cosmo").write_bytes(answer.content)
        assert "neu" in cosmo.load(tmp_path / "m.cosmo").classes_
        assert '"kept": ["neu"]' in browser.get("/").text
        assert browser.post(UNDO, json={}).json() == {"classes": names, "kept": [], "n_seen": live.n_seen}
        tmp_path.joinpath("m.cosmo").write_bytes(browser.get("/api/model").content)
        assert "neu" not in cosmo.load(tmp_path / "m.cosmo").classes_

    @pytest.mark.parametrize("path", [PREVIEW, KEEP])
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"name": ""}, "name: String should have at least 1 character"),
            ({"name": " \t "}, "name: String should have at least 1 character"),
            ({"name": None}, "name: Input should be a valid string"),
            ({"name": 7}, "name: Input should be a valid string"),
            ({"name": "x" * 201}, "name: String should have at most 200 characters"),
            ({"name": "a\nb"}, "name: Value error, must not contain control or direction characters"),
            ({"name": "a\u202eb"}, "name: Value error, must not contain control or direction characters"),
            ({"values": [1.0]}, " values, one per attribute"),
            ({"values": None}, " values, one per attribute"),
            ({"values": {"color::red": 1.0}}, " values, one per attribute"),
            ({"description": "a bird"}, " values, one per attribute"),
            ({"path": "/etc/passwd"}, "path: Extra inputs are not permitted"),
        ],
        ids=str,
    )
    def test_what_is_refused(self, browser, live, new_class, path, change, reason):
        body = {"name": "neu", "values": new_class, **change}
        assert reason in error_of(browser.post(path, json=body), 422)
        assert live.added == []

    def test_number_of_added_classes(self, live, browser, new_class, monkeypatch):
        monkeypatch.setattr(studio_live, "MAX_ADDED", 1)
        assert browser.post(KEEP, json={"name": "a1", "values": new_class}).status_code == 200
        answer = browser.post(KEEP, json={"name": "a2", "values": new_class})
        assert "1 classes have been added" in error_of(answer, 422)


class TestMany:
    def test_keeping_among_previews(self, browser, live, new_class):
        requests = []
        for k in range(8):
            requests.append(("POST", KEEP, {"json": {"name": f"kept {k}", "values": new_class}}))
            requests.append(("POST", PREVIEW, {"json": {"name": f"preview {k}", "values": new_class}}))
        assert {answer.status_code for answer in browser.at_once(*requests)} == {200}
        assert sorted(live.added) == [f"kept {k}" for k in range(8)]


class TestOperate:
    def test_share_of_a_calibrated_model(self, browser, live, samples):
        before = [live.predict(row)["p_unseen"] for row in samples.rows[::20]]
        assert browser.post(OPERATE, json={"unseen_share": 0.05}).json() == {"unseen_share": 0.05}
        after = [live.predict(row)["p_unseen"] for row in samples.rows[::20]]
        assert (np.array(after) < before).all()
        (one,) = decompress(browser.get("/api/view").text)["sets"]
        assert expit(one["curves"][-1]["threshold"]) == pytest.approx(0.05)
        assert one["calibration"]["expected"] == pytest.approx(0.05)
        browser.post(UNDO, json={})
        assert [live.predict(row)["p_unseen"] for row in samples.rows[::20]] == before

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"threshold": 0.5}, '"unseen_share"'),
            ({}, '"unseen_share"'),
            ({"unseen_share": 0.5, "threshold": 0.5}, '"unseen_share"'),
            ({"unseen_share": 0}, "unseen_share"),
            ({"unseen_share": 1}, "unseen_share"),
            ({"unseen_share": "half"}, "unseen_share"),
            ({"softness": 1.0}, "softness"),
        ],
    )
    def test_refused(self, body, message, browser, live):
        view = live.view()
        assert message in error_of(browser.post(OPERATE, json=body), 422)
        assert live.view() == view

    def test_threshold_of_the_papers_method(self, data, train, open_browser):
        model = fit_model(
            *train,
            data.descriptions,
            unseen=ESZSL(1.0, 1.0),
            method="paper",
        )
        live = LiveModel(model)
        browser = open_browser(live)
        assert '"threshold"' in error_of(browser.post(OPERATE, json={"unseen_share": 0.5}), 422)
        assert browser.post(OPERATE, json={"threshold": 0.9}).status_code == 200
        (one,) = decompress(browser.get("/api/view").text)["sets"]
        assert one["curves"][0]["threshold"] == 0.9

    def test_charts_of_a_run_stay(self, model, open_browser):
        view = model_view(model)
        browser = open_browser(LiveModel(model, view=view))
        browser.post(OPERATE, json={"unseen_share": 0.2})
        found = decompress(browser.get("/api/view").text)
        assert found["sets"] == view["sets"]
        assert "the charts show the one of the run" in found["lead"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
fields = st.sampled_from(["features", "name", "values", "text", "description", "x"])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([PREDICT, PREVIEW]),
    body=st.binary(max_size=60) | json_values | st.dictionaries(fields, json_values),
)
def test_any_body(browser, path, body):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = browser.headers(**{"Content-Type": "application/json"})
    answer = browser.post(path, content=content, headers=headers)
    assert answer.status_code in (200, 400, 413, 422)
    assert answer.status_code == 200 or error_of(answer, answer.status_code)
