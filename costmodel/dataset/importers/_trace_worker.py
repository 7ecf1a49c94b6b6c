"""Traces of others, applied by TVM in a process of their own, because some of them end it.

TVM checks many an instruction with assertions that abort the process, or not at all. The process is kept for
all databases, and replaced when a trace has ended it. Questions and answers are lines of JSON.
"""

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from costmodel.dataset.sources._entry import EntryError
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate, Config, KernelLaunch
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule._database_json import TracedProgram


_MOST_S = 20.0  # for a trace; most take milliseconds, the first of Tensor Cores some seconds
_MOST_START_S = 300.0  # on a busy machine
_MOST_DEATHS = 20  # each takes as long as loading TVM does
_READY = b"ready\n"


class _Question(msgspec.Struct):
    """What to do with a trace.

    Attributes:
        task: ``replay`` it, ``lower`` what it makes, ``read`` the config of our space that it is, or
            ``recognise`` the candidate that it is.
        subject: Structural hash and text of a program; to ``read``, the name of a workload of ours.
        trace: The trace in JSON.
        kind: To read and recognise, the kind of device.
    """

    task: Literal["replay", "lower", "read", "recognise"]
    subject: tuple[str, ...]
    trace: Any
    kind: TargetKind = "cuda"


class TraceWorker:
    """A process that applies traces. It starts with the first, and ends with this process.

    A thread asks at a time: the others wait.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._deaths = 0
        atexit.register(self._end)

    @classmethod
    def shared(cls) -> "TraceWorker":
        """Return the worker of this process for a new database: loading TVM takes seconds."""
        worker = _shared_worker(os.getpid())
        worker._deaths = 0
        return worker

    def replay(self, program: tuple[str, str], trace: Any) -> Any:
        """Return the trace that TVM keeps of a replay, in JSON; None where it cannot be replayed.

        Args:
            program: Structural hash and text of a program.
            trace: The trace in JSON.

        Raises:
            EntryError: TVM ended its process.
            CostModelError: The process cannot start.
        """
        return self._ask(_Question("replay", program, trace))

    def lower(self, program: tuple[str, str], trace: Any) -> tuple[KernelLaunch, ...]:
        """Return what the kernels of a trace launch; see ``TracedProgram.launches``, and ``replay``."""
        answer = self._ask(_Question("lower", program, trace))
        return msgspec.convert(answer, tuple[KernelLaunch, ...])

    def read(self, workload: Workload, kind: TargetKind, trace: Any) -> Config | None:
        """Return the config of our space that TVM makes of a trace; None where that is none of it.

        Raises:
            EntryError: TVM ended its process.
            CostModelError: The process cannot start.
        """
        answer = self._ask(_Question("read", (workload.name,), trace, kind))
        return None if answer is None else msgspec.convert(answer, Config)

    def recognise(self, program: tuple[str, str], kind: TargetKind, trace: Any) -> Candidate | None:
        """Return the candidate that tuning such a program calls a trace; None where it is of no space.

        It has its launches where these do not follow from its decisions; see ``replay``.
        """
        answer = self._ask(_Question("recognise", program, trace, kind))
        return None if answer is None else msgspec.convert(answer, Candidate)

    def _ask(self, question: _Question) -> Any:
        try:
            line = msgspec.json.encode(question) + b"\n"
        except UNDECODABLE:
            raise EntryError("a trace must be JSON of moderate depth, with integers of 64 bits") from None
        with self._lock:
            return self._exchange(line)

    def _exchange(self, line: bytes) -> Any:
        process = self._process = self._process or _start()
        assert process.stdin
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return msgspec.json.decode(_read_line(process, _MOST_S))
        except (OSError, msgspec.DecodeError):
            how = self._end()
            self._deaths += 1
            if self._deaths >= _MOST_DEATHS:
                raise CostModelError(
                    f"TVM must be able to apply the traces of a database, but ended on {self._deaths} of "
                    f"them, the last time because {how}. Install the version of TVM that wrote the database."
                ) from None
            raise EntryError(f"TVM must be able to apply a trace, but {how}") from None
        except (
            BaseException
        ):  # an interrupt: the answer that is due must not pass for that of the next question
            self._end()
            raise

    def _end(self) -> str:
        """End the process, if there is one; returns how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        code = process.poll()
        process.kill()
        process.communicate()
        code = process.returncode if code is None else code
        if code == -signal.SIGKILL:
            return f"it took more than {_MOST_S:g} s"
        return f"it ended its process ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})"


@cache
def _shared_worker(process_id: int) -> TraceWorker:
    """Return the worker of a process: one that was forked must not ask that of another."""
    return TraceWorker()


def _start() -> "subprocess.Popen[bytes]":
    """Start the process, and wait until it has loaded TVM.

    Raises:
        CostModelError: It ends instead.
    """
    process = subprocess.Popen(  # noqa: S603 (this module, in this interpreter of Python)
        [sys.executable, "-P", "-W", "ignore", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if _read_line(process, _MOST_START_S) != _READY:
        process.kill()
        process.communicate()
        raise CostModelError(
            "A process that applies traces with TVM must start, but ended. Try `python -c 'import tvm'`, or "
            "give `--lower-traces none` and no `--workload` where TVM is not installed."
        )
    return process


def _read_line(process: "subprocess.Popen[bytes]", most_s: float) -> bytes:
    """Read the next line of a process; what there is of it if it ends, or nothing if it takes too long."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], most_s)
    return process.stdout.readline() if ready else b""


# What follows runs in the process alone, which alone loads what it takes.


@lru_cache(maxsize=64)
def _program(structural_hash: str, text: str) -> "TracedProgram":
    from costmodel.kernels.metaschedule._database_json import TracedProgram

    return TracedProgram(structural_hash, text)


@lru_cache(maxsize=64)
def _space(workload: str, kind: TargetKind) -> Any:
    from costmodel.kernels.metaschedule._source import open_space

    return open_space(Workload.parse(workload), kind)


@lru_cache(maxsize=64)
def _space_of_program(structural_hash: str, text: str, kind: TargetKind) -> Any:
    from costmodel.workloads._programs import find_space

    module = _program(structural_hash, text).module
    return None if module is None else find_space(module, kind, is_transposed=False).space


def _answer(question: _Question) -> Any:
    match question.task:
        case "replay":
            return _program(*question.subject).replayed(question.trace)
        case "lower":
            return _program(*question.subject).launches(question.trace)
        case "recognise":
            return _recognise(question.subject, question.kind, question.trace)
    try:
        return _space(*question.subject, question.kind).config_of(question.trace)
    except CostModelError:
        return None


def _recognise(subject: tuple[str, ...], kind: TargetKind, trace: Any) -> Candidate | None:
    space = _space_of_program(*subject, kind)
    schedule = _program(*subject).replay(trace) if space else None
    config = space.config_like(schedule.trace) if schedule else None
    if schedule is None or config is None:
        return None
    follows = kind == "cuda" and not space.workload.is_program
    return Candidate(space.workload, space.name, config, () if follows else space.counted(schedule.mod))


def _serve() -> None:
    """Answer the questions of standard input on standard output, which nothing else then writes to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal sends to all processes of a command
    from costmodel.kernels.metaschedule._tvm_start import import_tvm_for

    import_tvm_for("cpu")
    with os.fdopen(os.dup(1), "wb", buffering=0) as answers:
        os.dup2(2, 1)
        answers.write(_READY)
        for line in sys.stdin.buffer:
            answers.write(msgspec.json.encode(_answer(msgspec.json.decode(line, type=_Question))) + b"\n")


if __name__ == "__main__":
    _serve()
