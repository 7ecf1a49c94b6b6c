"""MetaSchedule's builder and runner, with worker processes that stay; the runner keeps to an SM budget."""

import hashlib
import shutil
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costmodel.collector._build import ModuleBuilders, ModuleSource
from costmodel.collector._builders import start_build_workers
from costmodel.collector.device._job import ArrayArgument
from costmodel.collector.device._timing import Timed
from costmodel.collector.runners._device_runner import default_builders
from costmodel.errors import CostModelError
from costmodel.integrations.tvm._program import RUNNERS, target_json, target_kind
from costmodel.kernels._artifact import Built
from costmodel.kernels._machine_code import MachineCode, machine_code
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records._platform import Isolation, TargetKind

# Compiled kernels that are kept until they are measured: the latest. A shortlist has 64 at most.
_MOST_READY = 256


@derived_object
class Builder(ms.builder.PyBuilder):  # type: ignore[misc]
    """A builder for every entry point of MetaSchedule that takes ``builder=``.

    Its processes are spawned with the first batch and serve all others: each imports TVM once, not once a
    batch. One that hangs or dies is replaced, and costs the candidate that it had.

    Args:
        max_workers: Processes; one hardware thread is left to the device unless given.
        timeout_s: Seconds after which a build is given up; the import of TVM is not on this time.
    """

    def __init__(self, *, max_workers: int | None = None, timeout_s: float = 120.0) -> None:
        super().__init__()
        self._count = max_workers or default_builders(1)
        self._timeout_s = timeout_s
        self._pools: dict[tuple[str, str], ModuleBuilders] = {}
        self._ready: dict[bytes, Built] = {}  # compiled and not asked for yet, by hash of its source
        weakref.finalize(self, _close_all, self._pools)

    def build(self, build_inputs: Sequence[Any]) -> list[Any]:
        """Build modules side by side: a ``BuilderResult`` each, in order."""
        if not build_inputs:
            return []
        sources = [_source(one.mod, one.target) for one in build_inputs]
        ready = [self._ready.pop(_key(source), None) for source in sources]
        missing = [source for source, built in zip(sources, ready, strict=True) if built is None]
        made = iter(self._pool(build_inputs[0].target).build(missing))
        return [_result(built or next(made)) for built in ready]

    def machine_code(self, modules: Sequence[Any], target: Any) -> list[MachineCode | None]:
        """Compile modules side by side, and count what is in each; ``build`` then builds none of them again.

        None stands for what cannot be built, and for what has no machine code: TVM leaves that to the driver
        where it finds none.
        """
        sources = [_source(module, target) for module in modules]
        built = self._pool(target).build(sources)
        found = [machine_code(each.library.read_bytes()) if each.library else None for each in built]
        for key, each in zip(map(_key, sources), built, strict=True):
            if earlier := self._ready.pop(key, None):
                _delete(earlier)
            self._ready[key] = each
        while len(self._ready) > _MOST_READY:
            _delete(self._ready.pop(next(iter(self._ready))))
        return found

    @property
    def in_flight(self) -> int:
        """Number of modules that are built or measured at once."""
        return 1 + self._count

    def close(self) -> None:
        """End the processes and delete what was built. May be called twice; happens at exit too."""
        self._ready.clear()
        _close_all(self._pools)

    def _pool(self, target: Any) -> ModuleBuilders:
        kind = target_kind(target) or "cpu"
        architecture = str(target.attrs.get("arch", ""))
        key = kind, architecture
        if key not in self._pools:
            self._pools[key] = ModuleBuilders(
                partial(start_build_workers, (MetaSchedule(),), kind, architecture, self._count),
                self._timeout_s,
            )
        return self._pools[key]


def _close_all(pools: dict[tuple[str, str], ModuleBuilders]) -> None:
    while pools:
        pools.popitem()[1].close()


def _delete(built: Built) -> None:
    """Delete what a build left, as MetaSchedule does with what was measured: each has a folder of its own."""
    if built.library is not None:
        shutil.rmtree(built.library.parent, ignore_errors=True)


def _source(module: Any, target: Any) -> ModuleSource:
    return ModuleSource(tvm.ir.save_json(module), target_json(target))


def _key(source: ModuleSource) -> bytes:
    return hashlib.sha256("\n".join(source).encode()).digest()


def _result(built: Built) -> Any:
    if built.library is None:
        return ms.builder.BuilderResult(None, f"{built.outcome}: {built.error}")
    return ms.builder.BuilderResult(str(built.library), None)


@derived_object
class Runner(ms.runner.PyRunner):  # type: ignore[misc]
    """A runner for every entry point of MetaSchedule that takes ``runner=``.

    On a GPU a budget is a green context, on a CPU a number of threads. A process measures, one kernel after
    the other; it is replaced when a kernel hangs or breaks it. Kernels are timed as a campaign times them:
    repeated until the interval is narrow, on a GPU as CUDA graphs.

    Args:
        sms: SMs that kernels get, threads on a CPU; all unless given.
        kind: Kind of device.
        isolation: What sets SMs apart; ``mps`` confines a process instead.
        settings: Those of ``costmodel.collector.CudaRunner``, such as ``timing`` and ``run_timeout_s``.

    Attributes:
        platform: Where it measures: the device with the SMs that were granted.

    Raises:
        CostModelError: The kind is unknown, there is no such device, or it cannot grant that many SMs.
    """

    def __init__(
        self,
        sms: int | None = None,
        *,
        kind: TargetKind = "cuda",
        isolation: Isolation | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if kind not in RUNNERS:
            raise CostModelError(f"The kind of device must be {' or '.join(RUNNERS)}, but got {kind!r}.")
        self._runner = RUNNERS[kind](**settings)
        self._close = weakref.finalize(self, self._runner.close)
        self.platform = self._runner.platform(sms, isolation)

    def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
        """Measure modules: a ``RunnerFuture`` each, in order.

        On a GPU the search goes on meanwhile. On a CPU it would take the threads that are measured, so that
        all are done when this returns.

        Raises:
            CostModelError: The modules are for another kind of device, or the runner was closed.
        """
        if not self._close.alive:
            raise CostModelError(
                "A runner must be open to measure, but this one was closed. Make the options anew, and close "
                "them once all is tuned."
            )
        timings = [self._submit(one) for one in runner_inputs]
        if self.platform.device.kind == "cpu":
            wait(timings)
        return [_Measured(timing) for timing in timings]

    def close(self) -> None:
        """End the processes. May be called twice; happens at exit too."""
        self._close()

    def _submit(self, asked: Any) -> "Future[Timed]":
        device = self.platform.device
        if str(asked.device_type) != device.kind:
            raise CostModelError(
                f"The modules to run must be for {device.kind}, as {device.name} is, but got one for "
                f"{asked.device_type}. Make the runner with another kind, or tune for another target."
            )
        arguments = [_argument(info.as_json()) for info in asked.args_info]
        return self._runner.time_module(Path(str(asked.artifact_path)), arguments, self.platform)


def _argument(info: Sequence[Any]) -> ArrayArgument:
    """``["TENSOR", dtype, shape]``, the only kind of argument that MetaSchedule knows."""
    _, dtype, shape = info
    return ArrayArgument(str(dtype), tuple(int(size) for size in shape))


@derived_object
class _Measured(ms.runner.PyRunnerFuture):  # type: ignore[misc]
    """A measurement under way."""

    def __init__(self, future: "Future[Timed]") -> None:
        super().__init__()
        self._future = future

    def done(self) -> bool:
        """Whether it is there."""
        return self._future.done()

    def result(self) -> Any:
        """Its latencies, or why there are none."""
        timed = self._future.result()
        if timed.latencies_s:
            return ms.runner.RunnerResult(list(timed.latencies_s), None)
        return ms.runner.RunnerResult(None, f"{timed.outcome}: {timed.error}")
