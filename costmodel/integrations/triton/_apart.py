"""Orders the configs of the kernels that a program launches, which runs in a process of its own.

There it may end, wait for ever, or change what it likes.
"""

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import msgspec

from costmodel import errors
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.kernels.triton._source import TIME_LIMIT_S
from costmodel.records._candidate import Config
from costmodel.transfer._read_ranker import ExpectedTime

DEFAULT_DEVICE = "NVIDIA H100 80GB HBM3"  # of which the package learned what is read
_JOB, _ANSWER, _STACK = "job.json", "answer.json", "stack.txt"
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of Linux
_MOST_END_S = 1.0  # for what a program left running


@dataclass(frozen=True)
class RankedKernel:
    """The configs of a kernel that a program launches, the fastest first.

    Attributes:
        name: Name of the kernel.
        launch: What it was called with, by name: shapes and numbers, in words.
        platform: Name of the platform.
        configs: The configs.
        expected: What each should take, or took.
        own: The config that the program itself launches; None where it has a list of configs.
        chosen: Names of the parameters that configs differ in.
        unread: Why other configs could not be read, and of how many.
        ended_by: What ended the program before its end, such as what it raised; empty where nothing did.
        is_guessed: Whether data decide how often its loops turn, which was guessed.
    """

    name: str
    launch: Mapping[str, str]
    platform: str
    configs: Sequence[Config]
    expected: Sequence[ExpectedTime]
    own: Config | None
    chosen: Sequence[str]
    unread: Mapping[str, int] = field(default_factory=dict)
    ended_by: str = ""
    is_guessed: bool = False


class _Job(msgspec.Struct, frozen=True):
    """A program, and what is asked of it.

    Attributes:
        file: The program.
        sms: SMs that it has.
        time_limit_s: Seconds that it may go on without launching a kernel that is new.
        device: Name of the GPU that its configs are ordered for; empty where they are timed here.
        workers: Processes that read side by side.
        trials: Configs of a kernel that are timed.
        store: Where timings are kept.
    """

    file: str
    sms: int | None
    time_limit_s: float
    device: str = ""
    workers: int | None = None
    trials: int = 0
    store: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        kernels: The kernels.
        kind: Name of the error, where there is one.
        message: What it says.
    """

    kernels: list[RankedKernel] = []
    kind: str = ""
    message: str = ""


def rank_program(
    file: Path | str,
    *,
    device: str = DEFAULT_DEVICE,
    sms: int | None = None,
    workers: int | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> list[RankedKernel]:
    """Order the configs of each kernel that a program launches by what is read of them, without a GPU.

    Of a kernel without ``@triton.autotune`` warps and stages are chosen, and, if its grid is a function, the
    whole numbers among its ``tl.constexpr`` that the grid looks up, or that its loops step by.

    Args:
        file: The program, which is run, in a process of its own.
        device: Name of the GPU.
        sms: SMs that kernels have there. Default: all.
        workers: Processes that read side by side. Default: one for each hardware thread.
        time_limit_s: Seconds that the program may go on without launching a kernel that is new. It is ended
            then, and what it launched counts.

    Raises:
        CostModelError: The program launches no kernel, or ends its process.
    """
    return _run(_Job(str(file), sms, time_limit_s, device=device, workers=workers))


def tune_program(
    file: Path | str,
    *,
    sms: int | None = None,
    trials: int = 16,
    store: Path | str | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> list[RankedKernel]:
    """Run a program on this machine's GPU, and time configs of each kernel at its first launch.

    Configs are those of ``rank_program``, and the drop-in times the most promising of them, and that of the
    program itself first. Later launches of a kernel have the best.

    Args:
        file: The program, which is run, in a process of its own.
        sms: SMs that it has. Default: all.
        trials: Configs of a kernel that are timed.
        store: See ``autotune``.
        time_limit_s: See ``rank_program``; what is timed takes none of it.

    Raises:
        CostModelError: The program launches no kernel, or ends its process.
        DeviceUnavailableError: There is no GPU.
    """
    return _run(
        _Job(str(file), sms, time_limit_s, trials=trials, store=None if store is None else str(store))
    )


def _run(job: _Job) -> list[RankedKernel]:
    """Start a process for a job, and return what it answers.

    Raises:
        CostModelError: It answers with an error, or not at all.
    """
    if not job.time_limit_s > 0:
        raise CostModelError(f"time_limit_s must be above 0, but got {job.time_limit_s}.")
    with TemporaryDirectory() as folder:
        Path(folder, _JOB).write_bytes(msgspec.json.encode(job))
        Path(folder, _STACK).touch()
        done = subprocess.run(  # noqa: S603 (this module, in this interpreter of Python)
            [sys.executable, "-P", "-m", __name__, folder],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
        try:
            answer = msgspec.json.decode(Path(folder, _ANSWER).read_bytes(), type=_Answer)
        except OSError:
            raise CostModelError(_no_answer(job, done.returncode, Path(folder, _STACK).read_text())) from None
    if answer.kind:
        raise getattr(errors, answer.kind, CostModelError)(answer.message)
    return answer.kernels


def _no_answer(job: _Job, code: int, stack: str) -> str:
    """Say how a program ended its process."""
    if stack:
        places = [line.strip() for line in stack.splitlines() if line.lstrip().startswith("File ")]
        own = [line for line in places if Path(job.file).name in line]
        return (
            f"{job.file} must end, or launch a kernel that is new, within {job.time_limit_s:g} s, but does "
            f"neither and cannot be interrupted: {(own or places or ['somewhere'])[0]}. Give it more time "
            "(--time-limit), or leave out what it waits for."
        )
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{job.file} must leave the process that runs it alive, but it ended with {how}."


# What follows runs in that process alone.


def _answer(job: _Job, stack: IO[str]) -> _Answer:
    from costmodel.integrations.triton._ranking import rank_here, tune_here
    from costmodel.integrations.triton._running import TimeLimit

    file, limit = Path(job.file), TimeLimit(job.time_limit_s, stack)
    try:
        if job.device:
            return _Answer(rank_here(file, job.device, job.sms, job.workers, limit))
        return _Answer(tune_here(file, job.sms, job.trials, job.store, limit))
    except CostModelError as error:
        return _Answer(kind=type(error).__name__, message=str(error))


def _main(folder: Path) -> None:
    # What a program forks must not outlive it, and hold on to what the user reads.
    os.register_at_fork(after_in_child=partial(ctypes.CDLL(None).prctl, _PARENT_DEATH, signal.SIGKILL))
    job = msgspec.json.decode((folder / _JOB).read_bytes(), type=_Job)
    stack = (folder / _STACK).open("w")  # until the process ends
    write_whole(folder / _ANSWER, msgspec.json.encode(_answer(job, stack)), is_lasting=False)
    faulthandler.dump_traceback_later(_MOST_END_S, exit=True, file=stack)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # of which the process that waits tells
        _main(Path(sys.argv[1]))
