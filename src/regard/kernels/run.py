"""The function that workers call: the tasks of each phase, taken from shared counters."""

from __future__ import annotations

from regard.kernels import amx
from regard.kernels.plan import JOB, STATE
from regard.kernels.values import Function, Module, Pointer, i64, ptr, select

PATIENCE = 20_000  # looks at a counter while waiting for the others, some tenths of a millisecond


def run(module: Module, phases: list[Function | None], matrix_registers: bool = False) -> None:
    """`run(job, workspace)`: 0 when all is done, 1 to be called again.

    A phase begins when every task of the one before is done. A phase that gives a number can be interrupted inside a
    task, and is the last; the others return between tasks when the budget is spent.
    """
    f = module.function("run", [("job", ptr), ("workspace", ptr)], i64, public=True)
    address, workspace = f.arguments
    shared, state = Pointer(address, i64), Pointer(workspace, i64)
    again = f.variable(f.constant(i64, 0))
    if matrix_registers:
        amx.configure(f)
    for number, phase in enumerate(phases):
        if phase is None:
            continue
        next_task, done, total = JOB[f"next{number}"], JOB[f"done{number}"], shared[JOB[f"total{number}"]]
        resumable = phase.result == i64
        with f.repeat() as leave:
            leave(again.get().differs(0) | shared.load_acquire(JOB["stop"]).differs(0))
            # Only the last phase can be interrupted, so an unfinished task is one of its own.
            task = f.variable(state[STATE["task"]] if resumable else f.constant(i64, -1))
            with f.when(task.get() < 0):
                task.set(shared.fetch_add(next_task, 1))
                if resumable:  # another phase, looked at again, must not make a task that is under way begin anew
                    state[STATE["fresh"]] = 1
            leave(task.get() >= total)
            if resumable:
                again.set(f.call(phase, [address, workspace, task.get()]))
                state[STATE["task"]] = select(again.get().equals(0), f.constant(i64, -1), task.get())
                with f.when(again.get().equals(0)):
                    shared.fetch_add(done, 1)
            else:
                f.call(phase, [address, workspace, task.get()])
                shared.fetch_add(done, 1)
                state[STATE["budget"]] = state[STATE["budget"]] - shared[JOB["task_cost"]]
                again.set((state[STATE["budget"]] <= 0).to(i64, signed=False))
        tries = f.variable(f.constant(i64, 0))
        with f.when(again.get().equals(0)), f.repeat() as leave:
            leave((shared.load_acquire(done) >= total) | shared.load_acquire(JOB["stop"]).differs(0))
            again.set((tries.get() >= PATIENCE).to(i64, signed=False))
            leave(again.get().differs(0))
            tries.set(tries.get() + 1)
    if matrix_registers:
        amx.release(f)
    f.give(again.get())
