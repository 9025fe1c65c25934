"""Imports follow the arrows of the design, `import regard` stays light, and each check can fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard
from tests.system.scripts import run

HOUSE = Path(regard.__file__).parent
CORE = ("numpy", "llvmlite", "ml_dtypes")

# What a part may import of ours: arrays -> problem -> plan -> kernel -> result. Other parts are free, but for NEVER.
MAY = {
    "errors": (),
    "reference": (),
    "algebra": ("errors", "algebra"),
    "kernels": ("errors", "algebra", "problem", "terms", "kernels"),
    "terms": ("errors", "algebra", "problem"),
    "problem": ("errors", "algebra"),
    "results": ("problem",),
    "indexing": ("errors", "results"),
    "folding": ("errors", "algebra", "problem", "results"),
    "weights": ("errors", "algebra", "kernels", "problem", "terms", "results", "folding"),
    "lens": ("errors", "algebra", "kernels", "problem", "results", "indexing", "weights", "lens"),
    "matrix": (
        *("errors", "algebra", "problem", "terms", "results", "indexing", "weights", "lens"),
        *("pooling", "pools", "view"),
    ),
    "view": (
        *("errors", "algebra", "problem", "results", "indexing", "weights", "lens", "matrix", "pooled", "view"),
        *("machine", "tally", "steps"),
    ),
    "view.server": (
        *("errors", "problem", "results", "weights", "lens", "matrix", "view"),
        "circuits",  # heads by hand are shown there
    ),
    "steps": ("errors", "reference"),
    "trace": ("errors", "algebra", "problem", "terms", "reference", "steps", "matrix", "view"),
    "machine": ("errors", "kernels"),
    "tally": ("errors", "kernels", "machine", "view"),
    "cost": ("errors", "algebra", "kernels", "problem", "machine", "tally", "attention"),
    "models": ("errors", "algebra", "kernels", "problem", "attention", "models"),
    "recording": (
        *("errors", "algebra", "problem", "terms", "results", "folding", "weights", "pools", "matrix", "models"),
        "recording",
    ),
}
NEVER = {  # who alone may import it
    "attention": ("__init__", "cost", "circuits", "models"),
    "matrix": ("__init__", "pooled", "pools", "view", "recording", "cli", "circuits", "trace"),
    "recording": ("__init__", "commands", "cli"),
    "cli": ("__init__", "__main__"),
    "commands": ("cli",),
}


def imported(name: str, text: str) -> Iterator[str]:
    """The modules that a module named `name` imports, wherever in it, with their full names."""
    package = name.removesuffix(".__init__") if name.endswith(".__init__") else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            # `from regard import kernels` imports a module; `from regard.errors import ShapeError` names no more.
            yield from (f"{source}.{alias.name}" for alias in node.names)


def part_of(name: str) -> str:
    """The part that a module belongs to: the server has rules of its own among what is shown."""
    return "view.server" if name.startswith("regard.view.server.") else name.split(".")[1]


def broken(name: str, text: str) -> list[str]:
    """The imports of a module that go against the arrows."""
    part, whole = part_of(name), name.split(".")[1]
    found = []
    for target in imported(name, text):
        ours = target.split(".")
        if ours[0] != "regard":
            continue
        other = ours[1] if len(ours) > 1 else "__init__"
        outside = part in MAY and other not in MAY[part]
        closed = other in NEVER and whole not in (other, *NEVER[other])
        # The package itself imports everything, so whoever imports it imports everything.
        if outside or closed or other == "__init__":
            found.append(f"{name} imports {target}")
    return found


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(HOUSE.rglob("*.py")):
        yield ".".join(["regard", *path.relative_to(HOUSE).with_suffix("").parts]), path.read_text()


def test_imports_follow_the_arrows() -> None:
    assert [line for name, text in modules() for line in broken(name, text)] == []


def test_every_part_of_the_rules_exists() -> None:
    parts = {part_of(name) for name, _ in modules()}
    assert parts >= {*MAY, "attention"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("regard.reference", "from regard.errors import ShapeError"),
        ("regard.errors", "import regard.algebra.masks"),
        ("regard.algebra.masks", "from regard.kernels import lower"),
        ("regard.algebra.masks", "from regard import kernels"),
        ("regard.algebra.masks", "from ..kernels import lower"),
        ("regard.algebra.masks", "from ..kernels.lower import Lanes"),
        ("regard.algebra.__init__", "from ..kernels import lower"),
        ("regard.algebra.masks", "def late():\n    from .. import problem"),
        ("regard.kernels.plan", "from regard.attention import attention"),
        ("regard.kernels.plan", "import regard.lens.questions"),
        ("regard.kernels.plan", "if TYPE_CHECKING:\n    from regard.attention import attention"),
        ("regard.problem", "from regard.kernels.plan import Plan"),
        ("regard.matrix", "from regard.attention import attention"),
        ("regard.matrix", "from regard.kernels.launch import launch"),
        ("regard.results", "from regard.errors import ShapeError"),
        ("regard.indexing", "from regard.weights import Weights"),
        ("regard.weights", "from regard.lens import Entropy"),
        ("regard.weights", "from regard.matrix import matrix"),
        ("regard.kernels.launch", "from regard.weights import Weights"),
        ("regard.lens.rows", "from regard.matrix import AttentionMatrix"),
        ("regard.lens.rows", "if TYPE_CHECKING:\n    from regard.matrix import AttentionMatrix"),
        ("regard.lens.rows", "from ..view import terminal"),
        ("regard.view.grid", "from regard.kernels.launch import cells"),
        ("regard.words", "from regard.matrix import matrix"),
        ("regard.lens.questions", "from regard import attention"),
        ("regard.lens.questions", "import regard.cli"),
        ("regard.circuits.by_hand", "from regard.cli import main"),
        ("regard.view.look", "def late():\n    from regard.commands.shared import Bar"),
        ("regard.commands.look", "from regard.cli import main"),
        ("regard.__main__", "from regard.commands import look"),
        ("regard.machine", "from regard.cost import cost"),
        ("regard.kernels.plan", "from regard.cost import cost"),
        ("regard.steps", "from regard.matrix import matrix"),
        ("regard.trace", "from regard.kernels.launch import launch"),
        ("regard.view.walk", "from regard.trace import Trace"),
        ("regard.lens.questions", "import regard"),
        ("regard.models.encoder", "from regard.recording import recording"),
        ("regard.kernels.chain", "from regard.models.encoder import Encoder"),
        ("regard.models.encoder", "from regard.recording.recorder import Recorder"),
        ("regard.models.encoder", "from regard.matrix import matrix"),
        ("regard.recording.reader", "from regard.lens.ask import Progress"),
        ("regard.recording.reader", "from regard.attention import attention"),
        ("regard.matrix", "from regard.recording.reader import Recording"),
        ("regard.view.grid", "from regard.recording import open"),
        ("regard.view.grid", "from regard.commands.look import look"),
        ("regard.view.grid", "from regard.circuits.heads import local"),
        ("regard.view.server.app", "from regard.recording import open"),
        ("regard.view.server.tiles", "from regard.kernels.launch import reduce"),
    ],
)
def test_the_rules_can_be_broken(name: str, text: str) -> None:
    assert len(broken(name, text)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("regard.kernels.lower", "from regard.algebra.bounds import Rules"),
        ("regard.kernels.lower", "from .values import Value"),
        ("regard.kernels.lower", "from . import values"),
        ("regard.algebra.__init__", "from .masks import causal"),
        ("regard.__init__", "from regard.attention import attention"),
        ("regard.attention", "from regard.kernels import threads"),
        ("regard.reference", "import numpy as regardless"),
        ("regard.lens.ask", "from regard.weights import Weights"),
        ("regard.lens.ask", "from regard.kernels.launch import launch"),
        ("regard.lens.ask", "from .rows import Top"),
        ("regard.matrix", "from regard.weights import Weights"),
        ("regard.__init__", "from regard.matrix import matrix"),
        ("regard.circuits.by_hand", "from regard.matrix import matrix"),
        ("regard.cost", "from regard.attention import attention"),
        ("regard.trace", "from regard.matrix import matrix"),
        ("regard.view.walk", "from regard.steps import Given"),
        ("regard.models.encoder", "from regard.attention import repeated"),
        ("regard.cli", "from regard.commands import look"),
        ("regard.commands.look", "from regard.commands.shared import Bar"),
        ("regard.commands.read", "from regard.recording import open as opened"),
        ("regard.models.encoder", "from regard.attention import attention"),
        ("regard.recording.recorder", "from regard.models.torch import Calls"),
        ("regard.__init__", "from regard.recording import recording"),
        ("regard.view.server.texts", "from regard.circuits.by_hand import attend"),
        ("regard.commands.view", "from regard.view.server.serving import Serving"),
    ],
)
def test_the_rules_allow_what_they_should(name: str, text: str) -> None:
    assert broken(name, text) == []


def torch_imports(name: str, text: str) -> list[str]:
    """Imports of torch where it may not be there, and of what imports it at once where the caller may not have it."""
    part = ".".join(name.split(".")[1:])
    found = []
    for target in imported(name, text):
        theirs = target.split(".")[0] == "torch" and not part.startswith("models.torch")
        ours = target.startswith("regard.models.torch") and not part.startswith(("models.torch", "recording."))
        if theirs or ours:
            found.append(f"{name} imports {target}")
    return found


def test_only_what_reads_torch_models_imports_torch() -> None:
    assert [line for name, text in modules() for line in torch_imports(name, text)] == []


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("regard.problem", "import torch", 1),
        ("regard.view.grid", "def late():\n    from torch import nn", 1),
        ("regard.models.encoder", "from regard.models.torch import Calls", 1),
        ("regard.cli", "from regard.models import torch", 1),
        ("regard.models.torch", "import torch\nfrom torch import nn", 0),
        ("regard.models.torch_layers", "from regard.models.torch_masks import Seen", 0),
        ("regard.recording.recorder", "def late():\n    from regard.models.torch import Calls", 0),
    ],
)
def test_that_rule_can_be_broken(name: str, text: str, count: int) -> None:
    assert len(torch_imports(name, text)) == count


def test_recording_does_not_import_torch_by_itself(tmp_path: Path) -> None:
    run(f"""
import regard.models
import regard.recording
q, k, v = inputs()
with regard.recording({str(tmp_path / "run.regard")!r}) as recorder:
    recorder.layer(q, k)
    assert "torch" not in sys.modules and "regard.models.torch" not in sys.modules
with regard.recording({str(tmp_path / "other.regard")!r}) as recorder:
    import torch  # too late for this recording, and no harm
    torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, inputs()))
assert not regard.open({str(tmp_path / "other.regard")!r}).layers
assert "regard.models.torch" not in sys.modules
""")


LISTENING = ("regard.view.server.app", "regard.view.server.serving")  # what needs Starlette and uvicorn


def listening_imports(name: str, text: str) -> list[str]:
    """Imports of the server's libraries outside of what listens, and of what listens but by a command."""
    inside = name in LISTENING
    found = []
    for target in imported(name, text):
        theirs = target.split(".")[0] in ("starlette", "uvicorn", "anyio") and not inside
        ours = target.startswith(LISTENING) and not inside and not name.startswith("regard.commands.")
        if theirs or ours:
            found.append(f"{name} imports {target}")
    return found


def test_only_commands_listen() -> None:
    assert [line for name, text in modules() for line in listening_imports(name, text)] == []


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("regard.view.questions", "from regard.view.server.app import App", 1),
        ("regard.view.server.tiles", "def late():\n    import starlette", 1),
        ("regard.view.grid", "from uvicorn import Server", 1),
        ("regard.commands.view", "from regard.view.server.serving import Serving", 0),
        ("regard.view.server.app", "from starlette.routing import Router", 0),
    ],
)
def test_that_this_rule_can_be_broken(name: str, text: str, count: int) -> None:
    assert len(listening_imports(name, text)) == count


def test_questions_of_the_page_need_no_server() -> None:
    run("""
import regard.view.server.answers, regard.view.server.overviews, regard.view.server.numbers, regard.view.server.texts
assert not {"starlette", "uvicorn", "anyio", "httpx"} & set(sys.modules)
""")


LOADED = """
import sys
before = set(sys.modules)
{first}
import regard
parts = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(*sorted(parts - set(sys.stdlib_module_names) - {{"regard"}}))
"""


def loaded(first: str = "") -> set[str]:
    """What a fresh interpreter has loaded after `import regard`, but for the standard library."""
    return set(run(LOADED.format(first=first), prelude="").stdout.split())


def test_import_loads_the_core_and_nothing_else() -> None:
    # NumPy and llvmlite bring parts of their own under their own names only.
    assert loaded() == set(CORE)


def test_the_command_line_loads_what_a_command_needs_when_it_runs() -> None:
    run("""
import regard.cli
try:
    regard.cli.main(["--help"])
except SystemExit as left:
    assert left.code == 0
late = {"safetensors", "tokenizers", "torch", "array_api_compat", "matplotlib", "networkx", "transformers"}
late |= {f"regard.{name}" for name in ("circuits", "models", "recording.reader", "view.terminal", "lens.patterns")}
assert not late & set(sys.modules), late & set(sys.modules)
""")


def test_that_the_check_can_fail(tmp_path: Path) -> None:
    (tmp_path / "safetensors.py").touch()
    assert loaded(f"sys.path.insert(0, {str(tmp_path)!r}); import safetensors") == {*CORE, "safetensors"}


def test_torch_is_found_only_where_the_caller_has_imported_it() -> None:
    run("""
assert right()
try:
    regard.attention([[1.0]], [[1.0]], [[1.0]])
except regard.RegardError:
    pass
optional = {"torch", "jax", "safetensors", "array_api_compat", "onnxruntime", "openvino", "starlette", "uvicorn"}
assert not optional & set(sys.modules), optional & set(sys.modules)
""")


def test_a_matrix_is_read_without_the_libraries_that_questions_need() -> None:
    """Plain forms run on any array library, and what makes that so is loaded when the first question is asked."""
    run("""
x = np.ones((1, 6, 4), np.float32)
A = regard.matrix(x, x, mask=regard.causal, tokens="a b c d e f".split())
assert A[0, "d", "a"] == A[0, 3, 0]
A[0, ::-1], A.T[..., 2], A.scores[0], A.lse, A.build(), A.without(1), repr(A), A.output(x)
optional = {"torch", "array_api_compat", "matplotlib", "transformers"}
assert not optional & set(sys.modules), optional & set(sys.modules)
A.ask(regard.lens.Entropy(), regard.lens.Top(2))
assert not {"torch", "matplotlib"} & set(sys.modules)
""")


def test_torch_imported_after_regard_is_found() -> None:
    run("""
before = digest()
import torch
z = regard.attention(*map(torch.from_numpy, inputs()))
assert type(z) is torch.Tensor
assert hashlib.sha256(z.numpy().tobytes()).hexdigest() == before
""")


def test_a_module_called_torch_that_is_none_does_no_harm() -> None:
    # A failed or half-finished import of torch leaves such things in sys.modules.
    run("""
import types
sys.modules["torch"] = types.ModuleType("torch")
assert right()
sys.modules["torch"] = None
assert right()
try:
    regard.attention([[1.0]], [[1.0]], [[1.0]])
except regard.RegardError as error:
    assert str(error) == "q is a list, expected an array: pass numpy.asarray(q)"
""")
