"""One thread for linear algebra, while several trials are proposed at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.RLock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, and let one caller at a time do so.

    Matrices of a few hundred rows gain nothing from more, and where several trials are proposed by threads
    (``n_jobs`` of Optuna) those of BLAS get into each other's way: with 2 x 2 threads on 2 cores a search
    took eight times as long as with one. The number of threads is one for the process: were it set and
    restored by several callers at once, the last would restore what another had set.
    """
    with _lock, threadpool_limits(1, user_api="blas"):
        yield
