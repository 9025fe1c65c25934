"""What can go wrong, in one tree.

    RegardError
    ├── ShapeError       (ValueError)   axes that do not fit each other
    ├── DtypeError       (TypeError)    a dtype, or a kind of object, that cannot be computed with
    ├── DeviceError      (ValueError)   an array that does not live in this process's memory
    ├── GradientError    (RuntimeError) a tensor that expects a gradient to come back
    ├── TraceError       (TypeError)    Python that cannot be traced into an expression
    ├── TargetError      (RuntimeError) a machine, or a setting of one, that cannot be compiled for
    ├── LimitError       (ValueError)   more cells, or tokens, than there is room for
    ├── TokenError       (LookupError)  a token that is not there, or there more than once
    ├── QuestionError    (TypeError)    a question that this matrix cannot answer
    ├── ModelError       (ValueError)   a folder that is no model, or none that can be computed here
    ├── RecordingError   (ValueError)   a recording that cannot be written, or read: truncated, altered, foreign, newer
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
    """More cells, or tokens, than there is room for."""


class TokenError(RegardError, LookupError):
    """A token that is not there, or there more than once."""


class QuestionError(RegardError, TypeError):
    """A question that this matrix cannot answer."""


class ModelError(RegardError, ValueError):
    """A folder that is no model, or none that can be computed here."""


class RecordingError(RegardError, ValueError):
    """A recording that cannot be written, or read: unfinished, truncated, altered, foreign, newer."""


class MissingError(RegardError, ImportError):
    """A library that is only needed for this, and is not there."""


# Words that messages share.


def counted(n: int, noun: str) -> str:
    """How many of something.

    >>> counted(1, "query"), counted(6, "query"), counted(0, "key")
    ('1 query', '6 queries', '0 keys')
    """
    return f"{n} {noun if n == 1 else noun[:-1] + 'ies' if noun.endswith('y') and noun != 'key' else noun + 's'}"


def there(n: int, noun: str) -> str:
    """That there are so many.

    >>> there(1, "head"), there(2, "head")
    ('there is 1 head', 'there are 2 heads')
    """
    return f"there {'is' if n == 1 else 'are'} {counted(n, noun)}"


def kind_of(given: object) -> str:
    """What kind of object something is.

    >>> kind_of(5), kind_of([])
    ('an int', 'a list')
    """
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def within(n: int) -> str:
    """Which places an axis of n has.

    >>> within(5), within(0)
    ('expected -5 to 4', 'expected none: the axis is empty')
    """
    return f"expected -{n} to {n - 1}" if n else "expected none: the axis is empty"
