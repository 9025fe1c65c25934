"""Attention of torch models, seen while they run: every call of scaled_dot_product_attention goes to a callback.

>>> import torch
>>> shapes = []
>>> q = k = v = torch.ones(2, 5, 4)
>>> with Calls(lambda q, k, v, **terms: shapes.append((tuple(q.shape), terms["scale"]))):
...     z = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.5)
>>> shapes
[((2, 5, 4), 0.5)]

The model is not changed and its outputs keep their bits, with gradients or without, in training too. Seen are

- torch.nn.functional.scaled_dot_product_attention, whoever calls it: most models of transformers and plain torch;
- torch.nn.functional.multi_head_attention_forward, and so nn.MultiheadAttention, with need_weights and without;
- the fast paths of nn.MultiheadAttention and nn.TransformerEncoder(Layer), nested tensors among them.

Not seen are attention written out as matmul and softmax (transformers' "eager"), flex_attention, flash-attn and calls
of torch.ops.aten directly, and what runs in other threads, in TorchScript or under torch.func (vmap): there the model
runs as ever, and a warning says that it was not recorded, where that can be known. What torch.compile has made calls no
functions either: while somebody records, compiled models run as they were before it.

A second call of a module is a decoding step if it goes on from its cache, which may have a fixed length or forget what
is outside a window; otherwise it is the next text. Beam search, which reorders its cache, gives a text at every step.

With dropout, the weights recorded are those before it. Masks are kept as they were given, in their broadcast shape, and
smaller where they are exactly causal, a window, or the same for all queries.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from regard.errors import DeviceError, MissingError

try:
    import torch
except ImportError as error:
    raise MissingError("models of torch need torch, which is not there: pip install torch") from error

from torch.overrides import TorchFunctionMode

from regard.models import torch_heads
from regard.models.torch_layers import Layers
from regard.models.torch_masks import Seen

overrides: Any = torch.overrides  # parts of it have no types
jit: Any = torch.jit
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

# What is seen: the function, how to read its arguments, and which part of the calling module it computes.
SEEN: dict[Any, tuple[Callable[..., Seen], str | None]] = {
    torch.nn.functional.scaled_dot_product_attention: (torch_heads.scaled_dot_product, None),
    torch.nn.functional.multi_head_attention_forward: (torch_heads.multi_head, None),
}
for _name, _reader, _part in (
    ("_native_multi_head_attention", torch_heads.native_multi_head, None),
    ("_transformer_encoder_layer_fwd", torch_heads.encoder_layer, "self_attn"),
):
    if hasattr(torch, _name):
        SEEN[getattr(torch, _name)] = _reader, _part


class RecordingWarning(UserWarning):
    """Something that whoever records a torch model should know; the model itself runs on."""


class Calls(TorchFunctionMode):
    """While entered, `record(q, k, v, name=…, scale=…, mask=…, bias=…)` is called for every attention of this thread.

    Tensors are (…, heads, n, d) on the CPU, without gradients, and belong to the model: copy what is to be kept. `text`
    is called when a module is called again and does not go on from its cache: what comes now is another text. Call
    `forget()` after beginning one yourself.

    A call that goes on has the new queries, and all keys so far; or, where the cache has dropped early ones (a sliding
    window), the new keys alone, with a mask of all.
    """

    def __init__(self, record: Callable[..., Any], text: Callable[[], Any] | None = None, *, values: bool = True):
        self.values = values
        self._layers = Layers(record, text if text is not None else lambda: None, self._compiled)
        self._told: set[str] = set()

    def forget(self) -> None:
        """Another text has begun."""
        self._layers.forget()

    def __enter__(self) -> Calls:
        _shared.open()
        self._layers.modules.watch()
        overrides._push_mode(self)
        return self

    def __exit__(self, *error: Any) -> None:
        overrides._pop_mode()
        self._layers.modules.leave()
        _shared.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return func(*args, **kwargs)
        try:
            reader = SEEN.get(func)
        except TypeError:  # not hashable, so none of ours
            reader = None
        result = func(*args, **kwargs)
        if reader is not None:
            self._see(*reader, args, kwargs, result)
        return result

    def _see(self, reader: Callable[..., Seen], part: str | None, args: Any, kwargs: Any, result: Any) -> None:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        if _recomputing():
            return
        why = _why_not(reader, tensors[:3])
        if why is not None:
            self._tell(f"attention {why} was not recorded, expected plain tensors: run the model without it")
            return
        with torch.no_grad():
            try:
                seen = reader(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
                output = result[0] if isinstance(result, tuple) else result
                seen = _here(seen, output.dtype, self.values)
            except Exception as error:  # what torch understood and we do not must not break the model
                self._tell(f"attention was not recorded, as its arguments could not be read ({error}): tell us of it")
                return
            self._layers.put(seen, part)

    def nothing(self) -> None:
        """Say that nothing has been recorded, if models ran."""
        if self._layers.modules.calls and not self._told:
            self._tell(
                "models ran and none of them called scaled_dot_product_attention, expected at least one: with "
                'transformers, call model.set_attn_implementation("sdpa")'
            )

    def _compiled(self) -> None:
        _shared.without_compiler()
        self._tell("a compiled model, into which nobody can see, runs without torch.compile while it is recorded")

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            warnings.warn(sentence, RecordingWarning, stacklevel=4)


def _plain(x: Any) -> Any:
    """A tensor that no gradient is asked of; anything else as it is."""
    return x.detach() if isinstance(x, torch.Tensor) else x


def _here(seen: Seen, computed: torch.dtype, values: bool) -> Seen:
    """On the CPU, and in the dtype that autocast has made of it."""

    def here(x: torch.Tensor) -> torch.Tensor:
        return x.cpu() if x.dtype == torch.bool else x.to("cpu", computed)

    bias = seen.bias
    if bias is not None:
        bias = bias.cpu() if bias.dtype == torch.float32 else here(bias)
    return Seen(
        here(seen.q),
        here(seen.k),
        None if seen.v is None or not values else here(seen.v),
        seen.scale,
        seen.first,
        tuple(map(here, seen.visible)),
        bias,
        seen.mask,
    )


def _recomputing() -> bool:
    """Whether this runs inside backward(): a checkpoint computing once more what was recorded before."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1


def _why_not(reader: Callable[..., Seen], tensors: list[Any]) -> str | None:
    """What keeps these tensors from being read, if anything does."""
    wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", lambda x: False)
    if jit.is_tracing():
        return "under torch.jit.trace"
    for x in tensors:
        if wrapped(x):
            return "under torch.func (vmap, grad)"
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            return f"of a {type(x).__name__}"
        if x.device.type == "meta":
            raise DeviceError(
                "q is on meta, expected a tensor with memory: run the model on a real device to record it"
            )
        if x.is_nested and reader is torch_heads.scaled_dot_product:
            return "of a nested tensor"
        if x.dtype not in FLOATS:
            return f"in {x.dtype}"
    return None


class _Shared:
    """What is changed in torch while somebody records, in whatever thread.

    The fast paths of torch.nn ask torch.overrides.has_torch_function whether anybody overrides functions, and step
    aside if so; other kernels then give other bits. A mode that only looks on is left out of that question.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._theirs: Callable[[Any], bool] | None = None
        self._stance: Any = None

    def open(self) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1 and all(hasattr(overrides, name) for name in ("_pop_mode", "_push_mode")):
                self._theirs = overrides.has_torch_function
                overrides.has_torch_function = self._has_torch_function
        if "torch._dynamo" in sys.modules:  # where it is not, nothing is compiled
            self.without_compiler()

    def without_compiler(self) -> None:
        with self._lock:
            if self._open and self._stance is None and hasattr(torch.compiler, "set_stance"):
                self._stance = torch.compiler.set_stance("force_eager")

    def close(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open:
                return
            if self._theirs is not None:
                overrides.has_torch_function, self._theirs = self._theirs, None
            if self._stance is not None:
                self._stance.__exit__(None, None, None)
                self._stance = None

    def _has_torch_function(self, arguments: Any) -> bool:
        """What it would say without us: ours are taken off the top of the modes, and put back."""
        ask = self._theirs or torch._C._has_torch_function
        ours = []
        try:
            while isinstance(overrides._get_current_function_mode(), Calls):
                ours.append(overrides._pop_mode())
            return bool(ask(arguments))
        finally:
            while ours:
                overrides._push_mode(ours.pop())


_shared = _Shared()
