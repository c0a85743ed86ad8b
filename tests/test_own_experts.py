"""The examples of the guide "Own experts and gates" run, with small models made here."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cosmo.testing import check_unseen_expert

GUIDE = (Path(__file__).parents[1] / "docs" / "guides" / "own-experts.md").read_text("utf-8")
SECTIONS = {
    heading: "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    for heading, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", GUIDE, flags=re.DOTALL | re.MULTILINE)
}
WORDS = "the asks about weather wants to send money make a call hear song be woken up will it rain"


@pytest.fixture(scope="module")
def guide():
    """Return a module in which sections of the guide run, one after the other."""
    module = ModuleType("own_experts_guide")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        yield module


def run(guide, heading, **names):
    """Run a section with other names of models."""
    code = SECTIONS[heading]
    for name, folder in names.items():
        assert f'"{NAMES[name]}"' in code
        code = code.replace(f'"{NAMES[name]}"', repr(str(folder)))
    exec(compile(code, heading, "exec"), vars(guide))


NAMES = {
    "clip": "openai/clip-vit-base-patch32",
    "nli": "facebook/bart-large-mnli",
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Make networks with random weights, and return their folders by name."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("networks")
    torch.manual_seed(0)
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted({*WORDS.split()})]
    rules = Tokenizer(models.WordPiece({word: i for i, word in enumerate(entries)}, unk_token="[UNK]"))
    rules.normalizer, rules.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    rules.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokens = transformers.PreTrainedTokenizerFast(tokenizer_object=rules, model_max_length=64, **special)
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes = {**layers, "vocab_size": len(entries), "max_position_embeddings": 64}
    kinds = {0: "contradiction", 1: "neutral", 2: "entailment"}
    config = transformers.BertConfig(**sizes, id2label=kinds, label2id={v: k for k, v in kinds.items()})
    for name, network in [
        ("nli", transformers.BertForSequenceClassification(config)),
        ("bert", transformers.BertModel(transformers.BertConfig(**sizes))),
    ]:
        network.save_pretrained(folder / name)
        tokens.save_pretrained(folder / name)
    SentenceTransformer(str(folder / "bert"), device="cpu").save(str(folder / "minilm"))

    letters = [chr(code) for code in range(97, 123)]
    entries = ["<|startoftext|>", "<|endoftext|>", *letters, *[f"{letter}</w>" for letter in letters]]
    text = {**layers, "vocab_size": len(entries), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    image = {**layers, "image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=8)
    transformers.CLIPModel(config).save_pretrained(folder / "clip")
    transformers.CLIPProcessor(
        transformers.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=32),
        transformers.CLIPTokenizer(vocab={entry: i for i, entry in enumerate(entries)}, merges=[]),
    ).save_pretrained(folder / "clip")
    return folder


def test_expert_in_20_lines(guide, capsys):
    run(guide, "An unseen expert in 20 lines")
    (definition,) = re.findall(r"^class .*?(?=^from)", SECTIONS["An unseen expert in 20 lines"], re.S | re.M)
    assert len(definition.strip().splitlines()) <= 20
    chosen, score = capsys.readouterr().out.splitlines()
    assert "expert__alpha" in chosen
    assert float(score) > 0.2  # chance is 0.025
    run(guide, "Check it")


def test_gate(guide, tmp_path, monkeypatch):
    run(guide, "An own gate")
    assert isinstance(guide.model.combination_.gate_, guide.MarginGate)
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    run(guide, "Save it")
    assert (
        guide.again.predict(guide.data.features).tolist() == guide.model.predict(guide.data.features).tolist()
    )


@pytest.mark.filterwarnings("ignore")  # of the libraries
class TestNetworks:
    """Their weights are random: what is shown is that the code runs, not how well."""

    def test_embeddings(self, guide, networks):
        run(
            guide,
            "Embeddings: sentence-transformers, CLIP",
            minilm=networks / "minilm",
            clip=networks / "clip",
        )
        assert guide.X.shape == (72, 8)

    def test_pipeline(self, guide, networks):
        run(guide, "Experts that read texts: a zero-shot pipeline of Hugging Face", nli=networks / "nli")
        assert guide.as_texts(guide.as_bytes(guide.texts)) == guide.texts
        proba = guide.model.predict_proba(guide.as_bytes(["wake me up"]))
        assert proba.shape == (1, 5)
        check_unseen_expert(guide.ZeroShotPipeline(), guide.as_bytes(guide.texts), guide.labels, guide.table)

    @pytest.mark.skipif(importlib.util.find_spec("setfit") is None, reason="setfit is not installed")
    def test_setfit(self, guide, networks, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)  # it writes checkpoints
        brief = SECTIONS["SetFit as seen expert"].replace("steps=-1", "steps=2")
        monkeypatch.setitem(SECTIONS, "SetFit as seen expert", brief)
        run(guide, "SetFit as seen expert", minilm=networks / "minilm")
        assert guide.model.predict(guide.as_bytes(guide.texts)).shape == (18,)
