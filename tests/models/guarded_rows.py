"""Chains whose arrays, weights among them, end or begin where memory that may not be touched does."""

from __future__ import annotations

import faulthandler

import numpy as np

from regard.kernels.chain import Chain, Norm, Product, Weights
from tests.attention.guarded import guarded
from tests.models.making import gelu, norm

SHAPES = [(1, 1, 1), (3, 5, 7), (7, 15, 48), (9, 17, 49), (70, 33, 130)]


def main() -> None:
    faulthandler.enable()
    rng, count = np.random.default_rng(0), 0
    for end in (True, False):
        for n, depth, columns in SHAPES:
            for gap in (0, 3):
                print(f"{n} × {depth} × {columns}, ends at a page: {end}, gap {gap}", flush=True)

                def put(*shape, gap=gap, end=end):
                    return guarded(rng.normal(size=shape).astype(np.float32), end, gap)

                x, plus, w, b, scale, shift = (
                    put(n, depth),
                    put(n, columns),
                    *(put(*shape) for shape in ((columns, depth), (columns,), (columns,), (columns,))),
                )
                weights = Weights(w, b, "erf")
                weights.packed, weights.bias = guarded(weights.packed, end), guarded(weights.bias, end)
                y, z = guarded(weights.room(n), end, gap), put(n, columns)
                step = Norm("y", scale, shift, 1e-5, "z", "plus")
                for name, at in (("weight", scale), ("bias", shift)):
                    object.__setattr__(step, name, at)
                Chain([Product("x", weights, "y"), step])(x=x, y=y, plus=plus, z=z)
                want = gelu(x.astype(np.float64) @ w.T + b)
                assert np.abs(y[:, :columns] - want).max() < 1e-4
                assert np.abs(z - norm(y[:, :columns] + plus, scale, shift, 1e-5)).max() < 1e-3
                count += 1
    print(f"{count} chains stayed inside")


if __name__ == "__main__":
    main()
