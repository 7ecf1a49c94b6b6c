"""Compiles configs in processes of their own, so that one that crashes the compiler costs itself alone.

Triton makes the intermediate code of a config here, out of objects of this process. All that follows, where
LLVM and ``ptxas`` work, happens in ``_compile_worker``, which leaves what it makes in Triton's cache: the
launch finds it there.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import triton
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

_WORKER = "costmodel.integrations.triton._compile_worker"
_SAID = 300  # characters of what a compiler said
_looking = threading.RLock()


class _NotInCacheError(Exception):
    """Triton would compile a kernel now.

    Attributes:
        job: What a worker has to know of it.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job["name"])
        self.job = job


def compile_apart(function: Any, launches: Sequence[Callable[[], object]], workers: int) -> list[str]:
    """Compile what launches need and Triton's cache does not have.

    What cannot be sent to another process, or raises there, is left to the launch itself.

    Args:
        function: The ``@triton.jit`` function.
        launches: Each calls its ``run`` with ``warmup=True``.
        workers: Processes that compile side by side; none if 0.

    Returns:
        Of each launch how the compiler ended its process, empty if it did not.
    """
    reasons = [""] * len(launches)
    if not workers or not isinstance(function, JITFunction):
        return reasons
    positions: list[int] = []

    def jobs() -> Iterator[dict[str, Any]]:
        for position, launch in enumerate(launches):
            if job := _missing(function, launch):
                positions.append(position)
                yield job

    for position, exit_code, words in _crashes(jobs(), workers):
        reasons[positions[position]] = _reason(exit_code, words)
    return reasons


def _missing(function: Any, launch: Callable[[], object]) -> dict[str, Any] | None:
    """Tell what a launch would compile; None where Triton's cache has it, or there is nothing to be sent."""
    with _looking, suppress(Exception):
        try:
            with _compiling_nothing(function):
                launch()
        except _NotInCacheError as error:
            return error.job
    return None


@contextmanager
def _compiling_nothing(function: Any) -> Iterator[None]:
    """A function that raises ``_NotInCacheError`` in this thread where it would compile."""
    function.device_caches[driver.active.get_current_device()]  # sets what is replaced now
    compile_kernel, here = function.compile, threading.get_ident()

    def look(source: Any, **settings: Any) -> Any:
        if threading.get_ident() != here:
            return compile_kernel(source, **settings)
        make_ir = source.make_ir

        def not_in_cache(*arguments: Any, **named: Any) -> None:
            raise _NotInCacheError(_job(source, make_ir(*arguments, **named), **settings))

        source.make_ir = not_in_cache
        return compile_kernel(source, **settings)

    function.compile = look
    try:
        yield
    finally:
        function.compile = compile_kernel


def _job(source: Any, module: Any, target: Any, options: dict[str, Any], **_: Any) -> dict[str, Any]:
    job = {
        "name": source.name,
        "ext": source.ext,
        "language": source.language.value,
        "hash": source.hash(),
        "code": str(module),
        "target": [target.backend, target.arch, target.warp_size],
        "options": options,
    }
    json.dumps(job)  # raises TypeError where it cannot be sent
    return job


def _crashes(jobs: Iterable[dict[str, Any]], workers: int) -> list[tuple[int, int, str]]:
    """Position, exit code and first words of the jobs that ended their processes; none if none can start."""
    from costmodel.kernels.triton._forking import run_apart

    lines = (json.dumps(job).encode() for job in jobs) if sys.executable else ()
    cache = {"TRITON_CACHE_DIR": triton.knobs.cache.dir}
    return [json.loads(line) for line in run_apart(_WORKER, [workers], lines, cache)]


def _reason(exit_code: int, words: str) -> str:
    how = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
    said = "; ".join(line.strip() for line in words.splitlines() if line.strip())
    return f"the compiler ended its process with {how}" + (f": {said[:_SAID]}" if said else "")
