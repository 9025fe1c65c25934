"""What tests of torch models run in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def torch_alone() -> Iterator[None]:
    """Torch seeded, on one thread; and as it was when the test is over."""
    import torch

    from tests.recording.torch_taken import nothing_is_left

    torch.manual_seed(7)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small as these are, threads would only wait for each other
    yield
    torch.set_num_threads(threads)
    nothing_is_left()
