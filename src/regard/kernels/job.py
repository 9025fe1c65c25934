"""The arguments of a kernel as it reads them: by name, from the words of a job."""

from __future__ import annotations

from collections.abc import Mapping

from regard.kernels.plan import JOB
from regard.kernels.values import Pointer, Type, Value, i64, ptr


class Job:
    """The arguments of a kernel, read by name."""

    def __init__(self, address: Value, places: Mapping[str, int] = JOB):
        self.words, self.places = Pointer(address, i64), places

    def __getattr__(self, name: str) -> Value:
        return self.words[self.places[name]]

    def pointer(self, name: str, element: Type) -> Pointer:
        return Pointer(self.words[self.places[name]].to(ptr), element)

    def head(self, name: str, element: Type, instance: Value) -> Pointer:
        """Where an array's head begins; `instance` is leading index · heads + head."""
        offset = self.pointer(f"{name}_at", i64)[instance]
        return self.pointer(name, element).bytes(offset)
