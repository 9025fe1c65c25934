"""Models of transformers, recorded: against their own eager weights, step by step, and at lengths that eager cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from tests.recording.torch_taken import weights

transformers = pytest.importorskip("transformers")

N = 256
SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
FREE = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": 0}  # generation stops at the length alone


pytestmark = pytest.mark.usefixtures("torch_alone")


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def llama(**options: Any) -> Any:
    config = {**SMALL, **FREE, "num_key_value_heads": 2, "max_position_embeddings": 8192, **options}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()


def bert() -> Any:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=N)
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def ids(batch: int, n: int) -> torch.Tensor:
    return torch.randint(1, 50, (batch, n))


def eager(model: Any, **given: Any) -> Any:
    """The weights that the model itself makes, and keeps, when it is told to."""
    model.set_attn_implementation("eager")
    try:
        return model(**given, output_attentions=True)
    finally:
        model.set_attn_implementation("sdpa")


def close(a: Any, b: Any, atol: float = 3e-6) -> None:
    assert a.shape == tuple(b.shape)
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=atol)


def recorded(path: Path, model: Any, **given: Any) -> Any:
    """The recording of a model whose output keeps its bits."""
    plain = model(**given)
    with regard.recording(path, sync=False):
        seen = model(**given)
    for name in plain:
        if isinstance(plain[name], torch.Tensor):
            assert torch.equal(plain[name], seen[name]), name
    return regard.open(path)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_against_their_own_eager_weights(kind: str, padded: bool, tmp_path: Path) -> None:
    model = {"bert": bert, "llama": llama}[kind]()
    given = {"input_ids": ids(2, N)}
    if padded:
        given["attention_mask"] = (torch.arange(N) < torch.tensor([[N], [100]])).long()
    expected = eager(model, **given).attentions
    rec = recorded(tmp_path / "run.regard", model, **given)
    names = {"bert": "encoder.layer.{}.attention.self", "llama": "model.layers.{}.self_attn"}[kind]
    assert list(rec.layers) == [names.format(i) for i in range(2)]
    assert len(rec.texts) == 2
    for b in range(2):
        for layer in range(2):
            close(rec.texts[b].matrix(layer), expected[layer][b])
    size = sum(x.stat().st_size for x in (tmp_path / "run.regard").rglob("*.safetensors"))
    keys = 2 if kind == "llama" else 4  # heads, each once
    assert size < 1.3 * 4 * 2 * 2 * N * (8 * (4 + keys) + 2 * 4)  # Q, K and lse: linear in n, with masks too


def test_training_has_the_same_bits_and_the_weights_before_dropout(tmp_path: Path) -> None:
    model = bert().train()
    given = {"input_ids": ids(2, 40)}
    found = []
    for i in range(2):
        torch.manual_seed(3)
        model.zero_grad()
        with torch.enable_grad():
            if i:
                with regard.recording(tmp_path / "run.regard", sync=False):
                    model(**given).last_hidden_state.square().sum().backward()
            else:
                model(**given).last_hidden_state.square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    a = np.asarray(regard.open(tmp_path / "run.regard").texts[0].matrix(1))
    np.testing.assert_allclose(a.sum(-1), 1, atol=1e-5)
    assert (a > 0).all()


@pytest.mark.parametrize(
    "cache", [{}, {"cache_implementation": "static", "disable_compile": True}], ids=["growing", "static"]
)
@pytest.mark.parametrize("padded", [False, True])
def test_generation_grows_its_layers(cache: dict[str, Any], padded: bool, tmp_path: Path) -> None:
    model = llama()
    prompt = ids(2, 12)
    mask = (torch.arange(12) >= torch.tensor([[0], [5 if padded else 0]])).long()
    options = {"attention_mask": mask, "max_new_tokens": 9, "do_sample": False, **cache}
    plain = model.generate(prompt, **options)
    path = tmp_path / "run.regard"
    with regard.recording(path, sync=False):
        seen = model.generate(prompt, **options)
    assert torch.equal(plain, seen)
    whole = torch.cat([mask, mask.new_ones(2, 8)], 1)
    where = (whole.cumsum(-1) - 1).clamp(min=0)
    expected = eager(model, input_ids=plain[:, :-1], attention_mask=whole, position_ids=where).attentions
    rec = regard.open(path)
    assert list(rec.layers) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    assert len(rec.texts) == 2
    for b in range(2):
        first = 5 if padded and b else 0  # rows of padding see nothing, and eager makes something of that
        for layer in range(2):
            found = np.asarray(rec.texts[b].matrix(layer))
            close(found[:, first:], expected[layer][b][:, first:], 1e-5)
            assert not found[:, :first].any() or not padded


def test_a_window_that_forgets_keys_grows_too(tmp_path: Path) -> None:
    config = transformers.MistralConfig(**SMALL, **FREE, num_key_value_heads=2, sliding_window=6)
    model = transformers.MistralForCausalLM(config).eval()
    prompt = ids(1, 9)
    path = tmp_path / "run.regard"
    with regard.recording(path, sync=False):
        seen = model.generate(prompt, max_new_tokens=8, do_sample=False)
    assert torch.equal(seen, model.generate(prompt, max_new_tokens=8, do_sample=False))
    expected = eager(model, input_ids=seen[:, :-1]).attentions
    rec = regard.open(path)
    for layer in range(2):
        close(rec.texts[0].matrix(layer), expected[layer][0], 1e-5)


def test_two_prompts_are_two_texts(tmp_path: Path) -> None:
    model = llama()
    with regard.recording(tmp_path / "run.regard", sync=False) as recorder:
        model.generate(ids(1, 5), max_new_tokens=3, do_sample=False)
        model.generate(ids(1, 7), max_new_tokens=3, do_sample=False)
        recorder.text(tokens=list("abcd"))
        model(input_ids=ids(1, 4))
    rec = regard.open(tmp_path / "run.regard")
    assert [text.matrix(0).shape for text in rec.texts] == [(4, 7, 7), (4, 9, 9), (4, 4, 4)]
    assert rec.texts[2].tokens == tuple("abcd")


def test_t5_has_a_bias_for_each_head_and_looks_at_another_sequence(tmp_path: Path) -> None:
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(**sizes, decoder_start_token_id=0, eos_token_id=None, pad_token_id=0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    source, target = ids(1, 20), ids(1, 9)
    found = eager(model, input_ids=source, decoder_input_ids=target)
    rec = recorded(tmp_path / "run.regard", model, input_ids=source, decoder_input_ids=target, use_cache=False)
    text = rec.texts[0]
    for i in range(2):
        close(text.matrix(f"encoder.block.{i}.layer.0.SelfAttention"), found.encoder_attentions[i][0])
        close(text.matrix(f"decoder.block.{i}.layer.0.SelfAttention"), found.decoder_attentions[i][0])
        close(text.matrix(f"decoder.block.{i}.layer.1.EncDecAttention"), found.cross_attentions[i][0])
    with regard.recording(tmp_path / "steps.regard", sync=False):
        seen = model.generate(source, max_new_tokens=7, do_sample=False)
    found = eager(model, input_ids=source, decoder_input_ids=seen[:, :-1])
    (text,) = regard.open(tmp_path / "steps.regard").texts
    for i in range(2):
        close(text.matrix(f"decoder.block.{i}.layer.0.SelfAttention"), found.decoder_attentions[i][0], 1e-5)
        close(text.matrix(f"decoder.block.{i}.layer.1.EncDecAttention"), found.cross_attentions[i][0], 1e-5)


def test_gpt2(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64, **FREE)
    model = transformers.GPT2LMHeadModel(config).eval()
    given = {"input_ids": ids(2, 60), "attention_mask": (torch.arange(60) < torch.tensor([[60], [31]])).long()}
    expected = eager(model, **given).attentions
    rec = recorded(tmp_path / "run.regard", model, **given)
    for b in range(2):
        close(rec.texts[b].matrix(1), expected[1][b])


def test_a_long_text(tmp_path: Path) -> None:
    """8192 tokens, where the weights of a layer would be a gigabyte: rows of them against the definition."""
    n = 8192
    model = llama(num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, hidden_size=32)
    given = {"input_ids": ids(1, n), "logits_to_keep": 1}
    plain = model(**given).logits
    kept: dict[str, torch.Tensor] = {}
    attention = model.model.layers[0].self_attn
    before = time.perf_counter()
    with regard.recording(tmp_path / "run.regard", sync=False):
        seen = model(**given).logits
    rec = regard.open(tmp_path / "run.regard")
    rows = [0, 1, 100, 4095, 4096, 8000, 8191]
    found = {(head, row): rec[0, head][row] for head in (0, 3) for row in rows}
    assert time.perf_counter() - before < 10
    assert torch.equal(plain, seen)
    assert rec[0].shape == (4, n, n)
    assert sum(x.stat().st_size for x in (tmp_path / "run.regard").rglob("*")) < 3e6

    def keep(_: Any, args: Any, given: Any) -> None:
        kept["x"] = given["hidden_states"]
        kept["cos"], kept["sin"] = given["position_embeddings"]

    with attention.register_forward_pre_hook(keep, with_kwargs=True):
        model(**given)
    turn = transformers.models.llama.modeling_llama.apply_rotary_pos_emb
    q, k = (f(kept["x"]).view(1, n, -1, 8).transpose(1, 2) for f in (attention.q_proj, attention.k_proj))
    q, k = turn(q, k, kept["cos"], kept["sin"])
    for (head, row), a in found.items():
        expected = weights(q[0, head, row : row + 1], k[0, head // 2, : row + 1])[0]
        close(a, np.pad(expected, (0, n - row - 1)), 1e-6)
