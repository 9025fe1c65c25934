"""The reference against numbers worked out by hand, against PyTorch in float64, and against finite differences."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from regard import reference
from regard.reference import (
    attention,
    attention_gradients,
    log_sum_exp,
    merge_heads,
    multi_head,
    multi_head_gradients,
    positions,
    project,
    scores,
    softmax,
    split_heads,
    weights,
)

INF, NAN = np.inf, np.nan


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def causal(b, h, q, k):
    return k <= q


def same(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# Softmax


def test_softmax_by_hand():
    same(softmax([0.0, math.log(3)]), [0.25, 0.75])
    same(softmax([[1e4, 1e4], [-1e4, -1e4]]), 0.5)
    # Column Q1 and column Q4 of note 004, corrected in READING.md.
    same(softmax([0.7, -0.93, -0.24, -5]).round(3), [0.629, 0.123, 0.246, 0.002])
    same(softmax([-5, 93, 94, 4.9]).round(3), [0, 0.269, 0.731, 0])


def test_softmax_of_nothing_and_of_nan():
    same(softmax([[-INF, -INF], [-INF, 3.0]]), [[0, 0], [0, 1]])
    assert np.isnan(softmax([NAN, 0.0])).all()
    assert np.isnan(softmax([INF, 0.0])).all()
    assert softmax(np.zeros((3, 0))).shape == (3, 0)


def test_log_sum_exp():
    same(log_sum_exp([[0.0, math.log(3)], [1e4, -1e4]]), [math.log(4), 1e4])
    same(log_sum_exp([-INF, -INF]), -INF)
    same(log_sum_exp(np.zeros((2, 0))), [-INF, -INF])
    assert np.isnan(log_sum_exp([NAN, 0.0]))


# Scores and weights


def test_designed_head_by_hand():
    # Four tokens, keys 8·I, and each query the unit vector of the key it looks at. Scores are 8/√4 = 4 there, 0
    # elsewhere: e⁴/(e⁴ + 3) = 94.8 %, and 1/(e⁴ + 3) = 1.7 % for the others.
    targets = {0: 1, 1: 2, 2: 1, 3: 2}
    a = weights(np.eye(4)[list(targets.values())], 8 * np.eye(4))
    for query, target in targets.items():
        for key in range(4):
            assert round(100 * a[query, key], 1) == (94.8 if key == target else 1.7)


def test_order_of_the_score():
    def square(score, b, h, q, k):
        return score**2

    q, k = [[2.0]], [[3.0], [1.0]]
    same(scores(q, k, scale=0.5), [[3, 1]])
    same(scores(q, k, scale=0.5, modify=square), [[9, 1]])
    same(scores(q, k, scale=0.5, modify=[square, lambda s, *_: s + 1]), [[10, 2]])
    same(scores(q, k, scale=0.5, modify=square, bias=[[1.0, 0.5]]), [[10, 1.5]])
    same(scores(q, k, scale=0.5, modify=square, bias=[[1.0, 0.5]], mask=[[False, True]]), [[-INF, 1.5]])
    same(scores(q, k, scale=0), [[0, 0]])
    same(scores(q, k, scale=-1), [[-6, -2]])
    same(scores(normal(3, 16), normal(5, 16)), normal(3, 16) @ normal(5, 16).T / 4)


def test_modifier_and_mask_are_given_positions():
    q, k = normal(2, 3, 4, 5, 8), normal(3, 2, 6, 8)  # leading (2, 3), 4 query heads on 2 key heads
    given = []

    def modify(score, *index):
        given.append(index)
        assert score.shape == (6, 4, 5, 6)
        assert all(i.dtype == np.int64 for i in index)
        b, h, q, k = index
        return 1000 * b + 100 * h + 10 * q + k

    s = scores(q, k, modify=modify, mask=lambda *index: given.append(index) or np.array(True))
    assert s.shape == (2, 3, 4, 5, 6)
    assert s[1, 2, 3, 4, 5] == 5355  # b = 1·3 + 2, position of query 4 = 4 + (6 - 5)
    assert s[0, 1, 0, 0, 0] == 1010
    for first, second in zip(*given, strict=True):
        np.testing.assert_array_equal(first, second)


def test_positions_put_the_last_query_at_the_last_key():
    assert [p.tolist() for p in positions(2, 4)] == [[2, 3], [0, 1, 2, 3]]
    assert [p.tolist() for p in positions(3, 2)] == [[-1, 0, 1], [0, 1]]
    same(scores(normal(2, 3), normal(4, 3), mask=causal) == -INF, [[0, 0, 0, 1], [0, 0, 0, 0]])


# Against PyTorch

CASES = [
    # name, shape of q, of k, of v
    ("one head", (7, 5), (7, 5), (7, 5)),
    ("heads", (3, 7, 5), (3, 11, 5), (3, 11, 2)),
    ("batch", (2, 3, 7, 5), (2, 3, 11, 5), (2, 3, 11, 4)),
    ("grouped", (2, 6, 7, 5), (2, 2, 11, 5), (2, 2, 11, 5)),
    ("one key head", (2, 6, 7, 5), (2, 1, 11, 5), (2, 1, 11, 5)),
    ("broadcast", (3, 1, 4, 7, 5), (2, 4, 11, 5), (3, 1, 4, 11, 5)),
    ("values lead", (4, 7, 5), (4, 11, 5), (2, 4, 11, 5)),
    ("key without heads", (4, 7, 5), (11, 5), (11, 3)),
    ("single", (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
]


@pytest.mark.parametrize(("q", "k", "v"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("extra", ["plain", "mask", "bias", "causal"])
def test_against_torch(q, k, v, extra):
    torch = pytest.importorskip("torch")
    q, k, v = normal(*q, seed=1), normal(*k, seed=2), normal(*v, seed=3)
    cells = (q.shape[-2], k.shape[-2])
    added = {
        "plain": {},
        "mask": {"mask": (normal(*cells) > 0) | np.eye(*cells, dtype=bool)},
        "bias": {"bias": normal(*cells)},
        "causal": {"mask": causal},
    }[extra]

    # PyTorch wants a heads axis, equal head counts and equal leading dimensions.
    heads = q.shape[-3] if q.ndim > 2 else 1
    lead = np.broadcast_shapes(*(x.shape[:-3] for x in (q, k, v)))

    def full(x):
        x = x[None] if x.ndim == 2 else x
        x = np.concatenate([x[..., h * x.shape[-3] // heads, :, :][..., None, :, :] for h in range(heads)], axis=-3)
        return torch.tensor(np.ascontiguousarray(np.broadcast_to(x, lead + x.shape[-3:])))

    offset = cells[1] - cells[0]
    mask = added.get("bias", np.tri(*cells, offset, dtype=bool) if extra == "causal" else added.get("mask"))
    mask = None if mask is None else torch.tensor(mask)
    theirs = torch.nn.functional.scaled_dot_product_attention(full(q), full(k), full(v), attn_mask=mask).numpy()

    ours, lse = attention(q, k, v, **added, return_lse=True)
    same(ours, theirs.reshape(ours.shape))
    assert ours.dtype == lse.dtype == np.float64
    assert lse.shape == ours.shape[:-1]
    a = weights(q, k, **added)
    same(a.sum(axis=-1), 1)
    same(lse, np.broadcast_to(log_sum_exp(scores(q, k, **added)), lse.shape))


def test_result_shapes():
    assert attention(normal(3, 4), normal(5, 4), normal(5, 2)).shape == (3, 2)
    assert weights(normal(3, 4), normal(5, 4)).shape == (3, 5)
    assert weights(normal(1, 3, 4), normal(5, 4)).shape == (1, 3, 5)
    assert attention(normal(2, 6, 3, 4), normal(3, 5, 4), normal(3, 5, 2)).shape == (2, 6, 3, 2)


# Sinks


def test_sink_takes_weight_and_gives_no_value():
    q, k, v = [[0.0]], [[0.0], [0.0]], [[3.0], [6.0]]
    z, lse = attention(q, k, v, sinks=[math.log(4)], return_lse=True)
    same(z, [[1.5]])  # 1/6 · 3 + 1/6 · 6; the other 4/6 go to the sink
    same(lse, [math.log(6)])
    same(weights(q, k, sinks=[math.log(4)]).sum(axis=-1), 1 - np.exp(math.log(4) - lse))


def test_sink_is_not_scaled_modified_or_masked_and_each_head_has_its_own():
    q, k = normal(2, 3, 4, 5), normal(2, 3, 6, 5)
    sinks = np.array([0.5, -INF, 30.0])
    options = {"scale": 0.1, "modify": lambda s, b, h, q, k: s + 1, "mask": causal}
    a, plain = weights(q, k, **options, sinks=sinks), weights(q, k, **options)
    s = scores(q, k, **options)
    same(a, np.exp(s) / (np.exp(s).sum(axis=-1, keepdims=True) + np.exp(sinks)[:, None, None]))
    same(a[:, 1], plain[:, 1])
    assert (a[:, 2] < 1e-9).all()


# Empty rows, and what is hidden


def test_empty_rows():
    q, k, v = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4)
    mask = np.ones((2, 3, 5), bool)
    mask[1, 2] = False
    z, lse = attention(q, k, v, mask=mask, return_lse=True)
    same(z[1, 2], 0)
    assert lse[1, 2] == -INF
    same(weights(q, k, mask=mask)[1, 2], 0)
    assert np.isfinite(lse).sum() == 5
    z, lse = attention(q, k, v, mask=mask, sinks=[1.0, 2.0], return_lse=True)
    same(z[1, 2], 0)
    assert lse[1, 2] == 2.0


@pytest.mark.parametrize("value", [0.0, NAN, INF])
def test_row_emptied_by_the_data(value):
    z, lse = attention([[1.0]], [[-INF], [-INF]], [[value], [1.0]], return_lse=True)
    assert (z, lse) == (0, -INF)


def test_no_keys_and_no_queries():
    z, lse = attention(normal(2, 3, 4), normal(2, 0, 4), normal(2, 0, 5), return_lse=True)
    assert z.shape == (2, 3, 5)
    assert not z.any()
    assert (lse == -INF).all()
    assert weights(normal(2, 3, 4), normal(2, 0, 4)).shape == (2, 3, 0)
    z, lse = attention(normal(2, 3, 4), normal(2, 0, 4), normal(2, 0, 5), sinks=[1.0, 2.0], return_lse=True)
    same(lse, [[1] * 3, [2] * 3])

    z, lse = attention(normal(2, 0, 4), normal(2, 3, 4), normal(2, 3, 5), return_lse=True, mask=causal)
    assert z.shape == (2, 0, 5)
    assert lse.shape == (2, 0)
    assert attention(normal(0, 2, 3, 4), normal(0, 2, 3, 4), normal(0, 2, 3, 4)).shape == (0, 2, 3, 4)
    same(weights(normal(3, 0), normal(4, 0)), 0.25)

    for n, m in [(0, 3), (3, 0), (0, 0)]:
        q, k, v = normal(2, n, 4), normal(2, m, 4), normal(2, m, 5)
        g = attention_gradients(normal(2, n, 5), q, k, v, sinks=[1.0, 2.0])
        assert (g.d_q.shape, g.d_k.shape, g.d_v.shape) == (q.shape, k.shape, v.shape)
        assert not any(x.any() for x in g if x is not None)


HIDE = np.array([True, False, True, False, True])  # of five keys, those that may be seen
HIDING = {
    "mask": {"mask": HIDE},
    "callable mask": {"mask": lambda b, h, q, k: k % 2 == 0},
    "bias": {"bias": np.where(HIDE, 0, -INF)},
    "modify": {"modify": lambda s, b, h, q, k: np.where(k % 2 == 0, s, -INF)},
    "modify, then another": {"modify": [lambda s, b, h, q, k: np.where(k % 2 == 0, s, -INF), lambda s, *_: s - 0.0]},
    "modify, after another": {"modify": [lambda s, *_: s + 0.0, lambda s, b, h, q, k: np.where(k % 2 == 0, s, -INF)]},
}


LEAKS = [
    (how, where, poison)
    for how in HIDING
    for where in ["k", "v", "both"]
    for poison in [NAN, INF, -INF]
    # A modifier that meets a score of -inf and gives it back has not hidden it.
    if not ("modify" in how and where != "v" and poison == -INF)
]


@pytest.mark.parametrize(("how", "where", "poison"), LEAKS)
def test_the_hidden_cannot_leak(how, where, poison):
    q, k, v = abs(normal(2, 3, 4)), normal(2, 5, 4), normal(2, 5, 4)
    bad_k, bad_v = k.copy(), v.copy()
    if where != "v":
        bad_k[:, ~HIDE, 1] = poison
    if where != "k":
        bad_v[:, ~HIDE, 2] = poison
    options = {**HIDING[how], "sinks": [0.1, 0.2]}
    for ours, clean in zip(
        attention(q, bad_k, bad_v, **options, return_lse=True),
        attention(q, k, v, **options, return_lse=True),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, clean)
    np.testing.assert_array_equal(weights(q, bad_k, **options), weights(q, k, **options))
    same(attention(q, bad_k, bad_v, **options), attention(q, k[:, HIDE], v[:, HIDE], sinks=[0.1, 0.2]))
    slope = {"slope": lambda s, *_: np.ones_like(s)} if "modify" in options else {}
    dz = normal(2, 3, 4, seed=5)
    for ours, clean in zip(
        attention_gradients(dz, q, bad_k, bad_v, **options, **slope),
        attention_gradients(dz, q, k, v, **options, **slope),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, clean)


def test_hidden_from_one_row_and_seen_by_another():
    v = np.array([[1.0, 1.0], [NAN, INF], [2.0, 2.0]])
    z = attention(np.zeros((3, 1)), np.zeros((3, 1)), v, mask=causal)
    np.testing.assert_array_equal(z, [[1, 1], [NAN, INF], [NAN, INF]])
    k = np.array([[0.0], [NAN], [0.0]])
    a = weights(np.zeros((3, 1)), k, mask=causal)
    np.testing.assert_array_equal(a, [[1, 0, 0], [NAN, NAN, 0], [NAN, NAN, NAN]])  # hidden weights are 0 everywhere


def test_queries_of_empty_rows_cannot_leak_into_gradients():
    q, k, v, dz = normal(3, 4), normal(5, 4), normal(5, 4), normal(3, 4, seed=5)
    q[1], dz[1] = NAN, INF
    mask = np.array([[True], [False], [True]])
    g = attention_gradients(dz, q, k, v, mask=mask)
    rest = attention_gradients(dz[[0, 2]], q[[0, 2]], k, v)
    same(g.d_k, rest.d_k)
    same(g.d_v, rest.d_v)
    same(g.d_q, [rest.d_q[0], [0] * 4, rest.d_q[1]])


def test_gradients_of_a_row_that_is_nan_stay_in_what_it_sees():
    q, k, v, dz = normal(3, 4), normal(3, 4), normal(3, 4), normal(3, 4, seed=5)
    q[1] = NAN
    g = attention_gradients(dz, q, k, v, bias=np.zeros((3, 3)), mask=causal)
    np.testing.assert_array_equal(np.isnan(g.d_bias), [[0, 0, 0], [1, 1, 0], [0, 0, 0]])
    assert np.isnan(g.d_v[:2]).all()
    assert np.isfinite(g.d_v[2]).all()


def test_minus_inf_out_of_the_data_weighs_nothing_but_is_not_hidden():
    q, k = [[1.0]], [[-INF], [0.0]]
    same(weights(q, k), [[0, 1]])
    same(attention(q, k, [[7.0], [1.0]]), [[1]])
    assert np.isnan(attention(q, k, [[INF], [1.0]]))
    assert np.isnan(attention(q, k, [[INF], [1.0]], modify=lambda s, *_: s))  # given back, not hidden
    same(attention(q, k, [[INF], [1.0]], mask=[False, True]), [[1]])
    same(attention(q, k, [[INF], [1.0]], bias=[-INF, 0.0]), [[1]])
    lifted = [lambda s, *_: np.maximum(s, -5), lambda s, b, h, q, k: np.where(k > 0, s, -INF)]
    same(attention(q, k, [[INF], [1.0]], modify=lifted), [[1]])


def test_hidden_and_then_seen_again():
    # A cap after a modifier that hid makes a number of -inf: what counts is the score that comes out.
    modify = [lambda s, b, h, q, k: np.where(k > 0, s, -INF), lambda s, *_: 2 * np.tanh(s / 2)]
    same(scores([[0.0]], [[0.0], [0.0]], modify=modify), [[-2, 0]])
    assert np.isnan(attention([[0.0]], [[0.0], [0.0]], [[NAN], [1.0]], modify=modify))


def test_seen_nan_makes_its_row_nan():
    q, k, v = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4)
    q[0, 1, 0] = NAN
    z, lse = attention(q, k, v, return_lse=True)
    assert np.isnan(z[0, 1]).all()
    assert np.isnan(lse[0, 1])
    assert np.isnan(weights(q, k)[0, 1]).all()
    assert np.isnan(lse).sum() == 1
    assert np.isnan(z).sum() == 4
    for options in ({"bias": [NAN, 0, 0, 0, 0]}, {"modify": lambda s, *_: s * NAN}, {"sinks": [NAN]}, {"scale": NAN}):
        assert np.isnan(attention(v, k, v, **options)).all()


# Wrong input


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(3, 4), (5, 3), (5, 3)], {}, "queries and keys must be equally wide, got 4 and 3 columns"),
        ([(3, 4), (5, 4), (6, 4)], {}, "every key needs one value, got 5 keys and 6 values"),
        ([(4,), (5, 4), (5, 4)], {}, "expected arrays"),
        ([(3, 3, 4), (2, 5, 4), (2, 5, 4)], {}, "3 query heads cannot share 2 key heads and 2 value heads evenly"),
        ([(3, 4), (5, 4), (5, 4)], {"bias": np.zeros((4, 5))}, r"bias of shape \(4, 5\) does not broadcast to the"),
        ([(3, 4), (5, 4), (5, 4)], {"mask": np.ones((1, 3, 5), bool)}, "mask of shape"),
    ],
)
def test_wrong_shapes(shapes, options, message):
    with pytest.raises(ValueError, match=message):
        attention(*(normal(*shape) for shape in shapes), **options)


def test_mask_must_be_boolean():
    with pytest.raises(TypeError, match="True = may attend, but this one is float64; numbers go in bias="):
        attention(normal(2, 3), normal(2, 3), normal(2, 3), mask=np.zeros((2, 2)))


@pytest.mark.parametrize("given", ["modify", "slope"])
def test_modify_and_slope_go_together(given):
    with pytest.raises(ValueError, match=r"modify= and slope=, .* go together"):
        attention_gradients(*[normal(2, 3)] * 4, **{given: lambda s, *_: s})


# Multi-head


def test_split_and_merge():
    x = normal(2, 5, 12)
    y = split_heads(x, 3)
    assert y.shape == (2, 3, 5, 4)
    np.testing.assert_array_equal(y[1, 2, 3], x[1, 3, 8:])
    np.testing.assert_array_equal(merge_heads(y), x)
    with pytest.raises(ValueError, match="12 columns do not divide into 5 heads"):
        split_heads(x, 5)


def test_project():
    same(project([[1, 2]], [[3], [4]]), [[11]])
    same(project([[1, 2]], [[3], [4]], [0.5]), [[11.5]])


@pytest.mark.parametrize("context", [False, True])
def test_multi_head_against_torch(context):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
    x = normal(2, 5, 12)
    source = normal(2, 7, 12) if context else x
    w_q, w_k, w_v = (w.T for w in theirs.in_proj_weight.detach().numpy().reshape(3, 12, 12))
    b_q, b_k, b_v = theirs.in_proj_bias.detach().numpy().reshape(3, 12)
    w_o, b_o = theirs.out_proj.weight.detach().numpy().T, theirs.out_proj.bias.detach().numpy()
    expected, _ = theirs(*(torch.tensor(a) for a in (x, source, source)))
    ours = multi_head(x, w_q, w_k, w_v, w_o, 3, source if context else None, b_q=b_q, b_k=b_k, b_v=b_v, b_o=b_o)
    same(ours, expected.detach().numpy())


def test_multi_head_with_shared_keys():
    x, w_q, w_k, w_v, w_o = normal(5, 6), normal(6, 8), normal(6, 4, seed=1), normal(6, 6, seed=2), normal(12, 3)
    y = multi_head(x, w_q, w_k, w_v, w_o, 4, mask=causal)  # 4 query heads 2 wide, 2 key heads, values 3 wide
    z = [
        attention(x @ w_q[:, 2 * h : 2 * h + 2], x @ w_k[:, g : g + 2], x @ w_v[:, 3 * g // 2 :][:, :3], mask=causal)
        for h, g in enumerate([0, 0, 2, 2])
    ]
    same(y, np.concatenate(z, axis=-1) @ w_o)
    with pytest.raises(ValueError, match="w_k gives 3 columns, which are no whole number of heads 2 wide"):
        multi_head(x, w_q, w_k[:, :3], w_v, w_o, 4)


# Gradients, against central differences


def check_gradients(loss, arrays, gradients, step=1e-5):
    """Every array's gradient against what the loss does when each of its entries is moved a little, both ways."""
    for name, x in arrays.items():
        assert gradients[name].shape == x.shape, name
        measured = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            kept = x[i]
            if not np.isfinite(kept):
                continue
            x[i] = kept + step
            up = loss()
            x[i] = kept - step
            measured[i] = (up - loss()) / (2 * step)
            x[i] = kept
        np.testing.assert_allclose(gradients[name], measured, rtol=1e-6, atol=1e-8, err_msg=name)


def softcap(score, b, h, q, k):
    return 1.5 * np.tanh(score / 1.5) + 0.1 * (h + b) * (k - q)


def softcap_slope(score, b, h, q, k):
    return 1 - np.tanh(score / 1.5) ** 2


SHAPES = {
    # q, k, v
    "one head": [(3, 2), (4, 2), (4, 3)],
    "grouped": [(2, 4, 2, 2), (2, 2, 3, 2), (2, 2, 3, 2)],
    "broadcast": [(2, 1, 2, 2, 2), (3, 2, 3, 2), (1, 2, 3, 1)],
    "values lead": [(2, 2, 2), (3, 2), (2, 2, 3, 2)],
}


@pytest.mark.parametrize("modify", [False, True])
@pytest.mark.parametrize("extras", ["plain", "mask", "bias and sinks", "all, and lse"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_attention_gradients(shapes, extras, modify):
    arrays = {name: normal(*shape, seed=i) for i, (name, shape) in enumerate(zip("qkv", SHAPES[shapes], strict=True))}
    q, k, v = arrays.values()
    heads = q.shape[-3] if q.ndim > 2 else 1
    fixed = {"scale": 0.7, "modify": softcap} if modify else {}
    if "mask" in extras or "all" in extras:
        fixed["mask"] = normal(q.shape[-2], k.shape[-2], seed=7) > -0.4
        fixed["mask"][0] = False  # an empty row
    if "sinks" in extras or "all" in extras:
        arrays["sinks"] = normal(heads, seed=8)
        arrays["bias"] = normal(*([heads, 1] if q.ndim > 2 else [1]), k.shape[-2], seed=9)
        arrays["bias"].flat[-1] = -INF

    def forward():
        extra = {name: x for name, x in arrays.items() if name not in "qkv"}
        return attention(q, k, v, **fixed, **extra, return_lse=True)

    z, lse = forward()
    seen = lse > -INF
    d_z, d_lse = normal(*z.shape, seed=10), normal(*lse.shape, seed=11) * ("lse" in extras)

    def loss():
        z, lse = forward()
        return (d_z * z).sum() + (d_lse[seen] * lse[seen]).sum()

    slope = {"slope": softcap_slope} if modify else {}
    given = {name: x for name, x in arrays.items() if name not in "qkv"}
    g = attention_gradients(d_z, q, k, v, **fixed, **slope, **given, d_lse=d_lse if "lse" in extras else None)
    check_gradients(loss, arrays, {name: getattr(g, f"d_{name}") for name in arrays})
    if "sinks" not in arrays:
        assert g.d_sinks is None
        assert g.d_bias is None


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("rich", [False, True])
def test_multi_head_gradients(context, rich):
    arrays = {
        "x": normal(2, 3, 3),
        "context": normal(1, 4, 2) if context else None,  # one context for the whole batch
        "w_q": normal(3, 8),
        "w_k": normal(2 if context else 3, 4, seed=1),
        "w_v": normal(2 if context else 3, 6, seed=2),
        "w_o": normal(12, 2),
        "b_q": normal(8),
        "b_k": normal(4),
        "b_v": normal(6),
        "b_o": normal(2),
    }
    fixed = {"heads": 4}
    if rich:
        arrays |= {"bias": normal(4, 1, 4 if context else 3), "sinks": normal(4, seed=1)}
        fixed |= {"mask": causal, "scale": 0.3, "modify": softcap}

    def loss():
        return (d_y * multi_head(**arrays, **fixed)).sum()

    d_y = normal(2, 3, 2, seed=3)
    slope = {"slope": softcap_slope} if rich else {}
    given = {name: x for name, x in arrays.items() if name != "b_o"}
    g = multi_head_gradients(d_y, **given, **fixed, **slope)
    check_gradients(
        loss,
        {name: x for name, x in arrays.items() if x is not None},
        {name: getattr(g, f"d_{name}") for name in arrays},
    )
    assert (g.d_context is None) == (not context)


def test_gradients_against_torch():
    torch = pytest.importorskip("torch")
    q, k, v, d_z = normal(2, 3, 13, 8), normal(2, 3, 17, 8), normal(2, 3, 17, 8, seed=1), normal(2, 3, 13, 8, seed=2)
    tensors = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    mask = normal(13, 17) > -1
    z = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=torch.tensor(mask))
    z.backward(torch.tensor(d_z))
    g = attention_gradients(d_z, q, k, v, mask=mask)
    for ours, theirs in zip((g.d_q, g.d_k, g.d_v), tensors, strict=True):
        same(ours, theirs.grad.numpy())


def test_gradient_of_many_modifiers_takes_the_slope_of_all():
    q, k, v, d_z = normal(2, 3), normal(4, 3), normal(4, 3, seed=1), normal(2, 3, seed=2)
    both = attention_gradients(
        d_z, q, k, v, modify=[lambda s, *_: s**2, lambda s, *_: 3 * s], slope=lambda s, *_: 6 * s
    )
    one = attention_gradients(d_z, q, k, v, modify=lambda s, *_: 3 * s**2, slope=lambda s, *_: 6 * s)
    same(both.d_q, one.d_q)


def test_inputs_are_left_alone():
    arrays = [normal(2, 3), normal(4, 3), normal(4, 3, seed=1)]
    copies = [x.copy() for x in arrays]
    attention(*arrays, sinks=[0.0], bias=np.zeros((2, 4)), mask=causal)
    attention_gradients(normal(2, 3, seed=2), *arrays, sinks=[0.0])
    for x, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(x, copy)


def test_it_needs_numpy_only():
    source = Path(reference.__file__).read_text(encoding="utf-8")
    imported = {line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert imported == {"__future__", "collections", "math", "numpy", "typing"}
