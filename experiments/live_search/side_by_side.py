"""What each search had found when, measured again side by side by one stopwatch."""

import json
from collections.abc import Mapping
from statistics import median
from typing import Any

from searches import Case

VISITS = 3
MOST = 12  # the last improvements of a search that are measured again


def latencies_of_improvements(case: Case, searches: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The searches with ``latency_s`` for each improvement, and ``repeat_s``, the A/A repeat of the last.

    All improvements are built, then measured in turn, ``VISITS`` times over.
    """
    from tvm.s_tir import Schedule
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.schedule import Trace

    from costmodel.integrations import tvm as ours
    from costmodel.kernels.metaschedule import open_space, register_tensor_intrinsics
    from costmodel.records import Workload

    register_tensor_intrinsics()
    space = open_space(Workload.parse(case.workload), case.kind)

    def module_of(trace: str) -> Any:
        schedule = Schedule(space.module)
        Trace.apply_json_to_schedule(json.loads(trace), schedule)
        return schedule.mod

    for found in searches.values():
        found["improvements"] = found["improvements"][-MOST:]
    steps = [step for found in searches.values() for step in found["improvements"]]
    modules = [module_of(step.pop("trace")) for step in steps]
    builder, runner = (
        ours.Builder(max_workers=case.threads),
        ours.Runner(case.sms or None, kind=case.kind, build_workers=1),
    )
    built = builder.build([ms.builder.BuilderInput(module, space.target) for module in modules])
    inputs = [
        ms.runner.RunnerInput(
            str(b.artifact_path), case.kind, ms.arg_info.ArgInfo.from_entry_func(module, remove_preproc=True)
        )
        for b, module in zip(built, modules, strict=True)
    ]
    visits = [[future.result().run_secs for future in runner.run(inputs)] for _ in range(VISITS + 1)]
    builder.close()
    runner.close()
    for step, runs in zip(steps, zip(*visits, strict=True), strict=True):
        latencies = [median(float(s) for s in secs) for secs in runs]
        step["latency_s"], step["repeat_s"] = median(latencies[:VISITS]), latencies[VISITS]
    return dict(searches)
