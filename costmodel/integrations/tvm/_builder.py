"""MetaSchedule's builder, with worker processes that stay."""

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costmodel.collector.build._build import ModuleBuilders, ModuleSource
from costmodel.collector.build._builders import start_build_workers
from costmodel.collector.runners._device_runner import default_builders
from costmodel.integrations.tvm._target import target_json, target_kind
from costmodel.kernels._artifact import Built
from costmodel.kernels.metaschedule._source import MetaSchedule


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
        weakref.finalize(self, _close_all, self._pools)

    def build(self, build_inputs: Sequence[Any]) -> list[Any]:
        """Build modules side by side: a ``BuilderResult`` each, in order."""
        if not build_inputs:
            return []
        sources = [ModuleSource(tvm.ir.save_json(one.mod), target_json(one.target)) for one in build_inputs]
        return [_result(built) for built in self._pool(build_inputs[0].target).build(sources)]

    def close(self) -> None:
        """End the processes and delete what was built. May be called twice; happens at exit too."""
        _close_all(self._pools)

    def _pool(self, target: Any) -> ModuleBuilders:
        kind = target_kind(target) or "cpu"
        architecture = str(target.attrs.get("arch", "")).rstrip("abcdefghijklmnopqrstuvwxyz")
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


def _result(built: Built) -> Any:
    if built.library is None:
        return ms.builder.BuilderResult(None, f"{built.outcome}: {built.error}")
    return ms.builder.BuilderResult(str(built.library), None)
