"""Where Q and K come from: a small encoder of our own, and the models of others.

>>> import regard.models
>>> regard.models.encoder.Encoder.__name__
'Encoder'
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from regard.models import encoder as encoder


def __getattr__(name: str) -> _typing.Any:
    """`regard.models.encoder` is imported when it is first asked for."""
    if name == "encoder":
        from importlib import import_module

        return import_module("regard.models.encoder")
    raise AttributeError(f"module 'regard.models' has no attribute {name!r}")
