"""The searches that are compared, each through ``ms.tune_tir``. A search runs in a process of its own."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import stock_part

STOCK, STOCK_BUILT, FAIR, OURS = "stock", "stock, our builders", "stock, early model", "costmodel"
SEARCHES = (OURS, FAIR, STOCK)  # those that can be run; ``STOCK_BUILT`` is in the first run's results only
# Stock gives up a build after 30 s. That includes an import of 15 to 90 s, which each batch pays for anew.
STOCK_BUILD_TIMEOUT_S = 600.0
BUILD_TIMEOUT_S = 30.0  # for our builders, where the import is not on this time
STOCK_BATCH, BATCH = 64, 16  # ``num_trials_per_iter``; 64 is the default of ``tune_tir``
# Results until which ``XGBModel`` predicts at random: 100 as shipped, so that 128 trials hardly use it.
EARLY_WARM_UP = 16


@dataclass(frozen=True)
class Case:
    """What is tuned, and where.

    Attributes:
        workload: Name of the workload.
        sms: SMs of the green context, or threads; 0 for the whole device.
        seed: Seed of the search.
    """

    workload: str
    sms: int
    seed: int


@dataclass(frozen=True)
class Settings:
    """How it is tuned.

    Attributes:
        kind: Kind of device.
        threads: Processes and threads that a search may use.
        model: Path of the pretrained model; None to learn from nothing.
        population: Of stock's evolution.
        generations: Of stock's evolution.
    """

    kind: str
    threads: int
    model: str | None
    population: int
    generations: int


def search(send: Callable[[Any], None], name: str, case: Case, settings: Settings, trials: int) -> None:
    """Tune, and send what each batch found.

    Importing TVM and making the module are off the clock, all that a search starts is on it.
    """
    from tvm.s_tir import meta_schedule as ms

    from costmodel.kernels import open_space
    from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
    from costmodel.records import Workload

    register_tensor_intrinsics()  # as TuneContext would, but quickly
    space = open_space(Workload.parse(case.workload), settings.kind)
    log = Log(send)
    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            space.module,
            space.target,
            folder,
            trials,
            space=design_rules(ms, case, settings.kind),
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), log.callback()],
            num_tuning_cores=settings.threads,
            seed=case.seed,
            **_parts(ms, name, case, settings),
        )


def _parts(ms: Any, name: str, case: Case, settings: Settings) -> dict[str, Any]:
    """What a search is made of. Ours and stock with an early model differ in strategy and model only."""
    if name == STOCK:
        return _stock_parts(ms, case, settings)
    from costmodel.integrations import tvm as ours

    runner = ours.Runner(case.sms or None, kind=settings.kind, build_workers=1)
    parts = {
        "builder": ours.Builder(max_workers=settings.threads, timeout_s=BUILD_TIMEOUT_S),
        "runner": runner,
        "num_trials_per_iter": BATCH,
    }
    if name == FAIR:
        return parts | {
            "cost_model": ms.cost_model.XGBModel(
                num_warmup_samples=EARLY_WARM_UP, num_tuning_cores=settings.threads
            ),
            "strategy": _evolution(ms, settings),
        }
    return parts | {
        "cost_model": ours.CostModel(settings.model, platform=runner.platform),
        "strategy": ours.SearchStrategy(settings.model, platform=runner.platform, seed=case.seed),
    }


def _stock_parts(ms: Any, case: Case, settings: Settings) -> dict[str, Any]:
    """As shipped, but for the time-out of builds."""
    evaluate = partial(stock_part.evaluate, case.sms) if case.sms else None
    return {
        "builder": ms.builder.LocalBuilder(max_workers=settings.threads, timeout_sec=STOCK_BUILD_TIMEOUT_S),
        "runner": ms.runner.LocalRunner(f_run_evaluator=evaluate),
        "strategy": _evolution(ms, settings),
        "num_trials_per_iter": STOCK_BATCH,
    }


def _evolution(ms: Any, settings: Settings) -> Any:
    return ms.search_strategy.EvolutionarySearch(
        population_size=settings.population, genetic_num_iters=settings.generations
    )


def design_rules(ms: Any, case: Case, kind: str) -> Any:
    """The rules of the workload's dtype; the default ones import what takes a slow machine a minute."""
    half = "cuda-tensorcore" if case.workload.endswith("float16") else "cuda"
    rules = half if kind == "cuda" else "llvm"
    return ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules)


class Log:
    """Sends what a search found: how many ran, and every candidate that beat all before it, with its time.

    Args:
        send: Takes ``elapsed_s`` since the log was made, ``measured`` and ``failed`` so far, and the new
            ``improvements``. It is called once at the start.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._best_s = float("inf")
        self._measured = self._failed = 0
        self._improvements: list[dict[str, Any]] = []
        self._start = time.monotonic()
        self.send()

    def callback(self) -> Any:
        """The log as TVM takes it: it sends once a batch."""
        from tvm.ir.utils import derived_object
        from tvm.s_tir import meta_schedule as ms

        log = self

        @derived_object
        class Callback(ms.measure_callback.PyMeasureCallback):
            def apply(self, _scheduler, _task, candidates, _built, results) -> None:
                for candidate, result in zip(candidates, results, strict=True):
                    secs = sorted(float(s) for s in result.run_secs or ())
                    run_s = secs[len(secs) // 2] if secs else float("inf")
                    log.tell(run_s, lambda candidate=candidate: candidate.sch)
                log.send()

        return Callback()

    def tell(self, run_s: float, schedule: Callable[[], Any]) -> None:
        """Take in a candidate; inf seconds if it failed. Its schedule is asked for if it beat all before."""
        self._measured += 1
        self._failed += run_s == float("inf")
        if run_s < self._best_s:
            self._best_s = run_s
            trace = json.dumps(schedule().trace.as_json(), default=lambda number: number.value)
            elapsed_s = time.monotonic() - self._start
            self._improvements.append(
                {"elapsed_s": elapsed_s, "trial": self._measured, "run_s": run_s, "trace": trace}
            )

    def send(self) -> None:
        """Send what was told since."""
        found, self._improvements = self._improvements, []
        self._send(
            {
                "elapsed_s": time.monotonic() - self._start,
                "measured": self._measured,
                "failed": self._failed,
                "improvements": found,
            }
        )
