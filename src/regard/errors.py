"""What can go wrong, in one tree.

    RegardError
    ├── ShapeError       (ValueError)   axes that do not fit each other
    ├── DtypeError       (TypeError)    a dtype, or a kind of object, that cannot be computed with
    ├── DeviceError      (ValueError)   an array that does not live in this process's memory
    ├── GradientError    (RuntimeError) a tensor that expects a gradient to come back
    ├── TraceError       (TypeError)    Python that cannot be traced into an expression
    ├── TargetError      (RuntimeError) a machine, or a setting of one, that cannot be compiled for
    ├── LimitError       (ValueError)   more cells than were meant to be built
    ├── TokenError       (LookupError)  a token that is not there, or there more than once
    ├── QuestionError    (TypeError)    a question that this matrix cannot answer
    └── MissingError     (ImportError)  a library that is only needed for this, and is not there

Every message is one sentence: what came, what was expected, what to do.
"""


class RegardError(Exception):
    """The root of the tree: `except regard.RegardError` catches everything raised on purpose."""


class ShapeError(RegardError, ValueError):
    """Axes that do not fit each other."""


class DtypeError(RegardError, TypeError):
    """A dtype, or a kind of object, that cannot be computed with."""


class DeviceError(RegardError, ValueError):
    """An array that does not live in this process's memory."""


class GradientError(RegardError, RuntimeError):
    """A tensor that expects a gradient to come back."""


class TraceError(RegardError, TypeError):
    """Python that cannot be traced into an expression."""


class TargetError(RegardError, RuntimeError):
    """A machine, or a setting of one, that cannot be compiled for."""


class LimitError(RegardError, ValueError):
    """More cells than were meant to be built."""


class TokenError(RegardError, LookupError):
    """A token that is not there, or there more than once."""


class QuestionError(RegardError, TypeError):
    """A question that this matrix cannot answer."""


class MissingError(RegardError, ImportError):
    """A library that is only needed for this, and is not there."""
