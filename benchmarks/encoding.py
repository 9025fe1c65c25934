"""The encoder beside transformers' BertModel with sdpa, on the weights of the default model."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from . import THREADS
from .peers import TORCH, tensor
from .reading import REGARD, Calls, Ratio, Reading

SAME = 1e-4  # as far as hidden states may lie apart
SIZES = tuple((batch, n) for batch in (1, 16) for n in (32, 128, 512))


@cache
def models() -> tuple[Any, Any]:
    folder = import_module("regard.models.folder").installed()
    theirs = import_module("transformers").BertModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    return import_module("regard.models.encoder").Encoder.open(), theirs


def encoded(batch: int, n: int, regard: Any) -> Calls:
    ours, theirs = models()
    torch = import_module("torch")
    torch.set_num_threads(THREADS)
    ids = np.random.default_rng(0).integers(1000, 30000, (batch, n))
    given = tensor(ids)

    def in_transformers() -> Any:
        with torch.no_grad():
            return theirs(given)[0]

    apart = float(np.abs(ours(ids) - in_transformers().numpy()).max())
    if not apart <= SAME:
        raise ValueError(f"hidden states lie {apart:.2g} apart")
    return {REGARD: partial(ours, ids), TORCH: in_transformers}


WORKS = tuple(
    Reading(
        f"encoder of 6 layers, {batch} × {n} tokens",
        partial(encoded, batch, n),
        (Ratio("× PyTorch, BertModel with sdpa", TORCH, ">=", 1.0, faster=True),),
    )
    for batch, n in SIZES
)
