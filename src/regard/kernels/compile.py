"""LLVM text -> a function that can be called, once per plan and process; and the cache of object code on disk.

The cache belongs to the user alone and is never fatal: an entry that is foreign, altered or unreadable is made again, a
folder that cannot be written is done without.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import llvmlite
import llvmlite.binding as llvm

from regard.errors import RegardError
from regard.kernels.plan import Plan
from regard.kernels.target import Target

Entry = Callable[[Any, int], int]  # run(job, workspace): 0 when all is done, else call again


class Compilable(Protocol):
    """All that the code of a kernel depends on, hashable; `writers` knows who writes one of this kind."""

    @property
    def kind(self) -> str: ...
    @property
    def target(self) -> Target: ...
    @property
    def key(self) -> str: ...  # the text that it is known by on disk


_MAGIC = b"regard object 1\n"
_lock = threading.RLock()
_kernels: dict[Compilable, Entry] = {}
_engines: list[llvm.ExecutionEngine] = []  # code lives as long as its engine


# All work of the compiler is done under the lock, so that a child never begins with the compiler in the middle of
# something: LLVM has locks of its own, which nobody would release there.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def kernel(plan: Compilable) -> Entry:
    """The compiled kernel of a plan."""
    found = _kernels.get(plan)
    if found is None:
        with _lock:
            found = _kernels.get(plan)
            if found is None:
                found = _kernels[plan] = _load(_object(plan), plan.target)
    return found


def _object(plan: Compilable) -> bytes:
    """Object code from disk, or compiled now and put there."""
    explain = os.environ.get("REGARD_EXPLAIN", "")
    if explain not in ("", "plan", "llvm", "asm"):
        raise RegardError(f"REGARD_EXPLAIN is {explain!r}, expected plan, llvm or asm: set one, or unset it")
    if explain == "plan":
        _explain(plan)
    place = _place(plan)
    code = _read(place) if place and explain in ("", "plan") else None
    if code is None:
        from regard.kernels.writers import write  # some 40 ms that a kernel on disk does not need

        code = compiled(str(write(plan)), plan.target, explain, _few_will_do(plan))
        if place:
            _write(place, code)
    return code


def compiled(text: str, target: Target, explain: str = "", few: bool = False) -> bytes:
    """Object code of a module's text, by few of LLVM's passes or by its usual ones."""
    module = llvm.parse_assembly(text)
    module.verify()
    machine = target.machine()
    options = llvm.create_pipeline_tuning_options(speed_level=1)  # 2 takes a fifth longer for the same code
    # The kernels say themselves what is a vector and what is unrolled.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    (_few() if few else passes.getModulePassManager()).run(module, passes)
    if explain == "llvm":
        print(module, file=sys.stderr)
    if explain == "asm":
        print(machine.emit_assembly(module), file=sys.stderr)
    code: bytes = machine.emit_object(module)
    return code


def _few_will_do(plan: Compilable) -> bool:
    """Whether few passes give code as fast, to the measure's noise, in three fifths of the time to compile.

    They do where there are many kernels: one for each set of questions, and for each mask, modifier or bias. Decoding
    would lose a twentieth by it, and a bare forward pass a hundredth.
    """
    if not isinstance(plan, Plan):
        return False
    more = plan.modify is not None or plan.mask is not None or plan.mask_array or bool(plan.bias)
    return plan.kind == "settled" or (plan.kind == "forward" and more)


def _few() -> llvm.ModulePassManager:
    """Memory to registers, simpler instructions, constants, fewer branches, and work moved to where it is needed."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_sccp_pass()
    manager.add_simplify_cfg_pass()
    manager.add_sinking_pass()
    return manager


def _load(code: bytes, target: Target) -> Entry:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target.machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return kind(engine.get_function_address("run"))


def _explain(plan: Compilable) -> None:
    if not isinstance(plan, Plan):
        print(f"plan: {plan.key}", file=sys.stderr)
        return
    print(f"plan: {plan.kind} {plan.storage} d={plan.d} d_v={plan.d_v}", file=sys.stderr)
    print(f"  machine     {plan.target.cpu}, {plan.lanes} lanes, {plan.target.registers} registers", file=sys.stderr)
    print(f"  tile        {plan.target.rows} keys × {plan.vectors} vectors of queries", file=sys.stderr)
    print(f"  blocks      {plan.block} queries × {plan.keys} keys", file=sys.stderr)
    print(f"  reductions  {', '.join(map(str, plan.reductions))}", file=sys.stderr)
    for name, shape in (("modify", plan.modify), ("mask", plan.mask)):
        if shape is not None:
            steps = " ".join(f"{i}:{n.operation}{list(n.operands) or n.detail or ''}" for i, n in enumerate(shape[0]))
            print(f"  {name:<11} {steps}", file=sys.stderr)
    arrays = [
        name for name, on in (("mask", plan.mask_array), (f"bias {plan.bias}", plan.bias), ("sinks", plan.sinks)) if on
    ]
    print(f"  arrays      {', '.join(arrays) or 'none'}", file=sys.stderr)


# The cache on disk.


def folder() -> Path:
    """Where object code is kept: REGARD_CACHE, or `regard` in the user's cache folder."""
    if os.environ.get("REGARD_CACHE"):
        return Path(os.environ["REGARD_CACHE"])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "regard" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


@lru_cache(maxsize=1)
def _version() -> str:
    """A digest of the code that writes kernels, and of the compiler."""
    digest = hashlib.sha256(f"{llvmlite.__version__} {llvm.llvm_version_info} {sys.version_info[:2]}".encode())
    here = Path(__file__).parent
    for source in sorted([*here.glob("*.py"), *(here.parent / "algebra").glob("*.py")]):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def _place(plan: Compilable) -> Path | None:
    """The file of a plan, in a folder that is ours alone; None where there cannot be one."""
    try:
        where = folder()
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            status = where.stat()
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
                return None  # somebody else could have put code there
        name = hashlib.sha256(f"{_version()} {plan.key}".encode()).hexdigest()
        return where / f"{name[:40]}.o"
    except (OSError, RuntimeError):
        return None


def _read(place: Path) -> bytes | None:
    """Object code, if the file is ours and whole."""
    try:
        with open(place, "rb") as file:
            status = os.fstat(file.fileno())
            if hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022):
                return None
            content = file.read()
    except OSError:
        return None
    head = len(_MAGIC) + 32
    code = content[head:]
    # The digest covers the name, which stands for the plan: a file put in another's place is not taken.
    expected = hashlib.sha256(place.name.encode() + code).digest()
    return code if content[:head] == _MAGIC + expected and code else None


def _write(place: Path, code: bytes) -> None:
    """To a temporary name, then renamed: nobody ever sees half a file."""
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(place.name.encode() + code).digest() + code)
        os.replace(temporary, place)
        temporary = None
    except OSError:
        return
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
