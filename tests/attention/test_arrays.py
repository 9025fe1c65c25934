"""Arrays of all kinds, in and out: the same array for q, k and v, out=, torch, and anything with __dlpack__."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from tests.attention.judge import DTYPES, check, compare, normal, same_bits
from tests.attention.problems import LAYOUTS, lay

torch = pytest.importorskip("torch")
KINDS = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_array_for_all(dtype):
    x = normal((2, 40, 16), dtype)
    copies = x.copy(), x.copy(), x.copy()
    same_bits(regard.attention(x, x, x), regard.attention(*copies))
    check(x, x, x)
    same_bits(x, copies[0], "inputs stay as they are")


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x not in ("read only", "one row repeated")])
def test_out_of_every_layout(layout):
    for dtype in DTYPES:
        q, k, v = normal((2, 2, 20, 16), dtype), normal((2, 2, 35, 16), dtype), normal((2, 2, 35, 16), dtype)
        out = lay(np.full(q.shape, np.nan, q.dtype), layout)
        assert regard.attention(q, k, v, out=out) is out
        same_bits(np.ascontiguousarray(out), regard.attention(q, k, v), layout)
        z, lse = regard.attention(q, k, v, out=out, return_lse=True)
        assert z is out
        assert lse.shape == (2, 2, 20)


def test_out_writes_nothing_between_its_rows():
    room = np.full((2, 20, 30), 7, np.float32)
    q = normal((2, 20, 16))
    regard.attention(q, q, q, out=room[..., 3:19])
    assert (room[..., :3] == 7).all()
    assert (room[..., 19:] == 7).all()


def test_out_that_is_an_input():
    for which in range(3):
        arrays = [normal((2, 40, 16), seed=seed) for seed in range(3)]
        want = regard.attention(*arrays)
        assert regard.attention(*arrays, out=arrays[which]) is arrays[which]
        same_bits(arrays[which], want, f"out is input {which}")
    room = normal((2, 50, 16))
    x, out = room[:, :40], room[:, 10:]
    want = regard.attention(x, x, x)
    regard.attention(x, x, x, out=out)
    same_bits(np.ascontiguousarray(out), want, "out overlaps the inputs")
    x = normal((40, 40))
    want = regard.attention(x, x, x, bias=x)
    bias = x.copy()
    regard.attention(x, x, x, bias=bias, out=bias)
    same_bits(bias, want, "out is the bias")


def test_out_of_a_row_that_sees_nothing_is_written():
    q, out = normal((2, 20, 16)), np.full((2, 20, 16), np.nan, np.float32)
    regard.attention(q, q, q, mask=regard.prefix(0), out=out)
    same_bits(out, np.zeros_like(out))
    out[:] = np.nan
    regard.attention(q, q[:, :0], q[:, :0], out=out)
    same_bits(out, np.zeros_like(out))


def test_wrong_out():
    q = normal((2, 20, 16))
    with pytest.raises(ValueError, match=r"out has shape \(2, 20, 15\), expected \(2, 20, 16\): make it so, or leave"):
        regard.attention(q, q, q, out=np.empty((2, 20, 15), np.float32))
    with pytest.raises(TypeError, match=r"out has dtype float64, expected float32: make it so, or leave it out"):
        regard.attention(q, q, q, out=np.empty((2, 20, 16)))
    out = np.zeros((2, 20, 16), np.float32)
    out.flags.writeable = False
    with pytest.raises(TypeError, match="out is read-only, expected an array to write to: pass a copy"):
        regard.attention(q, q, q, out=out)
    assert not out.any()
    with pytest.raises(regard.RegardError, match="out is a list, expected an array"):
        regard.attention(q, q, q, out=[[0.0]])
    whole = np.zeros((2, 20, 16), np.int32)
    with pytest.raises(TypeError, match="out has dtype int32"):
        regard.attention(q, q, q, out=whole)
    swapped = np.zeros((2, 20, 16), ">f4")  # bytes in the other order: written, or refused, never silently not
    try:
        regard.attention(q, q, q, out=swapped)
    except regard.RegardError:
        return
    np.testing.assert_array_equal(swapped, regard.attention(q, q, q))


def test_out_with_one_row_for_many_is_not_taken():
    """Rows that share memory cannot all be written."""
    q = normal((2, 20, 16))
    out = np.lib.stride_tricks.as_strided(np.zeros(16, np.float32), q.shape, (0, 0, 4))
    with pytest.raises(regard.RegardError):
        regard.attention(q, q, q, out=out)


def test_other_byte_orders_and_subclasses():
    q = normal((2, 20, 16))
    want = regard.attention(q, q, q)
    same_bits(regard.attention(q.astype(">f4"), q, q.astype(">f4")), want)
    masked = np.ma.masked_array(q)
    same_bits(np.asarray(regard.attention(masked, q, q)), want)


# torch


def tensors(dtype, shape=(2, 40, 16)):
    return [torch.from_numpy(normal(shape, "f32", seed)).to(KINDS[dtype]) for seed in range(3)]


def as_numpy(x):
    if x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy().view(DTYPES["bf16"])
    return x.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors(dtype):
    q, k, v = tensors(dtype)
    z, lse = regard.attention(q, k, v, return_lse=True)
    assert isinstance(z, torch.Tensor)
    assert isinstance(lse, torch.Tensor)
    assert z.dtype == q.dtype
    assert lse.dtype == (torch.float64 if dtype == "f64" else torch.float32)
    compare(as_numpy(z), as_numpy(lse), *(as_numpy(x) for x in (q, k, v)))
    same_bits(as_numpy(z), regard.attention(*(as_numpy(x) for x in (q, k, v))), "the same as from NumPy")


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_that_are_not_contiguous(dtype):
    q, k, v = (x.transpose(0, 1) for x in tensors(dtype, (40, 2, 16)))  # (heads, n, d) as projections give them
    want = regard.attention(q.contiguous(), k.contiguous(), v.contiguous())
    assert torch.equal(regard.attention(q, k, v), want)
    wider = torch.stack([q, k, v], -1)  # the last axis has gaps
    assert torch.equal(regard.attention(*wider.unbind(-1)), want)
    one = q[:1].expand(3, 40, 16)
    assert torch.equal(regard.attention(one, one, one), regard.attention(*[one.contiguous()] * 3))


def test_a_tensor_to_write_to():
    for dtype in DTYPES:
        q, k, v = tensors(dtype)
        want, out = regard.attention(q, k, v), torch.full_like(q, float("nan"))
        place = out.data_ptr()
        assert regard.attention(q, k, v, out=out) is out
        assert out.data_ptr() == place
        assert torch.equal(out, want)
        gaps = torch.full((40, 2, 16), float("nan"), dtype=q.dtype).transpose(0, 1)
        assert regard.attention(q, k, v, out=gaps) is gaps
        assert torch.equal(gaps, want)
        assert regard.attention(q, k, v, out=q) is q
        assert torch.equal(q, want)


def test_tensors_as_masks_biases_and_sinks():
    q, k, v = tensors("f32")
    seen = torch.rand(40, 40, generator=torch.manual_seed(0)) < 0.5
    bias, sinks = torch.randn(2, 40, 40), torch.tensor([0.0, 1.0])
    for mask in (seen, seen.T, seen[:1], seen[:, :1]):
        for added in (bias, bias.transpose(1, 2), bias[:, :1], bias[:1, :, :1]):
            z = regard.attention(q, k, v, mask=mask, bias=added, sinks=sinks)
            compare(z.numpy(), None, *(x.numpy() for x in (q, k, v)), mask=mask.numpy(), bias=added.numpy(),
                    sinks=sinks.numpy())  # fmt: skip
    lengths = torch.tensor([30])
    assert torch.equal(
        regard.attention(q, k, v, mask=regard.padding(lengths)), regard.attention(q, k, v, mask=regard.padding([30]))
    )


def test_a_tensor_that_requires_grad():
    q, k, v = tensors("f32")
    for number, name in enumerate("qkv"):
        arrays = [q, k, v]
        arrays[number] = arrays[number].clone().requires_grad_()
        message = (
            f"^{name} requires grad, but gradients are not computed here yet; "
            rf"call under torch.no_grad\(\) or pass {name}.detach\(\)$"
        )
        with pytest.raises(RuntimeError, match=message):
            regard.attention(*arrays)
        with torch.no_grad():
            z = regard.attention(*arrays)
        assert not z.requires_grad
        with torch.inference_mode():
            assert torch.equal(regard.attention(*arrays), z)
        arrays[number] = arrays[number].detach()
        assert torch.equal(regard.attention(*arrays), z)
    bias = torch.zeros(40, 40, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^bias requires grad"):
        regard.attention(q, k, v, bias=bias)
    sinks = torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^sinks requires grad"):
        regard.attention(q, k, v, sinks=sinks)


def test_tensors_that_cannot_be_read():
    q, k, v = tensors("f32")
    with pytest.raises(ValueError, match=r"q is on meta, expected a tensor on the CPU: give it memory there first"):
        regard.attention(q.to("meta"), k, v)
    with pytest.raises(TypeError, match=r"k has dtype torch.int64, expected .*: convert it with k.to\(…\)"):
        regard.attention(q, k.long(), v)
    with pytest.raises(TypeError, match=r"v has layout torch.sparse_coo, expected a dense tensor: call v.to_dense\(\)"):
        regard.attention(q, k, v.to_sparse())


@pytest.mark.parametrize("mode", [False, True])
def test_views_that_torch_conjugates_or_negates_later(mode):
    x = torch.randn(2, 40, 16, dtype=torch.complex64)
    late = x.conj().imag  # a view whose sign is applied when it is read
    assert late.is_neg()
    with torch.set_grad_enabled(mode):
        z = regard.attention(late, late, late)
    assert torch.equal(z, regard.attention(*[late.resolve_neg().contiguous()] * 3))


class Capsule:
    """Nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_objects_with_nothing_but_dlpack():
    q, k, v = (normal((2, 40, 16), seed=seed) for seed in range(3))
    want = regard.attention(q, k, v)
    same_bits(regard.attention(Capsule(q), Capsule(k), Capsule(v)), want)
    same_bits(regard.attention(q, Capsule(k), v), want)
    seen = np.random.default_rng(0).random((40, 40)) < 0.5
    same_bits(regard.attention(q, k, v, mask=Capsule(seen)), regard.attention(q, k, v, mask=seen))
    bias = normal((40, 40))
    same_bits(regard.attention(q, k, v, bias=Capsule(bias)), regard.attention(q, k, v, bias=bias))
    same_bits(
        regard.attention(q, k, v, sinks=Capsule(np.ones(2, np.float32))), regard.attention(q, k, v, sinks=np.ones(2))
    )


def test_numpy_and_torch_together():
    q, k, v = (normal((2, 40, 16), seed=seed) for seed in range(3))
    want = regard.attention(q, k, v)
    z = regard.attention(torch.from_numpy(q), k, v)
    assert isinstance(z, torch.Tensor)
    same_bits(z.numpy(), want)
    same_bits(regard.attention(q, torch.from_numpy(k), v), want)
