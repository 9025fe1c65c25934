"""Small models of random weights, as folders, and what float64 makes of the steps."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from regard.models.folder import Config, shapes

SMALL = {
    "model_type": "bert",
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "hidden_size": 21,
    "intermediate_size": 37,
    "max_position_embeddings": 40,
    "vocab_size": 50,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
}


def sizes(config: dict) -> Config:
    names = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size")
    numbers = (config[x] for x in (*names, "max_position_embeddings", "vocab_size"))
    return Config(*numbers, config["layer_norm_eps"], "erf")


def random_weights(config: dict, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    wanted = shapes(sizes(config))
    wanted["embeddings.token_type_embeddings.weight"] = (config["type_vocab_size"], config["hidden_size"])
    made = {name: rng.normal(size=shape, scale=0.3).astype(np.float32) for name, shape in wanted.items()}
    return {name: x + ("LayerNorm.weight" in name) for name, x in made.items()}


def folder(where: Path, weights: dict | None = None, prefix: str = "", without: str = "", **settings) -> Path:
    """A model's folder, with other settings, or without one of its files."""
    where.mkdir(exist_ok=True)
    config = SMALL | settings
    weights = random_weights(SMALL) if weights is None else weights
    (where / "config.json").write_text(json.dumps(config))
    save_file({prefix + name: x for name, x in weights.items()}, where / "model.safetensors")
    if without:
        (where / without).unlink()
    return where


def gelu(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x / 2 * np.vectorize(math.erfc, [float])(-x / np.sqrt(2))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, epsilon: float) -> np.ndarray:
    x = x.astype(np.float64)
    away = x - x.mean(-1, keepdims=True)
    return away / np.sqrt((away**2).mean(-1, keepdims=True) + epsilon) * weight + bias
