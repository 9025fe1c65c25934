"""A BERT-family encoder on regard.attention, to be read in one sitting.

    text ── tokens ──> ids ── embeddings ──> h ── layers ──> hidden states

Every layer is attention and an MLP, each added to what came in and normalised:

    h = norm(h + attention(h W_q, h W_k, h W_v) W_o)
    h = norm(h + gelu(h W_up) W_down)

>>> from regard.models.encoder import Encoder
>>> model = Encoder.open()  # doctest: +SKIP
>>> model(model.tokens("The cat chased mice").ids).shape  # doctest: +SKIP
(6, 384)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.algebra.masks import Mask, padding
from regard.attention import repeated
from regard.errors import DtypeError, LimitError, ModelError, ShapeError, TokenError, counted
from regard.kernels.chain import Chain, Norm, Product, Weights
from regard.models.folder import Config, Folder
from regard.models.texts import Tokenizer, Tokens

Array = np.ndarray[Any, Any]

# Called at every layer: (layer, q, k, v, mask, lse), arrays of (batch, heads, n, d) and (batch, heads, n).
Each = Callable[[int, Array, Array, Array, Mask | None, Array], object]


class Encoder:
    """A model: called with ids it gives hidden states."""

    def __init__(
        self, name: str, config: Config, weights: dict[str, Array], tokenizer: Callable[[], Any] | None = None
    ):
        self.name, self.config = name, config
        self.layers, self.heads, self.d_model = config.layers, config.heads, config.d_model
        self.positions = config.positions
        self._text = Tokenizer(tokenizer, config.positions) if tokenizer else None
        kinds = weights["embeddings.token_type_embeddings.weight"]  # (kinds, d_model)
        self._words = weights["embeddings.word_embeddings.weight"]  # (vocabulary, d_model)
        self._places = weights["embeddings.position_embeddings.weight"] + kinds[0]  # (positions, d_model)
        self._chains = _chains(weights, config)
        self._heads = next(x.weights for x in self._chains[0].steps if isinstance(x, Product))

    @staticmethod
    def open(path: str | os.PathLike[str] | None = None) -> Encoder:
        """The model in a Hugging Face folder; without a path the default one, all-MiniLM-L6-v2.

        >>> Encoder.open("/nowhere")
        Traceback (most recent call last):
        regard.errors.ModelError: the model /nowhere is not there, expected a folder with config.json and \
model.safetensors: check the path
        """
        folder = Folder.open(path)
        return Encoder(folder.name, folder.config, folder.weights(), folder.tokenizer)

    def __repr__(self) -> str:
        return f"{self.name}: {self.layers} layers × {self.heads} heads, {self.positions} positions"

    def tokens(self, text: str, start: int = 0, count: int | None = None) -> Tokens:
        """The tokens of a text, nothing cut: from its `start`-th on, and at most `count` in all if that is given."""
        return self._tokenizer().tokens(text, start, count)

    def windows(self, text: str) -> list[Tokens]:
        """The tokens of a text in pieces that the model has positions for, which end where words end."""
        return self._tokenizer().windows(text)

    def _tokenizer(self) -> Tokenizer:
        if self._text is None:
            raise ModelError(f"{self.name} was made without a tokenizer, expected one to read text with: give it ids")
        return self._text

    def __call__(self, ids: Any, lengths: Any = None, each: Each | None = None) -> Array:
        """Hidden states, (…, n, d_model), of ids, (n,) or (batch, n).

        Of each row only the first lengths[b] tokens are there. `each(layer, q, k, v, mask, lse)` is called at every
        layer; its arrays serve the next layer again, so what is to be kept has to be copied.
        """
        ids = self._checked(ids)
        mask = _mask(lengths, ids)
        batch, n = ids.shape if ids.ndim == 2 else (1, len(ids))
        d_model, heads, d = self.d_model, self.heads, self.d_model // self.heads
        embedded = np.take(self._words, ids.reshape(batch, n), axis=0)  # (batch, n, d_model)
        embedded += self._places[:n]
        h = np.empty((batch * n, d_model), np.float32)
        z = np.empty_like(h)
        qkv = self._heads.room(batch * n)  # (batch · n, 3 · d_model or a little more)
        heads_of = qkv[:, : 3 * d_model].reshape(batch, n, 3, heads, d)  # (batch, n, 3, heads, d)
        q, k, v = heads_of.transpose(2, 0, 3, 1, 4)  # each (batch, heads, n, d)
        lse = None if each is None else np.empty(q.shape[:-1])
        attend = repeated(q, k, v, z.reshape(batch, n, heads, d).transpose(0, 2, 1, 3), mask, lse)
        self._chains[0](embedded=embedded.reshape(batch * n, d_model), h=h, qkv=qkv)
        for layer, chain in enumerate(self._chains[1:]):
            attend()
            if each is not None and lse is not None:
                each(layer, q, k, v, mask, lse)
            chain(z=z, h=h, qkv=qkv)
        return h.reshape(*ids.shape, d_model)

    def _checked(self, given: Any) -> Array:
        ids = np.asarray(given)
        if ids.dtype.kind not in "iu":
            raise DtypeError(f"ids has dtype {ids.dtype}, expected whole numbers: give the ids of tokens")
        if ids.ndim not in (1, 2):
            raise ShapeError(f"ids has shape {ids.shape}, expected (n,) or (batch, n): reshape it")
        if ids.shape[-1] > self.positions:
            raise LimitError(
                f"the text has {counted(ids.shape[-1], 'token')} and {self.name} has "
                f"{counted(self.positions, 'position')}, expected no more: take a part of it, or windows"
            )
        if ids.size and not (ids.min() >= 0 and ids.max() < self.config.vocabulary):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise TokenError(
                f"ids has {wrong}, expected 0 to {self.config.vocabulary - 1}: use the tokenizer of {self.name}"
            )
        return ids.astype(np.int64, copy=False)


def _mask(lengths: Any, ids: Array) -> Mask | None:
    """What padding hides; None where there is none."""
    if lengths is None:
        return None
    found = np.atleast_1d(np.asarray(lengths))
    n = ids.shape[-1]
    batch = len(ids) if ids.ndim == 2 else 1
    if found.dtype.kind not in "iu" or found.shape != (batch,):
        raise ShapeError(
            f"lengths came as {found.dtype} of shape {found.shape}, expected whole numbers of shape ({batch},): "
            "give one for each text"
        )
    if found.size and not (found.min() >= 0 and found.max() <= n):
        raise ShapeError(f"lengths go from {found.min()} to {found.max()}, expected 0 to {n}: count the tokens again")
    return None if (found == n).all() else padding(found)


def _chains(weights: dict[str, Array], config: Config) -> list[Chain]:
    """What is done with each row before the first attention, between any two, and after the last.

    `h` is the stream that everything is added to; `z` is what attention gave, all heads side by side, and `qkv` what it
    is given.
    """

    def dense(layer: int, *names: str, gelu: str = "") -> Weights:
        found = [f"encoder.layer.{layer}.{name}" for name in names]
        w, b = (np.concatenate([weights[f"{x}.{part}"] for x in found]) for part in ("weight", "bias"))
        return Weights(w, b, gelu)

    def norm(source: str, name: str, target: str, plus: str = "") -> Norm:
        return Norm(source, weights[f"{name}.weight"], weights[f"{name}.bias"], config.epsilon, target, plus)

    def heads(layer: int) -> Product:
        return Product("h", dense(layer, *(f"attention.self.{x}" for x in ("query", "key", "value"))), "qkv")

    chains: list[list[Product | Norm]] = [[norm("embedded", "embeddings.LayerNorm", "h"), heads(0)]]
    for i in range(config.layers):
        chains.append(
            [
                Product("z", dense(i, "attention.output.dense"), "a"),
                norm("a", f"encoder.layer.{i}.attention.output.LayerNorm", "between", plus="h"),
                Product("between", dense(i, "intermediate.dense", gelu=config.gelu), "up"),
                Product("up", dense(i, "output.dense"), "a"),
                norm("a", f"encoder.layer.{i}.output.LayerNorm", "h", plus="between"),
                *([heads(i + 1)] if i + 1 < config.layers else []),
            ]
        )
    return [Chain(steps) for steps in chains]
