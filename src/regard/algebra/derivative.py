"""The slope of an expression in the score, as another expression: the backward pass multiplies by it.

>>> from regard.algebra.tracing import trace
>>> derivative(trace(lambda score, b, h, q, k: 3 * score + k, "score b h q k"))
3
"""

from __future__ import annotations

from collections.abc import Callable

from regard.algebra.expression import Expression, combine, constant, where

Rule = Callable[..., Expression | None]


def _sum(a: Expression | None, b: Expression | None) -> Expression | None:
    if a is None or b is None:
        return a if b is None else b
    return a + b


def _times(a: Expression, slope: Expression | None) -> Expression | None:
    if slope is None:
        return None
    return a if slope.operation == "constant" and slope.payload == 1 else a * slope


def _choose(condition: Expression, yes: Expression | None, no: Expression | None) -> Expression | None:
    if yes is None and no is None:
        return None
    return where(condition, 0.0 if yes is None else yes, 0.0 if no is None else no)


# For each operation: its operands, then the slopes of its operands (None is zero), give its slope.
RULES: dict[str, Rule] = {
    "add": lambda a, b, da, db: _sum(da, db),
    "sub": lambda a, b, da, db: _sum(da, None if db is None else -db),
    "mul": lambda a, b, da, db: _sum(_times(b, da), _times(a, db)),
    "div": lambda a, b, da, db: _sum(_times(1.0 / b, da), _times(-a / (b * b), db)),
    "mod": lambda a, b, da, db: _sum(da, _times(-combine("floordiv", a, b), db)),
    "neg": lambda a, da: None if da is None else -da,
    "abs": lambda a, da: _times(where(a < 0, -1.0, where(a > 0, 1.0, 0.0)), da),
    "where": lambda c, a, b, dc, da, db: _choose(c, da, db),
    "minimum": lambda a, b, da, db: _choose(a < b, da, db),
    "maximum": lambda a, b, da, db: _choose(b < a, da, db),
    "exp": lambda a, da: _times(combine("exp", a), da),
    "log": lambda a, da: _times(1.0 / a, da),
    "tanh": lambda a, da: _times(1.0 - combine("tanh", a) * combine("tanh", a), da),
    "sigmoid": lambda a, da: _times(combine("sigmoid", a) * (1.0 - combine("sigmoid", a)), da),
}


def derivative(x: Expression) -> Expression:
    """d x / d score; where x has a corner, the slope on one side of it, and 0 for abs at 0."""
    done: dict[int, Expression | None] = {}

    def visit(node: Expression) -> Expression | None:
        if id(node) not in done:
            if node.operation == "variable":
                done[id(node)] = constant(1) if node.payload == "score" else None
            elif node.operation in RULES:
                slopes = [visit(i) for i in node.operands]
                moves = any(slope is not None for slope in slopes)
                done[id(node)] = RULES[node.operation](*node.operands, *slopes) if moves else None
            else:  # constants, gathers, conditions and whole quotients do not move with the score
                done[id(node)] = None
        return done[id(node)]

    slope = visit(x)
    return constant(0) if slope is None else slope
