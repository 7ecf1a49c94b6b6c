import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """A shell makes its background jobs ignore SIGINT, and these tests with them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
