"""What cannot be recorded, and that nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn.functional import scaled_dot_product_attention as sdpa

import regard
from regard.errors import DeviceError
from regard.models.torch import SEEN, RecordingWarning
from tests.recording.torch_taken import (
    HAS_TORCH_FUNCTION,
    NESTED,
    Block,
    Taken,
    nothing_is_left,
    qkv,
    same,
)

pytestmark = pytest.mark.usefixtures("torch_alone")


def ragged(q: torch.Tensor) -> torch.Tensor:
    """(2, heads, n of each, d) as torch's jagged tensors."""
    parts = [q[0].transpose(0, 1), q[1, :, :3].transpose(0, 1)]  # (n, heads, d)
    return torch.nested.nested_tensor([x.contiguous() for x in parts], layout=torch.jagged).transpose(1, 2)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            lambda q: torch.vmap(lambda x: sdpa(x, x, x))(q),
            r"^attention under torch\.func \(vmap, grad\) was not recorded",
        ),
        (lambda q: torch.func.grad(lambda x: sdpa(x, x, x).sum())(q), r"^attention under torch\.func"),
        (
            lambda q: torch.jit.trace(lambda x: sdpa(x, x, x), q, check_trace=False)(q),
            r"^attention under torch\.jit\.trace was not",
        ),
        (
            lambda q: sdpa(*[torch.nested.nested_tensor([q[0], q[1, :, :3]])] * 3),
            r"^attention of a nested tensor was not recorded",
        ),
        (lambda q: sdpa(*[ragged(q)] * 3), r"^attention of a NestedTensor was not recorded, expected plain tensors"),
    ],
    ids=["vmap", "grad", "jit", "strided", "jagged"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", NESTED)
def test_what_cannot_be_seen_runs_all_the_same(run: Callable[[torch.Tensor], Any], said: str) -> None:
    q = torch.randn(2, 4, 6, 8)
    plain = run(q)
    with Taken() as taken:
        with pytest.warns(RecordingWarning, match=said):
            seen = run(q)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RecordingWarning)
            run(q)  # said once
    if isinstance(plain, torch.Tensor) and not plain.is_nested:
        assert same(plain, seen)
    assert taken.texts == [{}]


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
@pytest.mark.parametrize("whole", [False, True])
def test_a_compiled_model_runs_as_it_was_before(whole: bool) -> None:
    model = nn.Sequential(Block()).eval()
    x = torch.randn(2, 6, 16)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=whole)
    function = torch.compile(lambda y: model(y), backend="aot_eager", fullgraph=whole)
    with torch.no_grad():
        plain = model(x)
        before = compiled(x), function(x)
        graphs = counters["stats"]["unique_graphs"]
        said = r"^a compiled model, into which nobody can see, runs without torch\.compile while it is recorded$"
        with pytest.warns(RecordingWarning, match=said), Taken() as taken:
            assert same(compiled(x), plain)
        assert [list(x) for x in taken.texts] == [["0"]]
        with Taken() as taken:
            assert same(function(x), plain)
        assert [list(x) for x in taken.texts] == [["0"]]
        assert same((compiled(x), function(x)), before)
        assert counters["stats"]["unique_graphs"] == graphs  # nor was anything compiled anew


def test_arguments_that_are_new_to_us_do_not_break_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def strange(*_: Any, **__: Any) -> Any:
        raise TypeError("an argument of next year")

    monkeypatch.setitem(SEEN, sdpa, (strange, None))
    q, k, v = qkv(2, 4, 6, 8)
    with pytest.warns(RecordingWarning, match=r"could not be read \(an argument of next year\): tell us"), Taken():
        seen = sdpa(q, k, v)
    assert same(seen, sdpa(q, k, v))


def test_a_recording_of_models_without_attention_says_so(tmp_path: Path) -> None:
    with (
        pytest.warns(RecordingWarning, match=r"^models ran and none of them called scaled_dot_product_attention"),
        regard.recording(tmp_path / "run.regard"),
    ):
        nn.Linear(3, 3)(torch.ones(3))
    with regard.recording(tmp_path / "other.regard") as recorder:
        nn.Linear(3, 3)(torch.ones(3))
        recorder.layer(torch.ones(2, 5, 4), torch.ones(2, 5, 4))  # by hand, so nothing is missing


def test_meta_tensors_are_refused() -> None:
    q = torch.randn(2, 4, 6, 8, device="meta")
    with Taken(), pytest.raises(DeviceError, match=r"^q is on meta, expected a tensor with memory: "):
        sdpa(q, q, q)


def test_nothing_is_left_after_errors() -> None:
    block = Block()

    class Breaking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: torch.Tensor) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Taken():
        Breaking()(torch.randn(1, 5, 16))
    nothing_is_left()
    with Taken() as taken:
        with pytest.raises(ZeroDivisionError):
            Breaking()(torch.randn(1, 5, 16))
        with pytest.raises(RuntimeError):
            block(torch.randn(1, 5, 3))
        with pytest.raises(RuntimeError):
            sdpa(torch.randn(1, 5, 4), torch.randn(1, 5, 3), torch.randn(1, 5, 4))
        block(torch.randn(1, 5, 16))
    assert len(taken.names) == 1
    nothing_is_left()

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space")

    taken = Taken()
    taken._layers.record = full
    with pytest.raises(OSError, match="no space"), taken:
        block(torch.randn(1, 5, 16))
    nothing_is_left()


def test_two_at_once_both_see_and_other_threads_are_left_alone() -> None:
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    x = torch.randn(2, 6, 16)
    found: list[torch.Tensor] = []
    with torch.no_grad():
        plain = model(x)

    def elsewhere() -> None:
        with torch.no_grad():
            found.append(model(x))

    with torch.no_grad(), Taken() as outer:
        with Taken() as inner:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            assert same(model(x), plain)
        assert torch.overrides.has_torch_function is not HAS_TORCH_FUNCTION
        assert same(model(x), plain)
    assert same(found[0], plain)
    assert [len(x) for x in outer.texts] == [1, 1]
    assert [len(x) for x in inner.texts] == [1]


def test_a_mode_entered_again() -> None:
    taken = Taken()
    block = Block()
    for _ in range(2):
        with taken:
            block(torch.randn(1, 5, 16))
    assert len(taken.texts) == 2


def test_without_torch_the_line_that_installs_it_is_said() -> None:
    text = """
import sys
sys.modules["torch"] = None
from regard.errors import MissingError
try:
    import regard.models.torch
except MissingError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "models of torch need torch, which is not there: pip install torch\n"
