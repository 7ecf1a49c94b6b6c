"""Jobs on a Ray worker."""

from collections.abc import Callable
from typing import Any

from costmodel.engines._job_processes import JobProcesses

# A Ray worker is a process that runs one task at a time.
_PROCESSES = JobProcesses(1)


def run_in_process(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    resources: tuple[str, ...],
    timeout_s: float | None,
    key: str | None,
) -> Any:
    """Make a call in the job process of this Ray worker, and wait for it."""
    return _PROCESSES.of(resources).submit(function, *arguments, timeout_s=timeout_s, key=key).result()
