"""NumPy's own threads spin while they wait; beside a busy neighbour that makes the reference ten times slower."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is first imported
