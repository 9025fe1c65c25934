"""The peers: how each of them answers the same question, as calls that do nothing else.

A peer may offer several ways; all are measured and the fastest counts. What an interface allows to be done once (a
model, a layout, bound inputs and outputs) is done before the clock starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from typing import Any

import ml_dtypes
import numpy as np

from . import THREADS

TORCH, ORT, OPENVINO, NUMPY, JAX = "PyTorch", "ONNX Runtime", "OpenVINO", "NumPy", "JAX"
PACKAGES = {TORCH: "torch", ORT: "onnxruntime", OPENVINO: "openvino", NUMPY: "numpy", JAX: "jax"}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Question:
    """One attention, in terms every peer can take or decline. q: (heads, n_q, d), k and v: (key heads, n_k, d)."""

    q: Array
    k: Array
    v: Array
    causal: bool = False
    mask: Array | None = None  # boolean, True = may attend
    bias: Array | None = None
    softcap: float | None = None

    @property
    def bf16(self) -> bool:
        return bool(self.q.dtype == ml_dtypes.bfloat16)

    @property
    def plain(self) -> bool:
        return self.mask is None and self.bias is None and self.softcap is None

    @property
    def grouped(self) -> bool:
        return len(self.q) != len(self.k)


@dataclass(frozen=True)
class Way:
    """`call` is what is timed; `read` turns what it returned into (heads, n_q, d) in float32, to be compared."""

    name: str
    call: Callable[[], Any]
    read: Callable[[Any], Array]


def tensor(array: Array) -> Any:
    """A torch tensor on the same memory."""
    torch = import_module("torch")
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def from_tensor(result: Any) -> Array:
    array: Array = result.float().numpy()
    return array.reshape(-1, *array.shape[-2:])


def torch_ways(ask: Question) -> Iterator[Way]:
    torch = import_module("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    torch.set_num_threads(THREADS)
    # (1, heads, n, d): three axes would leave the fused kernel.
    q, k, v = (tensor(x)[None] for x in (ask.q, ask.k, ask.v))
    if ask.softcap is not None:
        cap = ask.softcap

        def capped() -> Any:  # there is no fused way: the equations
            scores = torch.matmul(q, k.mT).mul_(1 / math.sqrt(q.shape[-1]))
            return torch.matmul(torch.softmax(scores.div_(cap).tanh_().mul_(cap), -1), v)

        yield Way("equations", capped, from_tensor)
        return
    extra: dict[str, Any] = {"is_causal": ask.causal}
    if ask.mask is not None or ask.bias is not None:
        extra = {"attn_mask": tensor(ask.mask if ask.mask is not None else ask.bias)[None]}  # type: ignore[arg-type]
        if extra["attn_mask"].ndim == 3:
            extra["attn_mask"] = extra["attn_mask"][0]
    if not ask.grouped:
        yield Way("", partial(attend, q, k, v, **extra), from_tensor)
        return
    yield Way("enable_gqa", partial(attend, q, k, v, enable_gqa=True, **extra), from_tensor)
    groups = q.shape[1] // k.shape[1]
    if q.shape[2] == 1:
        # One query a head: the heads of a group can stand as rows of one head. Nobody has to know, but one may.
        rows = q.reshape(1, k.shape[1], groups, q.shape[3])
        shape = ask.q.shape
        yield Way("heads as rows", partial(attend, rows, k, v), lambda z: from_tensor(z).reshape(shape))
    else:

        def repeated() -> Any:
            return attend(q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1), **extra)

        yield Way("repeated keys", repeated, from_tensor)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, value: int | str | bytes) -> bytes:
    """A protocol-buffer field: an integer, or a string, or a message already written."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def multi_head_model(heads: int, n_q: int, n_k: int, d: int, causal: bool) -> bytes:
    """An ONNX ModelProto with one MultiHeadAttention node, written by hand: it saves the `onnx` package.

    The field numbers are those of onnx.proto.
    """

    def attribute(name: str, value: int) -> bytes:
        return _field(5, _field(1, name) + _field(3, value) + _field(20, 2))  # type 2: INT

    def value_info(name: str, n: int) -> bytes:
        shape = b"".join(_field(1, _field(1, size)) for size in (1, n, heads * d))
        return _field(1, name) + _field(2, _field(1, _field(1, 1) + _field(2, shape)))  # element type 1: FLOAT

    node = b"".join(_field(1, name) for name in "qkv") + _field(2, "z") + _field(4, "MultiHeadAttention")
    node += attribute("num_heads", heads) + attribute("unidirectional", int(causal)) + _field(7, "com.microsoft")
    graph = _field(1, node) + _field(2, "attention") + _field(11, value_info("q", n_q))
    graph += _field(11, value_info("k", n_k)) + _field(11, value_info("v", n_k)) + _field(12, value_info("z", n_q))
    imports = _field(8, _field(1, "") + _field(2, 17)) + _field(8, _field(1, "com.microsoft") + _field(2, 1))
    return _field(1, 8) + _field(7, graph) + imports


def onnxruntime_ways(ask: Question) -> Iterator[Way]:
    ort = import_module("onnxruntime")
    if ask.bf16 or ask.grouped or not ask.plain:
        return
    heads, n_q, d = ask.q.shape
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    model = multi_head_model(heads, n_q, ask.k.shape[1], d, ask.causal)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = []
    for name, x in zip("qkv", (ask.q, ask.k, ask.v), strict=True):
        flat = np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(1, x.shape[1], heads * d)
        kept.append((flat, ort.OrtValue.ortvalue_from_numpy(flat)))
        binding.bind_ortvalue_input(name, kept[-1][1])
    out = ort.OrtValue.ortvalue_from_numpy(np.zeros((1, n_q, heads * d), np.float32))
    binding.bind_ortvalue_output("z", out)

    def read(_: Any) -> Array:
        z: Array = out.numpy().reshape(n_q, heads, d).transpose(1, 0, 2)
        assert kept
        return z

    yield Way("", partial(session.run_with_iobinding, binding), read)


def openvino_ways(ask: Question) -> Iterator[Way]:
    openvino = import_module("openvino")
    if ask.grouped or not ask.plain:
        return
    yield _openvino(openvino, ask, ask.bf16, "bf16" if ask.bf16 else "f32")
    if ask.bf16:  # float32 arrays around bf16 arithmetic: sometimes quicker for small shapes
        yield _openvino(openvino, ask, False, "bf16")


def _openvino(openvino: Any, ask: Question, bf16_arrays: bool, precision: str) -> Way:
    operations = import_module("openvino.opset13")
    kind = openvino.Type.bf16 if bf16_arrays else openvino.Type.f32
    inputs = [operations.parameter([1, *x.shape], kind) for x in (ask.q, ask.k, ask.v)]
    node = operations.scaled_dot_product_attention(*inputs, causal=ask.causal)
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": THREADS,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(openvino.Model([node], inputs), "CPU", settings)
    request = compiled.create_infer_request()
    dtype = ml_dtypes.bfloat16 if bf16_arrays else np.float32

    def view(bound: Any) -> Array:
        data: Array = bound.data  # bf16 comes as two bytes of another name
        return data.view(dtype)

    bound = [openvino.Tensor(kind, [1, *x.shape]) for x in (ask.q, ask.k, ask.v, ask.q)]
    for index, x in enumerate((ask.q, ask.k, ask.v)):
        view(bound[index])[0] = x.astype(dtype)
        request.set_input_tensor(index, bound[index])
    request.set_output_tensor(0, bound[3])
    call = partial(request.infer, share_inputs=True, share_outputs=True)
    name = "" if bf16_arrays == ask.bf16 else "float32 arrays"
    return Way(name, call, lambda _: view(bound[3])[0].astype(np.float32))


def numpy_ways(ask: Question) -> Iterator[Way]:
    if ask.bf16 or ask.grouped or not ask.plain:
        return
    q, k, v = ask.q, ask.k, ask.v
    n_q, n_k = q.shape[1], k.shape[1]
    hidden = np.triu(np.full((n_q, n_k), -np.inf, np.float32), 1 + n_k - n_q) if ask.causal else None

    def equations() -> Array:
        scores = (q @ k.transpose(0, 2, 1)) * np.float32(1 / math.sqrt(q.shape[-1]))
        if hidden is not None:
            scores += hidden
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        z: Array = weights @ v
        return z

    yield Way("", equations, lambda z: z)


def jax_ways(ask: Question) -> Iterator[Way]:
    jax = import_module("jax")
    if not ask.plain:
        return
    # (1, n, heads, d) is its layout; it takes fewer key heads as they are.
    q, k, v = (jax.numpy.asarray(x.transpose(1, 0, 2)[None]) for x in (ask.q, ask.k, ask.v))
    attend = jax.jit(partial(jax.nn.dot_product_attention, is_causal=ask.causal))

    def read(z: Any) -> Array:
        array: Array = np.asarray(z.astype(jax.numpy.float32))[0].transpose(1, 0, 2)
        return array

    yield Way("", lambda: attend(q, k, v).block_until_ready(), read)


WAYS: dict[str, Callable[[Question], Iterator[Way]]] = {
    TORCH: torch_ways,
    ORT: onnxruntime_ways,
    OPENVINO: openvino_ways,
    NUMPY: numpy_ways,
    JAX: jax_ways,
}


def ways(peer: str, ask: Question) -> list[Way]:
    """Nothing when the peer is not installed or cannot be asked this."""
    try:
        return list(WAYS[peer](ask))
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == PACKAGES[peer]:
            return []
        raise


def versions() -> dict[str, str | None]:
    """Of every peer, None for one that is not installed."""
    found: dict[str, str | None] = {}
    for peer, package in {**PACKAGES, "llvmlite": "llvmlite", "Regard": "regard"}.items():
        try:
            found[peer] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[peer] = None
    return found
