"""trace(): attention step by step, with every number kept, to be read, drawn and walked back.

>>> x = [[1.0, 2.0, 3.0], [0.5, 1.0, 1.5], [2.0, 1.0, 0.5]]
>>> w_q = [[0.6, -0.2], [0.1, 0.5], [-0.3, 0.4]]
>>> w_k = [[0.2, 0.3], [-0.4, 0.7], [0.5, -0.1]]
>>> w_v = [[0.9, 0.1], [0.2, 0.8], [-0.1, 0.6]]
>>> t = trace(x, w_q, w_k, w_v, tokens=["dog", "ate", "dinner"])
>>> t.scores[0].round(3).tolist(), t.weights[0].round(3).tolist(), t.output[0].round(3).tolist()
([2.71, 1.355, 2.475], [0.448, 0.172, 0.38], [1.275, 2.364])
>>> t.steps[3]
scores: S = Q·Kᵀ, shape (3, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from regard import reference
from regard.algebra.derivative import derivative
from regard.algebra.evaluate import evaluate
from regard.algebra.expression import Expression, substitute
from regard.algebra.masks import Mask
from regard.algebra.tracing import as_array
from regard.algebra.tracing import trace as traced
from regard.errors import DtypeError, LimitError, ShapeError
from regard.matrix import AttentionMatrix, matrix
from regard.problem import DTYPES
from regard.reference import Array
from regard.steps import Cells, Given, Step, Steps, backward, forward, gradient_shape, log_sums
from regard.terms import Modify

LIMIT = 1 << 22  # weights: a few arrays of so many float64 are some 200 MB


def trace(
    x: Any = None,
    w_q: Any = None,
    w_k: Any = None,
    w_v: Any = None,
    *,
    q: Any = None,
    k: Any = None,
    v: Any = None,
    context: Any = None,
    mask: Any = None,
    heads: int = 1,
    w_o: Any = None,
    b_q: Any = None,
    b_k: Any = None,
    b_v: Any = None,
    b_o: Any = None,
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    scale: float | None = None,
    modify: Modify = None,
    bias: Any = None,
    sinks: Any = None,
) -> Trace:
    """Attention step by step: projections, scores, scaling, softmax, output, each with its equation and its value.

    `x` is (…, n, d_model), one row for each token, and `w_q`, `w_k`, `w_v` are (d_model, heads · d); keys and values
    come from `context` where that is given. Several heads are split, attend, are put side by side and go through
    `w_o`; narrower `w_k` and `w_v` mean that heads share keys. Or start from projections: trace(q=…, k=…, v=…). Masks,
    `scale`, `modify`, `bias` and `sinks` are those of `attention`. Everything is computed in float64 by the equations
    of `regard.reference`.

    >>> import numpy as np
    >>> from regard import causal
    >>> t = trace(q=np.eye(3), k=8 * np.eye(3), v=np.eye(3), mask=causal, tokens=["The", "cat", "sat"])
    >>> t.weights.round(3).tolist()
    [[1.0, 0.0, 0.0], [0.01, 0.99, 0.0], [0.01, 0.01, 0.981]]
    >>> float(t.grad(np.eye(3)).d_scores[1, 1].round(4))
    0.0056
    """
    arrays = {"x": x, "w_q": w_q, "w_k": w_k, "w_v": w_v, "context": context, "b_q": b_q, "b_k": b_k, "b_v": b_v}
    started = {"q": q, "k": k, "v": v}
    _check_start(arrays, started)
    known = {name: _numbers(name, given) for name, given in {**arrays, "w_o": w_o, "b_o": b_o}.items()}
    if x is None:
        split = [_numbers(name, given) for name, given in started.items()]
        _check_heads_of(split[0], heads)
    else:
        split = _projected(known, heads)
    ours, theirs, values = (np.zeros(0) if array is None else array for array in split)
    _check_size(ours, theirs)
    bias, mask = _numbers("bias", bias), _mask_given(mask)
    made = matrix(
        ours, theirs, v=values, scale=scale, modify=modify, bias=bias, mask=mask, sinks=sinks,
        tokens=tokens, key_tokens=key_tokens,
    )  # fmt: skip
    if context is not None and key_tokens is None:  # as many keys as queries, and yet other tokens
        made = AttentionMatrix(made.weights, made.like, made.v, made.tokens, None)
    what = made.weights.terms
    changed, slope = _modifier(modify)
    given = Given(
        ours, theirs, values, None if scale is None else what.scale, changed, slope,
        bias, _visible(mask, made), None if what.sinks is None else np.asarray(what.sinks, np.float64), **known,
    )  # fmt: skip
    _check_output(given)
    made.weights.give_lse(log_sums(given))  # it is at hand, and so nothing is compiled for a walk
    return Trace(given, forward(given), made)


# What is given, checked.


def _check_start(arrays: dict[str, Any], started: dict[str, Any]) -> None:
    """That a trace starts from x and its projections, or from q, k and v."""
    ours = [name for name, given in arrays.items() if given is not None]
    theirs = [name for name, given in started.items() if given is not None]
    missing = [name for name in ("x", "w_q", "w_k", "w_v") if arrays[name] is None]
    if theirs and ours:
        raise DtypeError(
            f"trace got {', '.join(ours)} beside {', '.join(theirs)}, expected one start: "
            "pass x, w_q, w_k and w_v, or q, k and v"
        )
    if not theirs and missing:
        raise DtypeError(
            f"trace got no {' and no '.join(missing)}, expected x, w_q, w_k and w_v: "
            "pass them, or start from projections with trace(q=…, k=…, v=…)"
        )
    if theirs and len(theirs) < 3:
        missing = [name for name in started if name not in theirs]
        raise DtypeError(f"trace got no {' and no '.join(missing)}, expected q, k and v: pass all three")


def _numbers(name: str, given: Any) -> Array | None:
    """Anything that holds numbers, as float64."""
    if given is None:
        return None
    try:
        known = as_array(given)
        array = np.asarray(given) if known is None else known
    except (ValueError, BufferError, RuntimeError) as error:
        raise DtypeError(f"{name} cannot be read as numbers ({error}): pass an array") from error
    if array.dtype.kind not in "iuf" and array.dtype not in DTYPES.values():
        raise DtypeError(f"{name} has dtype {array.dtype}, expected numbers: convert it to float64")
    if array.dtype == np.bool_:
        what = ": pass a boolean array as mask" if name == "bias" else ": convert it"
        raise DtypeError(f"{name} has dtype bool, expected numbers{what}")
    return np.array(array, np.float64)  # a copy: a trace keeps its numbers whatever happens to the caller's


def _mask_given(mask: Any) -> Any:
    """A mask, or a boolean array of any library as NumPy's."""
    if mask is None or isinstance(mask, (Mask, bool, int, float, str)) or callable(mask):
        return mask
    known = as_array(mask)
    return np.asarray(mask) if known is None else known


def _projected(known: dict[str, Array | None], heads: Any) -> list[Array | None]:
    """Q, K and V: x and context through their projections, cut into heads."""
    if isinstance(heads, bool) or not isinstance(heads, (int, np.integer)) or heads < 1:
        raise ShapeError(f"heads is {heads!r}, expected a whole number from 1: leave it out for one head")
    x, context = known["x"], known["context"]
    assert x is not None
    for name, given in (("x", x), ("context", context)):
        if given is not None and given.ndim < 2:
            raise ShapeError(f"{name} has shape {given.shape}, expected (…, n, d_model): one row for each token")
    source, of = (x, "x") if context is None else (context, "context")
    flat = [_through(known, "q", x, "x"), _through(known, "k", source, of), _through(known, "v", source, of)]
    if flat[0].shape[-1] % heads:
        raise ShapeError(
            f"w_q has {flat[0].shape[-1]} columns, expected a multiple of heads = {heads}: each head takes as many"
        )
    d = flat[0].shape[-1] // heads
    if not d or flat[1].shape[-1] % d or not flat[1].shape[-1]:
        raise ShapeError(
            f"w_k has {flat[1].shape[-1]} columns, expected a multiple of d = {d}, the width of a query: "
            "keys are as wide as queries"
        )
    shared = flat[1].shape[-1] // d
    if heads % shared:
        raise ShapeError(
            f"w_k makes {shared} key heads of width {d}, expected a number that divides heads = {heads}: "
            "each key head serves as many query heads"
        )
    if flat[2].shape[-1] % shared:
        raise ShapeError(
            f"w_v has {flat[2].shape[-1]} columns, expected a multiple of {shared}, the number of key heads: "
            "each key head has one value head"
        )
    if heads == 1 and x.ndim == 2 and source.ndim == 2:
        return list(flat)  # (n, d): one head without an axis for it
    return [reference.split_heads(y, h) for y, h in zip(flat, (heads, shared, shared), strict=True)]


def _through(known: dict[str, Array | None], letter: str, x: Array, of: str) -> Array:
    """One projection."""
    w, b = known[f"w_{letter}"], known[f"b_{letter}"]
    assert w is not None
    if w.ndim != 2 or w.shape[0] != x.shape[-1]:
        raise ShapeError(
            f"w_{letter} has shape {w.shape}, expected ({x.shape[-1]}, columns): a row for each column of {of}"
        )
    if b is not None and b.shape != (w.shape[1],):
        raise ShapeError(
            f"b_{letter} has shape {b.shape}, expected ({w.shape[1]},): a number for each column of w_{letter}"
        )
    with np.errstate(all="ignore"):  # behind a mask there may be anything
        return reference.project(x, w, b)


def _check_heads_of(q: Array | None, heads: int) -> None:
    if q is not None and heads not in (1, q.shape[-3] if q.ndim > 2 else 1):
        raise ShapeError(
            f"heads is {heads}, but q has shape {q.shape}, expected (…, heads, n, d): "
            "leave heads out, for q, k and v have their axis of heads"
        )


def _check_size(q: Array, k: Array) -> None:
    if q.ndim >= 2 and k.ndim >= 2:
        cells = int(np.prod(q.shape[:-1], dtype=object)) * k.shape[-2]
        if cells > LIMIT:
            raise LimitError(
                f"this trace would keep {cells} weights at every step, expected at most {LIMIT}: "
                "use regard.matrix(q, k), which builds none of them"
            )


def _check_output(g: Given) -> None:
    if g.w_o is None:
        if g.b_o is not None:
            raise ShapeError("b_o came without w_o, expected both: pass the output projection that it belongs to")
        return
    width = g.v.shape[-1] * (1 if g.single else g.q.shape[-3])
    if g.w_o.ndim != 2 or g.w_o.shape[0] != width:
        raise ShapeError(
            f"w_o has shape {g.w_o.shape}, expected ({width}, columns): a row for each column of the merged heads"
        )
    if g.b_o is not None and g.b_o.shape != (g.w_o.shape[1],):
        raise ShapeError(f"b_o has shape {g.b_o.shape}, expected ({g.w_o.shape[1]},): a number for each column of w_o")


def _visible(mask: Any, made: AttentionMatrix) -> np.ndarray[Any, Any] | None:
    """Which cells a mask shows, (…, heads, n, m) or (n, m)."""
    if mask is None:
        return None
    of = made.weights.of
    if not isinstance(mask, Mask):
        return np.broadcast_to(mask, made.shape)
    q, k = reference.positions(of.n_q, of.n_k)
    b, h = np.arange(of.batch)[:, None, None, None], np.arange(of.heads)[:, None, None]
    row = np.arange(of.n_q)
    seen = evaluate(mask.condition, b=b, h=h, row=row[:, None], q=q[:, None], k=k)
    return np.broadcast_to(seen, (of.batch, of.heads, of.n_q, of.n_k)).reshape(made.shape)  # (B, H, n, m) -> theirs


def _modifier(modify: Modify) -> tuple[Cells | None, Cells | None]:
    """What is done to scaled scores, and its slope, as functions on arrays."""
    if modify is None:
        return None, None
    tree: Expression | None = None
    for function in [modify] if callable(modify) else modify:
        one = traced(function, "score b h q k")
        tree = one if tree is None else substitute(one, score=tree)
    if tree is None:
        return None, None
    return _on_arrays(tree), _on_arrays(derivative(tree))


def _on_arrays(tree: Expression) -> Cells:
    def valued(score: Array, b: Any, h: Any, q: Any, k: Any) -> Array:
        return np.asarray(evaluate(tree, score=score, b=b, h=h, q=q, k=k), np.float64)

    return valued


# What comes out.


class Walk(Steps):
    """Steps that can be printed as a walk, and shown in notebooks and on pages."""

    def show(
        self,
        *,
        width: int | None = None,
        row: int | str | None = None,
        head: Any = None,
        digits: int | None = None,
        colour: bool | str | int | None = None,
        file: TextIO | None = None,
    ) -> None:
        """Print the steps with their numbers, and one query's worked out as with a pencil.

        `row` is that query, by number or token; without it, that of the largest weight between two different tokens.
        `head` is a number, or a tuple with one for each leading axis. `digits` is how many follow the point at most, 2
        to 4; without it, as many as tell a number exactly, or 3.
        """
        from regard.view.screen import Screen
        from regard.view.sheet import printed

        screen = Screen.of(file, width, None, colour)
        print(*printed(self._sheet(row, head, digits, screen.unicode), screen), sep="\n", file=file)

    def __str__(self) -> str:
        from regard.view.screen import Screen
        from regard.view.sheet import printed

        screen = Screen.of(None, None, None, False)
        return "\n".join(printed(self._sheet(None, None, None, screen.unicode), screen))

    def to_markdown(self, *, row: int | str | None = None, head: Any = None, digits: int | None = None) -> str:
        """The walk as Markdown: headings, tables, and what is worked out in blocks of text."""
        from regard.view.leaf import markdown

        return markdown(self._sheet(row, head, digits))

    def to_html(self, *, row: int | str | None = None, head: Any = None, digits: int | None = None) -> str:
        """The walk as a page of HTML that needs nothing else, light or dark as the reader's system is."""
        from regard.view.leaf import page

        return page(self._sheet(row, head, digits), self._picture(row, head, digits))

    def _repr_html_(self) -> str:
        from regard.view.leaf import fragment

        return fragment(self._sheet(), self._picture())

    def _sheet(
        self, row: int | str | None = None, head: Any = None, digits: int | None = None, unicode: bool = True
    ) -> list[Any]:
        raise NotImplementedError  # an abstract method

    def _picture(self, row: int | str | None = None, head: Any = None, digits: int | None = None) -> str:
        return ""


class Trace(Walk):
    """Attention step by step. Made by `regard.trace`; the value of each step is an attribute under its name."""

    def __init__(self, given: Given, steps: tuple[Step, ...], made: AttentionMatrix):
        self.given, self.steps, self.matrix = given, steps, made
        self.tokens, self.key_tokens = made.tokens, made.key_tokens

    def grad(self, d_output: Any) -> Gradients:
        """Walk back: the gradients of a loss, given its gradient with respect to the last step's value.

        >>> import numpy as np
        >>> t = trace(q=[[1.0]], k=[[0.0], [1.0]], v=[[0.0], [4.0]], scale=1)
        >>> float(t.grad(1.0).d_q.round(4).item())
        0.7864
        """
        d = gradient_shape(_numbers("d_output", d_output), self.steps[-1])
        return Gradients(self, backward(self.given, self.steps, d))

    def diagram(self, *, row: int | str | None = None, head: Any = None, digits: int | None = None,
                theme: str = "auto") -> Any:  # fmt: skip
        """The steps as a picture, with their numbers in it: SVG that notebooks show and `save` writes.

        `theme` is "auto", light or dark as the reader's system is, or "light" or "dark".
        """
        from regard.view.diagram import Diagram

        return Diagram(self.given, self, self.matrix, row, head, digits, theme)

    def _sheet(
        self, row: int | str | None = None, head: Any = None, digits: int | None = None, unicode: bool = True
    ) -> list[Any]:
        from regard.view.walk import sheet

        return sheet(self.given, self, self.matrix, row, head, digits, unicode)

    def _picture(self, row: int | str | None = None, head: Any = None, digits: int | None = None) -> str:
        made: str = self.diagram(row=row, head=head, digits=digits).svg(caution=False)
        return made

    def __repr__(self) -> str:
        return f"Trace: {' → '.join(f'{step.name} {step.shape}' for step in self.steps)}"


class Gradients(Walk):
    """The way back through a trace: the gradient of each step, as an attribute under its name."""

    def __init__(self, of: Trace, steps: tuple[Step, ...]):
        self.of, self.steps = of, steps

    def _sheet(
        self, row: int | str | None = None, head: Any = None, digits: int | None = None, unicode: bool = True
    ) -> list[Any]:
        from regard.view.walk_back import sheet

        return sheet(self.of.given, self.of, self, self.of.matrix, row, head, digits, unicode)

    def __repr__(self) -> str:
        return f"Gradients: {' → '.join(f'{step.name} {step.shape}' for step in self.steps)}"
