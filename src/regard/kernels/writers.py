"""Who writes the kernel of a plan. All of that is loaded when a kernel has to be written: most are on disk.

>>> sorted(WRITERS)
['decode', 'forward', 'rows', 'settled', 'thin columns', 'thin rows']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.kernels.compile import Compilable
from regard.kernels.decode import decode
from regard.kernels.forward import forward
from regard.kernels.rows import rows
from regard.kernels.settled import settled
from regard.kernels.thin import thin
from regard.kernels.values import Module

WRITERS: dict[str, Callable[[Any], Module]] = {
    "forward": forward,
    "decode": decode,
    "rows": rows,
    "settled": settled,
    "thin rows": thin,
    "thin columns": thin,
}


def write(plan: Compilable) -> Module:
    """The module of a plan."""
    return WRITERS[plan.kind](plan)
