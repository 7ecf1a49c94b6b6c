"""Functions that a test calls in a process that they may end."""

import os
import resource
import signal
import time
from pathlib import Path

from costmodel.errors import CostModelError


def add(first: tuple[int, ...], second: int) -> tuple[int, ...]:
    return (*first, second)


def process_id() -> int:
    return os.getpid()


def end_by(number: int) -> None:
    os.kill(os.getpid(), number)


def be_killed_once(marker: str) -> str:
    try:
        with Path(marker).open("x"):
            os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        pass
    return marker


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def processor_time_left() -> float:
    return resource.getrlimit(resource.RLIMIT_CPU)[0] - time.process_time()


def refuse() -> None:
    raise CostModelError("It must be so. Do it.")


def fail() -> None:
    raise KeyError("first\nlast")
