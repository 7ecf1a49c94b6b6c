"""Traces of others, applied by TVM in a process of its own, because some of them end it.

The functions at the end run there; each takes a program as structural hash and text, and a trace in JSON.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from costmodel.dataset.sources._entry import EntryError
from costmodel.errors import CostModelError
from costmodel.kernels.metaschedule._apart import ApartError, call_apart
from costmodel.kernels.metaschedule._database_json import TracedProgram
from costmodel.kernels.metaschedule._source import open_space
from costmodel.records._candidate import Candidate, Config, KernelLaunch
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload
from costmodel.workloads._programs import find_space

T = TypeVar("T")

_MOST_FAILURES = 20  # each takes as long as loading TVM does


class TraceApplier:
    """Applies the traces of a database, and gives it up where too many of them end TVM.

    Methods raise an ``EntryError`` where TVM fails on a trace, and a ``CostModelError`` where it does on too
    many, or cannot start.
    """

    def __init__(self) -> None:
        self._failures = 0

    def replay(self, program: tuple[str, str], trace: Any) -> Any:
        """Return the trace that TVM keeps of a replay, in JSON; None where it cannot be replayed.

        Args:
            program: Structural hash and text of a program.
            trace: The trace in JSON.
        """
        return self._call(replay_trace, *program, trace)

    def lower(self, program: tuple[str, str], trace: Any) -> tuple[KernelLaunch, ...]:
        """Return what the kernels of a trace launch; see ``TracedProgram.launches``, and ``replay``."""
        return self._call(lower_trace, *program, trace)

    def read(self, workload: Workload, kind: TargetKind, trace: Any) -> Config | None:
        """Return the config of our space that TVM makes of a trace; None where that is none of it."""
        return self._call(read_own_trace, workload.name, kind, trace)

    def recognise(self, program: tuple[str, str], kind: TargetKind, trace: Any) -> Candidate | None:
        """Return the candidate that tuning such a program calls a trace; None where it is of no space.

        It has its launches where these do not follow from its decisions; see ``replay``.
        """
        return self._call(recognise_trace, *program, kind, trace)

    def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return call_apart(function, *arguments)
        except ApartError as error:
            self._failures += 1
            if self._failures < _MOST_FAILURES:
                raise EntryError(f"a trace must be one that TVM applies, but {error}") from None
            raise CostModelError(
                f"The traces of a database must be ones that TVM applies, but it failed on {self._failures}; "
                f"on the last, {error}. Install the version of TVM that wrote the database."
            ) from None


def replay_trace(structural_hash: str, text: str, trace: Any) -> Any:
    """See ``TraceApplier``."""
    return _program(structural_hash, text).replayed(trace)


def lower_trace(structural_hash: str, text: str, trace: Any) -> tuple[KernelLaunch, ...]:
    """See ``TraceApplier``."""
    return _program(structural_hash, text).launches(trace)


def read_own_trace(workload: str, kind: TargetKind, trace: Any) -> Config | None:
    """See ``TraceApplier``."""
    try:
        return open_space(Workload.parse(workload), kind).config_of(trace)
    except CostModelError:
        return None


def recognise_trace(structural_hash: str, text: str, kind: TargetKind, trace: Any) -> Candidate | None:
    """See ``TraceApplier``."""
    space = _space_of(structural_hash, text, kind)
    schedule = _program(structural_hash, text).replay(trace) if space else None
    config = space.config_like(schedule.trace) if schedule else None
    if schedule is None or config is None:
        return None
    follows = kind == "cuda" and not space.workload.is_program
    return Candidate(space.workload, space.name, config, () if follows else space.counted(schedule.mod))


@lru_cache(maxsize=64)
def _program(structural_hash: str, text: str) -> TracedProgram:
    return TracedProgram(structural_hash, text)


@lru_cache(maxsize=64)
def _space_of(structural_hash: str, text: str, kind: TargetKind) -> Any:
    module = _program(structural_hash, text).module
    return None if module is None else find_space(module, kind, is_transposed=False).space
