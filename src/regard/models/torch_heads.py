"""Q, K and V of torch's attention functions, read off the arguments of a call.

Each function here takes what torch's function of that purpose takes, and gives what was asked of it as `Seen`. Where
torch projects inside, the projections are made once more: the call itself is left to torch, so that its bits stay.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import layer_norm, linear

from regard.algebra.masks import segments
from regard.models.torch_masks import Seen, hiding

Tensor = torch.Tensor


def scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Seen:
    """torch.nn.functional.scaled_dot_product_attention."""
    boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    if value.ndim > 2 and key.ndim > 2 and value.shape[-3] != key.shape[-3]:
        # torch allows each its own number of heads; here they share one, and the larger is a multiple.
        heads = max(value.shape[-3], key.shape[-3])
        key, value = (x.repeat_interleave(heads // x.shape[-3], -3) for x in (key, value))
    return spread(
        Seen(
            query,
            key,
            value,
            None if scale is None else float(scale),
            first=is_causal,
            visible=(attn_mask,) if attn_mask is not None and boolean else (),
            bias=None if boolean else attn_mask,
        ),
        enable_gqa,
    )


def spread(seen: Seen, grouped: bool) -> Seen:
    """Leading axes that torch broadcasts, made equal (by views) and at most one of them, so that all is 2- to 4-D."""
    q, k, v = seen.q, seen.k, seen.v
    given = [x for x in (*seen.visible, seen.bias) if x is not None]
    arrays = [q, k, *([] if v is None else [v])]
    if q.ndim <= 4 and all(x.shape[:-2] == q.shape[:-2] for x in arrays) and all(x.ndim <= q.ndim for x in given):
        return seen
    most = max(x.ndim for x in (*arrays, *given))
    lead = np.broadcast_shapes(*(x.shape[:-3] for x in (*arrays, *given)))  # what is left of the heads
    if most < 3:
        return seen
    heads = q.shape[-3] if q.ndim > 2 else 1
    if not grouped:
        heads = max(x.shape[-3] if x.ndim > 2 else 1 for x in (*arrays, *given))

    def whole(x: Tensor) -> Tensor:
        here = x.shape[-3] if x.ndim > 2 else 1
        # One key head serves any number of queries as it is.
        x = x.expand(*lead, heads if x is q else here, *x.shape[-2:])
        return x.flatten(0, -4) if x.ndim > 4 else x

    def flat(x: Tensor) -> Tensor:
        if x.ndim <= 4:
            return x
        if all(n == 1 for n in x.shape[:-3]):
            return x.reshape(1, *x.shape[-3:])
        return x.expand(*lead, *x.shape[-3:]).flatten(0, -4)

    return Seen(
        whole(q),
        whole(k),
        None if v is None else whole(v),
        seen.scale,
        seen.first,
        tuple(flat(x) for x in seen.visible),
        None if seen.bias is None else flat(seen.bias),
        seen.mask,
    )


def multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Seen:
    """torch.nn.functional.multi_head_attention_forward, of (n, batch, width) or (n, width)."""
    single = query.ndim == 2
    if single:
        query, key, value = (x[:, None] for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
    batch = query.shape[1]
    if use_separate_proj_weight:
        assert q_proj_weight is not None
        assert k_proj_weight is not None
        assert v_proj_weight is not None
        weights = [q_proj_weight, k_proj_weight, v_proj_weight]
    else:
        assert in_proj_weight is not None
        weights = list(in_proj_weight.chunk(3))
    biases = [None] * 3 if in_proj_bias is None else list(in_proj_bias.chunk(3))

    def heads(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], batch, num_heads, -1).permute(1, 2, 0, 3)  # (n, batch, width) -> (b, h, n, d)

    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
    if bias_k is not None and bias_v is not None:
        k, v = (torch.cat([x, b.expand(1, batch, -1)]) for x, b in ((k, bias_k), (v, bias_v)))
    q, k, v = map(heads, (q, k, v))
    k = k if static_k is None else static_k.view(batch, num_heads, *static_k.shape[1:])
    v = v if static_v is None else static_v.view(batch, num_heads, *static_v.shape[1:])
    if add_zero_attn:
        k, v = (torch.cat([x, x.new_zeros(*x.shape[:2], 1, x.shape[-1])], 2) for x in (k, v))
    first = is_causal and key_padding_mask is None and not need_weights  # then torch reads the mask as a hint alone
    visible: list[Tensor] = []
    added: list[Tensor] = []
    for mask in (None if first else attn_mask, key_padding_mask):
        if mask is None:
            continue
        if mask is key_padding_mask:
            full = mask[:, None, None]  # (batch, n_k) -> (batch, 1, 1, n_k)
        else:
            full = mask if mask.ndim == 2 else mask.view(batch, num_heads, *mask.shape[1:])
        extra = k.shape[2] - full.shape[-1]  # keys of the module's own: everybody sees them
        seen = hiding(full)
        if seen is None:
            added.append(torch.nn.functional.pad(full, (0, extra)))
        else:
            visible.append(torch.cat([seen, seen.new_ones(*seen.shape[:-1], extra)], -1))
    bias = None if not added else sum(added[1:], added[0])
    if single:
        q, k, v = q[0], k[0], v[0]
        visible = [x[0] if x.ndim == 4 else x for x in visible]
        bias = bias[0] if bias is not None and bias.ndim == 4 else bias
    return Seen(q, k, v, None, first, tuple(visible), bias)


def native_multi_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Seen:
    """torch._native_multi_head_attention, of (batch, n, width): the fast path of nn.MultiheadAttention."""
    lengths = None
    if query.is_nested:
        lengths = [len(x) for x in query.unbind()]
        query = query.to_padded_tensor(0.0)
    q, k, v = (
        x.reshape(*x.shape[:2], num_head, -1).transpose(1, 2)  # (batch, n, width) -> (batch, heads, n, d)
        for x in linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    )
    visible: tuple[Tensor, ...] = ()
    if mask is not None:
        seen = ~mask.bool()  # torch takes it so here, whatever numbers it holds
        batch, n = q.shape[0], q.shape[2]
        visible = (seen.view(batch, 1, 1, n) if mask_type == 1 else seen,)
    packed = None
    if lengths is not None and min(lengths) < q.shape[2]:
        # Rows and keys past a sequence's end are nowhere: no query has the number of any key there.
        there = torch.arange(q.shape[2]) < torch.tensor(lengths)[:, None]
        packed = segments(*(torch.where(there, 0, other).numpy() for other in (1, 2)))
    return Seen(q, k, v, None, False, visible, None, packed)


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Seen:
    """torch._transformer_encoder_layer_fwd, of (batch, n, width): the fast path of nn.TransformerEncoderLayer."""

    def prepared(x: Tensor) -> Tensor:
        return layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps) if norm_first else x

    x = torch.nested.as_nested_tensor([prepared(y) for y in src.unbind()]) if src.is_nested else prepared(src)
    return native_multi_head(
        x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type=mask_type
    )
