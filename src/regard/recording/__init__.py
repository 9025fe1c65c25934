"""Recordings: Q, K and all that their scores need, kept in a folder, so that every weight can be read later.

>>> import numpy as np, regard, tempfile, os
>>> x = np.eye(3, dtype=np.float32)
>>> path = os.path.join(tempfile.mkdtemp(), "run.regard")
>>> with recording(path, tokens=["The", "cat", "sat"]) as recorder:
...     recorder.layer(x[None], x[None], mask=regard.causal)
>>> open(path)[0, 0]["cat"].astype(float).round(2).tolist()
[0.36, 0.64, 0.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from regard.recording.reader import Recording
    from regard.recording.recorder import Recorder


def recording(
    path: str | os.PathLike[str],
    *,
    text: Any = None,
    tokens: Any = None,
    offsets: Any = None,
    special: Any = None,
    model: Any = None,
    dtype: str | None = None,
    values: bool = False,
    notes: Sequence[str] = (),
    sync: bool = True,
) -> Recorder:
    """Write a recording into a new folder: `with regard.recording("run.regard", tokens=…) as recorder:`.

    Inside, `recorder.layer(q, k, …)` takes what `attention` takes. `dtype="bf16"` keeps Q and K rounded, which halves
    float32; `values` keeps V too. `model` is its name, or a dictionary. With `sync` false the system writes when it
    likes, which is enough for what is soon thrown away.

    The end of the `with` finishes it; one that an exception left, or a kill, can be read, and is marked `unfinished`.

    >>> import numpy as np, tempfile
    >>> with recording(tempfile.mkdtemp(), model="by hand") as recorder:
    ...     recorder.layer(np.ones((2, 5, 4)), np.ones((2, 5, 4)), name="first")
    """
    from regard.recording.recorder import Recorder

    return Recorder(
        path,
        text=text,
        tokens=tokens,
        offsets=offsets,
        special=special,
        model=model,
        dtype=dtype,
        values=values,
        notes=notes,
        sync=sync,
    )


def open(path: str | os.PathLike[str]) -> Recording:
    """A recording, opened at once at any size: nothing is read before it is asked for.

    `rec[layer, head]` is the matrix of a head of the first text, `rec.texts[i][layer, head]` of any. `rec.finished` is
    whether it was written to its end.

    >>> import numpy as np, tempfile
    >>> path = tempfile.mkdtemp()
    >>> with recording(path) as recorder:
    ...     recorder.layer(np.ones((2, 5, 4)), np.ones((2, 5, 4)))
    >>> open(path)[0, 1].shape
    (5, 5)
    """
    from regard.recording.reader import Recording

    return Recording(path)
