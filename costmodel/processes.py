"""This machine and its processes: what the operating system says of them."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class ProcessMark:
    """Identity of a process among all processes of its host.

    Attributes:
        host: Name of its host.
        pid: Process id.
        started: When it started, see ``_started``.
    """

    host: str
    pid: int
    started: int | None

    @classmethod
    def own(cls) -> Self:
        """That of this process."""
        return cls(socket.gethostname(), os.getpid(), _started(os.getpid()))

    @property
    def is_of_this_host(self) -> bool:
        """Whether it can be known here if the process lives."""
        return self.host == socket.gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended, asked on its own host."""
        return _started(self.pid) != self.started


def _started(pid: int) -> int | None:
    """Something that tells a process from others that have its number at another time; None if there is none.

    On Linux that is when it started, in clock ticks since boot (proc(5), field 22 of ``stat``); elsewhere 0.
    """
    try:
        # The second field is the name in parentheses, which may hold spaces.
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _alive(pid)
    return None if stat[0] == "Z" else int(stat[19])


def _alive(pid: int) -> int | None:
    """0 where a process has this number, else None."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0


def cpu_threads() -> int:
    """Return the number of hardware threads that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """Return the CPU's model if the kernel reports it; else an empty string."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return ""
