"""Jobs on a worker of a cluster: each runs in a process of its own, which may hang or die."""

import threading
from pathlib import Path

from costmodel.engines._local import LocalEngine


class JobProcesses:
    """The job processes of a worker, for each set of resources some of their own.

    Args:
        count: Jobs that the worker runs at once.
        folder: Where they put temporary files.
    """

    def __init__(self, count: int, folder: Path | None = None) -> None:
        self._count, self._folder = count, folder
        self._engines: dict[tuple[str, ...], LocalEngine] = {}
        self._lock = threading.Lock()

    def of(self, resources: tuple[str, ...]) -> LocalEngine:
        """The processes for jobs that ask for resources of these names; the first such job starts them."""
        with self._lock:
            if resources not in self._engines:
                self._engines[resources] = LocalEngine(self._count, self._folder)
            return self._engines[resources]

    def close(self) -> None:
        """End the processes."""
        for engine in self._engines.values():
            engine.close()
