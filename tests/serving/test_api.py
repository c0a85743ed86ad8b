"""Answers of the API, and refused requests."""

import json
import logging

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cosmo.io.model import Model, fit_model
from cosmo.serving.api import JsonFormatter, ServedModel


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    return answer.json()["error"]


def metric(client, name, **labels):
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = (sample for family in families for sample in family.samples)
    return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())


class TestPredict:
    def test_is_predict_frame(self, client, data, path):
        rows = data.features[:7]
        answer = client.post({"features": rows.tolist(), "top": 3.0, "why": True, "reject": 0.3})
        assert answer.status_code == 200
        frame = Model.load(path).predict_frame(rows, 3, reject=0.3, why=True)
        found = answer.json()
        assert found["model"] == client.served.current.fingerprint
        for one, (_, expected) in zip(found["predictions"], frame.iterrows(), strict=True):
            assert [one["label"], one["why"]] == [expected["label"], expected["why"]]
            for name in ("probability", "p_seen", "conformity"):
                assert one[name] == pytest.approx(expected[name], abs=1e-5)
            assert [other["label"] for other in one["others"]] == [expected["label_2"], expected["label_3"]]

    def test_rejected_samples_have_the_given_name(self, client, data):
        noise = np.random.default_rng(0).normal(size=(20, data.features.shape[1])).tolist()
        body = {"features": noise, "reject": 0.2, "unknown": "nobody", "top": 1}
        labels = [one["label"] for one in client.post(body).json()["predictions"]]
        assert labels.count("nobody") > 10
        assert metric(client, "cosmo_answers_total", domain="rejected") == labels.count("nobody")
        assert metric(client, "cosmo_answers_total") == 20

    def test_texts(self, make_client, tmp_path):
        pytest.importorskip("sentence_transformers")
        texts = ["red fruit", "a red apple", "blue sky", "the blue sea"] * 3
        names = {"red": "something red", "blue": "something blue", "green": "something green"}
        labels = ["red", "red", "blue", "blue"] * 3
        model = fit_model(texts, labels, names, encoder="minilm")
        model.save(tmp_path / "t.cosmo")
        client = make_client(tmp_path / "t.cosmo")
        found = client.post({"texts": texts[:4], "top": 1}).json()["predictions"]
        assert [one["label"] for one in found] == model.predict(texts[:4]).tolist()
        for blank in (" ", "\x1c", "\x85\n"):
            assert "texts.1: String should match" in error_of(client.post({"texts": ["a", blank]}), 422)
        properties = self.schema(client)["properties"]
        assert properties["texts"]["items"]["maxLength"] == 20_000
        encoder = client.served.current.model.encoder
        (tmp_path / "t.cosmo").touch()
        client.served.check()
        assert client.served.current.model.encoder is encoder  # Its weights are not read again.

    @staticmethod
    def schema(client):
        post = client.get("/openapi.json").json()["paths"]["/predict"]["post"]
        return post["requestBody"]["content"]["application/json"]["schema"]

    def test_schema_has_the_limits_of_the_model(self, client, data):
        properties = self.schema(client)["properties"]
        width = data.features.shape[1]
        assert "texts" not in properties
        assert properties["features"]["maxItems"] == 100
        assert [properties["features"]["items"][name] for name in ("minItems", "maxItems")] == [width, width]
        assert properties["reject"]["anyOf"][0]["exclusiveMaximum"] == 1


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ('{"features": [[1, 2]]}', "features.0: has 2 numbers, not "),
            ('{"features": [[NaN]]}', "features.0.0: Input should be a finite number"),
            ('{"features": [[1e13]]}', "features.0.0: Input should be less than or equal to 1000000000000"),
            ('{"features": [["1"]]}', "features.0.0: Input should be a valid number"),
            ('{"features": [1]}', "features.0: Input should be a valid array"),
            ('{"features": null}', "features: Input should be a valid array"),
            ('{"features": []}', "features: List should have at least 1 item"),
            ('{"features": [[1]], "texts": []}', "texts: List should have at least 1 item"),
            ('{"texts": ["hello"]}', "texts: this model takes features"),
            ('{"features": [[1]], "texts": ["hello"]}', "texts: this model takes features"),
            ('{"features": [[1]], "top": 0}', "top: Input should be greater than or equal to 1"),
            ('{"features": [[1]], "top": 1.5}', "top: Input should be a valid integer"),
            ('{"features": [[1]], "top": 101}', "top: Input should be less than or equal to 100"),
            ('{"features": [[1]], "reject": 1}', "reject: Input should be less than 1"),
            ('{"features": [[1]], "path": "/etc/passwd"}', "path: Extra inputs are not permitted"),
            ("{}", "send either features or texts"),
            ("[" * 30_000, "recursion limit exceeded"),
            (b"\xff\xfe\x00", "Invalid JSON"),
            ("", "Invalid JSON"),
        ],
        ids=str,
    )
    def test_bodies(self, client, content, reason):
        headers = {"Content-Type": "application/json"}
        answer = client.send("POST", "/predict", content=content, headers=headers)
        assert reason in error_of(answer, 422)

    def test_name_of_a_class_for_rejected_samples(self, client, data):
        body = {"features": data.features[:1].tolist(), "reject": 0.1, "unknown": data.seen_classes[0]}
        assert "is a class of the model" in error_of(client.post(body), 422)

    def test_a_model_that_cannot_reject(self, make_client, data, train, tmp_path):
        model = fit_model(*train, data.descriptions, method="paper")
        model.save(tmp_path / "p.cosmo")
        client = make_client(tmp_path / "p.cosmo")
        body = {"features": data.features[:1].tolist()}
        assert client.post(body).status_code == 200
        assert "this model cannot reject" in error_of(client.post({**body, "reject": 0.1}), 422)
        assert TestPredict.schema(client)["properties"]["reject"] == {"type": "null"}

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
    def test_types_that_forms_of_other_sites_can_send(self, client, kind):
        answer = client.send("POST", "/predict", content="{}", headers={"Content-Type": kind})
        assert error_of(answer, 415) == "the Content-Type must be application/json"

    def test_too_many_rows(self, client):
        assert "at most 100 samples" in error_of(client.post({"features": [[1]] * 101}), 422)

    @pytest.mark.parametrize("announced", [None, "2"])
    def test_endless_body(self, client, announced):
        sent = 0

        async def endless():
            nonlocal sent
            while True:
                sent += 100_000
                yield b" " * 100_000

        headers = {"Content-Type": "application/json"}
        if announced is not None:
            headers["Content-Length"] = announced
        answer = client.send("POST", "/predict", content=endless(), headers=headers)
        assert "larger than 1,000,000 bytes" in error_of(answer, 413)
        assert answer.headers["connection"] == "close"
        assert sent <= 1_200_000

    @pytest.mark.parametrize("url", ["/docs", "/redoc", "/predict/", "/../../etc/passwd", "/x" * 1000])
    def test_other_paths(self, client, url):
        error_of(client.get(url), 404)
        assert metric(client, "cosmo_requests_total", path="other", status="404") == 1

    def test_other_methods(self, client):
        assert error_of(client.get("/predict"), 405) == "Method Not Allowed"


class TestAccess:
    def test_token(self, make_client, path):
        client = make_client(path, token="secret", hosts=["api"])
        assert client.get("/health").status_code == 200
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
            for url in ("/metrics", "/openapi.json", "/nothing"):
                assert "Authorization" in error_of(client.get(url, headers=headers), 401)
            assert "Authorization" in error_of(client.post({}, headers=headers), 401)
        headers = {"Authorization": "Bearer secret"}
        assert client.get("/metrics", headers=headers).status_code == 200
        assert client.get("/metrics", headers=headers, host="behind-a-proxy").status_code == 200

    def test_without_one_on_loopback_other_host_names_are_refused(self, make_client, path):
        client = make_client(path, hosts=["api"])
        assert client.get("/health").status_code == 200
        for url in ("/health", "/metrics", "/openapi.json"):
            assert "Host header" in error_of(client.get(url, host="rebound.example"), 403)

    def test_headers(self, client):
        for url in ("/health", "/nothing"):
            headers = client.get(url).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "access-control-allow-origin" not in headers


def test_faults_are_not_shown(client, data, monkeypatch):
    def fail(*_arguments, **_options):
        raise RuntimeError("secret path")

    monkeypatch.setattr(client.served.current.model, "predict_frame", fail)
    answer = client.post({"features": data.features[:1].tolist()})
    assert error_of(answer, 500) == "internal error; see the terminal where `cosmo serve` runs"


def test_log_lines(client, data, caplog):
    caplog.set_level(logging.INFO, "cosmo.serving")
    client.post({"features": data.features[:3].tolist()})
    client.get("/%22%0A%7B")
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [(one["path"], one["status"], one["rows"]) for one in lines] == [
        ("/predict", 200, 3),
        ('/"\n{', 404, None),
    ]
    try:
        raise RuntimeError("fault")
    except RuntimeError:
        logging.getLogger("cosmo.serving").exception("caught")
    line = JsonFormatter().format(caplog.records[-1])
    assert "\n" not in line
    assert json.loads(line)["traceback"].endswith("RuntimeError: fault")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        ServedModel(tmp_path / "missing.cosmo", registry=None)
