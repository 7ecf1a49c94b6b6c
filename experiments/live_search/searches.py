"""The searches that are compared, each through ``ms.tune_tir``. A search runs in a process of its own."""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import stock_part

STOCK, STOCK_BUILT, OURS = "stock", "stock, our builders", "costmodel"
SEARCHES = (STOCK, STOCK_BUILT, OURS)
# Stock gives up a build after 30 s. That includes an import of 15 to 90 s, which each batch pays for anew.
BUILD_TIMEOUT_S = 600.0
STOCK_BATCH, OUR_BATCH = 64, 16  # ``num_trials_per_iter``; 64 is the default of ``tune_tir``

Improvement = Mapping[str, Any]  # seconds since the start, run_s as the search measured it, and its trace


@dataclass(frozen=True)
class Case:
    """What is tuned, where, and with how much effort.

    Attributes:
        workload: Name of the workload.
        sms: SMs of the green context, or threads; 0 for the whole device.
        kind: Kind of device.
        trials: Measurements of each search.
        threads: Processes and threads that a search may use.
        model: Path of the pretrained model.
    """

    workload: str
    sms: int
    kind: str
    trials: int
    threads: int
    model: str


def search(name: str, case: Case) -> dict[str, Any]:
    """Tune; importing TVM and making the module are off the clock, all that a search starts is on it."""
    from tvm.s_tir import meta_schedule as ms

    from costmodel.kernels.metaschedule import open_space, register_tensor_intrinsics
    from costmodel.records import Workload

    register_tensor_intrinsics()  # as TuneContext would, but quickly
    space = open_space(Workload.parse(case.workload), case.kind)
    start = time.monotonic()
    log, parts = Log(start), _parts(ms, name, case)
    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            space.module,
            space.target,
            folder,
            case.trials,
            space=_rules(ms, case),
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), log.callback()],
            num_tuning_cores=case.threads,
            seed=1,
            **parts,
        )
    seconds = time.monotonic() - start
    for part in parts.values():
        if hasattr(part, "close"):
            part.close()
    return {"seconds": seconds, "measured": log.measured, "failed": log.failed} | {
        "improvements": log.improvements
    }


def _parts(ms: Any, name: str, case: Case) -> dict[str, Any]:
    """What a search is made of."""
    from costmodel.integrations import tvm as ours

    if name == OURS:
        runner = ours.Runner(case.sms or None, kind=case.kind, build_workers=1)
        return {
            "builder": ours.Builder(max_workers=case.threads),
            "runner": runner,
            "cost_model": ours.CostModel(case.model, platform=runner.platform),
            "strategy": ours.SearchStrategy(case.model, platform=runner.platform),
            "num_trials_per_iter": OUR_BATCH,
        }
    evaluate = partial(stock_part.evaluate, case.sms) if case.sms else None
    builder = (
        ours.Builder(max_workers=case.threads, timeout_s=BUILD_TIMEOUT_S)
        if name == STOCK_BUILT
        else ms.builder.LocalBuilder(max_workers=case.threads, timeout_sec=BUILD_TIMEOUT_S)
    )
    return {
        "builder": builder,
        "runner": ms.runner.LocalRunner(f_run_evaluator=evaluate),
        "num_trials_per_iter": STOCK_BATCH,
    }


def _rules(ms: Any, case: Case) -> Any:
    """The rules of the workload's dtype; the default ones import what takes a slow machine a minute."""
    half = "cuda-tensorcore" if case.workload.endswith("float16") else "cuda"
    rules = half if case.kind == "cuda" else "llvm"
    return ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules)


class Log:
    """Every candidate that was faster than all before it, with the time at which it was known."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._best_s = float("inf")
        self.measured = self.failed = 0
        self.improvements: list[Improvement] = []

    def callback(self) -> Any:
        """The log as TVM wants it."""
        from tvm.ir.utils import derived_object
        from tvm.s_tir import meta_schedule as ms

        log = self

        @derived_object
        class Callback(ms.measure_callback.PyMeasureCallback):
            def apply(self, _scheduler, _task, candidates, _built, results) -> None:
                log.add(candidates, results)

        return Callback()

    def add(self, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Note what a batch found."""
        elapsed_s = time.monotonic() - self._start
        runs = [[float(s) for s in r.run_secs] if r.run_secs else [] for r in results]
        for candidate, secs in zip(candidates, runs, strict=True):
            self.measured += 1
            self.failed += not secs
            run_s = sorted(secs)[len(secs) // 2] if secs else float("inf")
            if run_s < self._best_s:
                self._best_s = run_s
                trace = json.dumps(candidate.sch.trace.as_json(), default=lambda number: number.value)
                self.improvements.append({"elapsed_s": elapsed_s, "run_s": run_s, "trace": trace})
