"""What each search had found when, measured again side by side by one stopwatch."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Any

from searches import BUILD_TIMEOUT_S, Settings

VISITS = 3
Steps = Sequence[Mapping[str, Any]]


def measure_side_by_side(
    send: Callable[[Any], None], groups: Mapping[tuple[str, int], Steps], settings: Settings
) -> None:
    """Measure the improvements of searches again; those of a workload on so many SMs form a group.

    All kernels of a group are built, then measured in turn, ``VISITS`` times over and once more. Sends
    workload, SMs, and for each kernel the median of the visits and what the last took, None where it failed.
    """
    from costmodel.integrations import tvm as ours

    builder = ours.Builder(max_workers=settings.threads, timeout_s=BUILD_TIMEOUT_S)
    runner = cache(lambda sms: ours.Runner(sms or None, kind=settings.kind, build_workers=1))
    send(None)  # the clock starts
    for (workload, sms), steps in groups.items():
        send((workload, sms, latencies_of(workload, steps, builder, runner(sms), settings.kind)))


def latencies_of(
    workload: str, steps: Steps, builder: Any, runner: Any, kind: str
) -> list[tuple[float, float] | None]:
    """Latency and repeat of the kernel of each step, measured in turn; None for one that fails."""
    from tvm.s_tir import Schedule
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.schedule import Trace

    from costmodel.kernels import open_space
    from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
    from costmodel.records import Workload

    register_tensor_intrinsics()
    space = open_space(Workload.parse(workload), kind)

    def module_of(trace: str) -> Any:
        schedule = Schedule(space.module)
        Trace.apply_json_to_schedule(json.loads(trace), schedule)
        return schedule.mod

    modules = [module_of(step["trace"]) for step in steps]
    built = builder.build([ms.builder.BuilderInput(module, space.target) for module in modules])
    inputs = [
        ms.runner.RunnerInput(
            str(b.artifact_path), kind, ms.arg_info.ArgInfo.from_entry_func(module, remove_preproc=True)
        )
        for b, module in zip(built, modules, strict=True)
    ]
    visits = [[future.result().run_secs for future in runner.run(inputs)] for _ in range(VISITS + 1)]
    return [_summary(runs) for runs in zip(*visits, strict=True)]


def _summary(runs: Sequence[Any]) -> tuple[float, float] | None:
    """Latency and its repeat, seconds; None if a visit failed."""
    if not all(runs):
        return None
    latencies = [median(float(s) for s in secs) for secs in runs]
    return median(latencies[:VISITS]), latencies[VISITS]
