"""Regard beside its peers and beside the machine: `python -m benchmarks.run`."""

import os

# Everybody gets two threads. Most peers are told so by their own interface; the libraries below read the number from
# the environment when they load, so it has to stand before NumPy is imported anywhere in this package.
THREADS = 2
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "PJRT_NPROC"):
    os.environ[_variable] = str(THREADS)
os.environ["REGARD_THREADS"] = str(THREADS)
