"""A tuning service on this machine: a Dask scheduler, builders and workers, each of which may be killed."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from command_line import command


class Service:
    """Processes by name, whose output is in a folder; they do not outlive the context.

    Args:
        place: The job store.
        folder: For logs, records and temporary files.

    Attributes:
        address: Of the scheduler, also where it is started again.
    """

    def __init__(self, place: str, folder: Path) -> None:
        self._place, self._folder = place, folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = f"tcp://127.0.0.1:{free_port()}"
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def records(self) -> Path:
        """Where workers keep what they measure."""
        return self._folder / "records"

    def start_scheduler(self) -> None:
        """Start the scheduler, at the same address each time."""
        port = self.address.rpartition(":")[2]
        self._start("scheduler", _dask("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"))

    def start_builder(self, name: str) -> None:
        """Start what builds one kernel at a time."""
        own = ["--name", name, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        own += ["--local-directory", str(self._folder / name)]
        self._start(name, _dask("worker", self.address, *own))

    def start_worker(self, name: str, *options: str) -> None:
        """Start what measures on the CPU, and has its kernels built."""
        where = ["--store", self._place, "--records", self.records, "--engine", self.address]
        self._start(name, command("jobs", "work", "--runner", "cpu", *where, *options))

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL."""
        self._processes[name].kill()
        self._processes.pop(name).wait()

    def pid(self, name: str) -> int:
        """The number of a process."""
        return self._processes[name].pid

    def has_ended(self, name: str) -> bool:
        """Whether a process has ended by itself."""
        return self._processes[name].poll() is not None

    def wait(self, name: str) -> int:
        """Wait for the end of a process; its exit code."""
        return self._processes[name].wait()

    def said(self, name: str) -> str:
        """What a process has printed so far, those of this name before it included."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _start(self, name: str, line: list[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment()
            )

    def _environment(self) -> Mapping[str, str]:
        """Without colours, and with temporary files where they go with the folder."""
        (self._folder / "tmp").mkdir(exist_ok=True)
        return {**os.environ, "TMPDIR": str(self._folder / "tmp"), "NO_COLOR": "1", "COLUMNS": "160"}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._processes):
            self.kill(name)


def _dask(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dask", *arguments]


def free_port() -> int:
    """A port that nobody listens at."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
