"""Tokenizers and encoders by name: limits, folders that lack something, random stand-ins."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from relevit.text.documents import Document
from relevit.text.tokens import word_tokenizer, words_of
from reproduction.language import pretrained
from reproduction.params.cells import Params, params_of

transformers = pytest.importorskip("transformers", reason="needs the extra 'text'")

REVIEW = Document("An unforgettable film, not a dull one.", 1)


@pytest.fixture
def folder(tmp_path):
    """A small BERT as transformers writes it, below `tmp_path`."""
    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    config = transformers.BertConfig(vocab_size=50, max_position_embeddings=32, **sizes)
    made = tmp_path / "bert-base"
    transformers.BertModel(config).save_pretrained(made)
    word_tokenizer(words_of([REVIEW.text])).save(str(made / "tokenizer.json"))
    return made


def from_folder(folder, **others) -> Params:
    values = dict.fromkeys(("limit", "train_limit", "held_out_limit"), 32) | others
    values |= {"text_model": "bert-base", "weights_root": str(folder.parent)}
    return params_of("09_text")(corpora=["movie_reviews"], **values)


def test_a_folder_is_read_and_a_pooler_that_it_lacks_is_drawn_from_the_seed(folder):
    path = folder / "model.safetensors"
    tensors = {k: v for k, v in load_file(path).items() if not k.startswith("pooler.")}
    save_file(tensors, path, metadata={"format": "pt"})
    tokenizer = pretrained.load_reader(from_folder(folder), {})
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(weights))  # nothing that was drawn before may count
        before = torch.get_rng_state()
        model = pretrained.build_encoder(from_folder(folder, seed=seed), tokenizer, 2)
        weights.append(model.fc_norm.dense.weight.detach())
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert torch.equal(model.words.weight, tensors["embeddings.word_embeddings.weight"])


def no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()


def no_tensor(folder):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, path, metadata={"format": "pt"})


def cut_short(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:999])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_tokenizer, r"09_text: .* lacks tokenizer\.json; put the files of google"),
        # What is missing must not be left at random.
        (no_tensor, r"09_text: .*bert-base holds no BertModel .*\(it lacks encoder\.layer\.1"),
        (cut_short, r"bert-base holds no BertModel .*\(.*\); copy its files there again"),
    ],
)
def test_wrong_folders_are_named(folder, spoil, message):
    spoil(folder)
    cfg = from_folder(folder)
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        pretrained.build_encoder(cfg, pretrained.load_reader(cfg, {}), 2)


def test_the_hub_gives_safetensors_or_says_why_not(monkeypatch, tmp_path):
    asked = {}

    def give(name, **options):
        asked.update(options, name=name)
        return str(tmp_path)

    def fail(*args, **options):
        raise OSError("no network\nhere")

    monkeypatch.setattr("relevit.text.files.need_hub", lambda *_: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(ConnectionError, match=r"\(no network here\); give weights_root, a folder"):
        pretrained.bert_folder("")
    monkeypatch.setattr("huggingface_hub.snapshot_download", give)
    with pytest.raises(FileNotFoundError, match=r"lacks config\.json, .* put the files"):
        pretrained.bert_folder("")
    for name in pretrained.BERT_FILES:
        (tmp_path / name).touch()
    assert pretrained.bert_folder("") == tmp_path
    assert asked["name"] == "google-bert/bert-base-uncased"
    assert all(name.endswith((".json", ".safetensors")) for name in asked["allow_patterns"])
