"""Runs a user's program with its launches of Triton kernels answered, for as long as it launches new ones."""

import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from triton.runtime import autotuner
from triton.runtime.jit import JITFunction

from costmodel.errors import CostModelError
from costmodel.integrations.triton._autotuner import Autotuner
from costmodel.kernels.family._source import run_file

_MAIN = "__main__"
_OPTIONS = ("grid", "warmup")
# A program that catches what should end it is told again, and has so long to end.
_AGAIN_S, _GRACE_S = 1.0, 10.0


@dataclass
class ProgramLaunch:
    """The first launch of a kernel by a program.

    Attributes:
        function: The ``@triton.jit`` function.
        arguments: What it was called with, by name; options of the compiler too.
        grid: Grid of the launch, or a function of all arguments.
        tuner: What ``@triton.autotune`` made of it; None without it.
        configs: Its configs; none without it.
        times: How often the program launched the kernel.
        is_warmup: Whether the kernel is only to be compiled.
    """

    function: JITFunction[Any]
    arguments: Mapping[str, Any]
    grid: Any
    tuner: Any = None
    configs: Sequence[Any] = ()
    times: int = 1
    is_warmup: bool = False

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return str(self.function.__name__)

    @property
    def rules(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        """Functions of all arguments that tell further ones, as ``triton.heuristics`` has them."""
        found, inner = dict[str, Any](), self.function if self.tuner is None else self.tuner.fn
        while inner is not self.function:
            found |= inner.values
            inner = inner.fn
        return found


# Answers a launch, given what makes it.
Answer = Callable[[ProgramLaunch, Callable[[], Any]], Any]


class StoppedError(BaseException):
    """Ends a program that does nothing new; one that catches exceptions lets it pass."""


class TimeLimit:
    """Ends a program that goes on for too long without launching a kernel that is new.

    ``StoppedError`` is raised in it, and again each second. Where it does not end, as it catches all or waits
    in machine code, the process ends. Only the main thread of a process can have one.

    Args:
        seconds: How long it may go on.
        stack: File that is told where the program was when its process had to end.
    """

    def __init__(self, seconds: float, stack: IO[str]) -> None:
        self._seconds, self._stack = seconds, stack
        signal.signal(signal.SIGALRM, self._end)

    def start(self) -> None:
        """Begin anew."""
        signal.setitimer(signal.ITIMER_REAL, self._seconds, _AGAIN_S)
        faulthandler.dump_traceback_later(self._seconds + _GRACE_S, exit=True, file=self._stack)

    @staticmethod
    def stop() -> None:
        """Let what follows take as long as it takes."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.cancel_dump_traceback_later()

    def _end(self, *_: object) -> None:
        raise StoppedError(f"it went on for {self._seconds:g} s without launching a kernel that is new")


def run_answered(file: Path, answer: Answer, limit: TimeLimit | None = None) -> str:
    """Run a file as ``python file`` would, but with launches of Triton kernels answered.

    Args:
        file: The program.
        answer: Answers each. Launches that it makes itself are made.
        limit: Ends the program; it does not run while the first launch of a kernel is answered.

    Returns:
        What ended the program before its end; empty where nothing did.
    """
    before, known = sys.modules[_MAIN], set[Any]()
    here, leave, fault = os.getpid(), os._exit, None

    def untimed(launch: ProgramLaunch, make: Callable[[], Any]) -> Any:
        if limit is None or launch.is_warmup or launch.function in known:
            return answer(launch, make)
        known.add(launch.function)
        limit.stop()
        try:
            return answer(launch, make)
        finally:
            limit.start()

    with (
        _answered(untimed),
        replaced(sys, argv=[str(file)], path=[str(file.resolve().parent), *sys.path]),
        replaced(os, _exit=_exiting_here(os._exit)),
    ):
        try:
            if limit:
                limit.start()
            run_file(file, _MAIN)
        except CostModelError as error:
            fault = error
        finally:
            if limit:
                limit.stop()
            sys.modules[_MAIN] = before
    if os.getpid() != here:  # a process that the program forked has no other end
        leave(_exit_code(fault))
    return _reason(fault) if fault else ""


def nothing_launched(file: Path, ended_by: str) -> CostModelError:
    """The error of a program that launches no kernel."""
    said = f" It ended with: {ended_by}" if ended_by else ""
    return CostModelError(
        f"{file} must launch a Triton kernel when it is run, but launches none.{said} Add a call with "
        'arguments of the usual sizes, such as under `if __name__ == "__main__":`.'
    )


def _exiting_here(leave: Callable[[int], Any]) -> Callable[[int], Any]:
    """What ends the program and not its process; in processes that it forks as before."""
    here = os.getpid()

    def leave_program(code: int) -> None:
        if os.getpid() != here:
            leave(code)
        raise SystemExit(code)

    return leave_program


def _exit_code(fault: CostModelError | None) -> int:
    """What Python would end a process with."""
    cause = fault and fault.__cause__
    if not isinstance(cause, SystemExit):
        return 1 if fault else 0
    return cause.code if isinstance(cause.code, int) else int(cause.code is not None)


def _reason(error: CostModelError) -> str:
    """What ended a program, by what its fault was; empty where it said that it was done."""
    cause = error.__cause__
    if isinstance(cause, SystemExit) and not cause.code:
        return ""
    return str(cause if isinstance(cause, StoppedError) else error)


@contextmanager
def _answered(answer: Answer) -> Iterator[None]:
    """Let launches be answered, but for those that an answer makes."""
    plain, is_answering = JITFunction.run, False

    def answered(launch: ProgramLaunch, make: Callable[[], Any]) -> Any:
        nonlocal is_answering
        if is_answering:
            return make()
        is_answering = True
        try:
            return answer(launch, make)
        finally:
            is_answering = False

    def run_kernel(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        make = partial(plain, self, *args, grid=grid, warmup=warmup, **kwargs)
        arguments = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        return answered(ProgramLaunch(self, arguments, grid, is_warmup=warmup), make)

    def of_tuner(kind: Any) -> Callable[..., Any]:
        tuned = kind.run

        def run_tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
            arguments = {name: value for name, value in given.items() if name not in _OPTIONS}
            self.nargs = {name: value for name, value in arguments.items() if name not in kwargs}
            configs = list(self.prune_configs(kwargs)) if self.configs else ()
            launch = ProgramLaunch(_innermost(self), arguments, kwargs["grid"], self, configs)
            return answered(launch, partial(tuned, self, *args, **kwargs))

        return run_tuned

    with ExitStack() as stack:
        stack.enter_context(replaced(JITFunction, run=run_kernel))
        for each in (autotuner.Autotuner, Autotuner):
            stack.enter_context(replaced(each, run=of_tuner(each)))
        yield


def _innermost(tuner: Any) -> Any:
    """The ``@triton.jit`` function under decorators of Triton."""
    function = tuner.fn
    while hasattr(function.fn, "arg_names"):
        function = function.fn
    return function


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Give something other attributes for a while."""
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            setattr(owner, name, before[name]) if name in before else delattr(owner, name)
