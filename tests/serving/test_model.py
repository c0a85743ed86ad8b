"""Reloading of a changed model file."""

import os
import shutil

import pytest

from cosmo.io.model import Model


def counts(client):
    reloads = [client.served._succeeded, client.served._failed]
    return [int(one._value.get()) for one in reloads]


def replace(path, source):
    shutil.copy(source, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def test_a_changed_file_is_loaded_once(client, path, model_files, data):
    first = client.served.current
    client.served.check()
    assert client.served.current is first
    replace(path, model_files[1])
    client.served.check()
    client.served.check()
    assert counts(client) == [1, 0]
    rows = data.features[:20]
    found = client.post({"features": rows.tolist(), "top": 1}).json()
    assert found["model"] != first.fingerprint
    expected = Model.load(model_files[1]).predict(rows)
    assert [one["label"] for one in found["predictions"]] == expected.tolist()


@pytest.mark.parametrize("damage", ["truncated", "empty", "missing"])
def test_a_bad_file_keeps_the_old_model_and_is_reported(client, path, model_files, damage):
    first, content = client.served.current, path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    for _ in range(2):
        client.served.check()
        assert client.served.current is first
        health = client.get("/health").json()
        assert (health["status"], health["model"]) == ("ok", first.fingerprint)
        assert "model.cosmo" in health["reload_error"]
        assert counts(client) == [0, 1]
    replace(path, model_files[1])
    client.served.check()
    assert client.get("/health").json()["reload_error"] is None
    assert counts(client) == [1, 1]
