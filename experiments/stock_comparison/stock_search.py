"""Stock MetaSchedule, measured by a runner of ours."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from costmodel.collector import CpuRunner, CudaRunner
from costmodel.collector.runners._base import Request
from costmodel.errors import CostModelError
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Candidate, Workload

AnyRunner = CudaRunner | CpuRunner

BATCH = 64  # trials that the stock tuner takes at once
SIDE_BY_SIDE = 8
FAILED_S = 1e10  # what the stock tuner writes into its database for a kernel that failed


@dataclass(frozen=True)
class Settings:
    """Of a stock search; ``population`` and ``generations`` are those of its evolution.

    Attributes:
        rules: Name of MetaSchedule's rules, postprocessors and mutators.
        threads: Of evolution and of XGBoost.
        end: ``time.monotonic()`` after which no batch is started.
    """

    rules: str
    trials: int
    population: int
    generations: int
    threads: int
    end: float


@dataclass
class Search:
    """What a search did.

    Attributes:
        trials: Kernels that it asked to be measured.
        foreign: Of these, those that are no config of our space and were told to it as failed.
        failed: Of these, those that could not be built, ran into an error or computed something wrong.
        seconds: That it took.
        ran: Seconds and candidate of the others, by candidate id.
    """

    trials: int = 0
    foreign: int = 0
    failed: int = 0
    seconds: float = 0.0
    ran: dict[str, tuple[float, Candidate]] = field(default_factory=dict)

    @property
    def fastest(self) -> list[Candidate]:
        """Those that ran, fastest first."""
        return [candidate for _, candidate in sorted(self.ran.values(), key=lambda item: item[0])]


def search_stock(runner: AnyRunner, workload: Workload, kind: str, settings: Settings) -> Search:
    """Stock rules, evolutionary search, XGBoost cost model and database, on the whole device.

    The loop is that of TVM's task scheduler with its default callbacks: src/s_tir/meta_schedule,
    task_scheduler/task_scheduler.cc, measure_callback/add_to_database.cc and update_cost_model.cc.
    """
    register_tensor_intrinsics()  # as TuneContext would, but quickly
    from tvm.s_tir import meta_schedule as ms

    start, search = time.monotonic(), Search()
    space = open_space(workload, kind)
    module = space.module
    context = _context(module, space.target, settings)
    database, model = ms.database.MemoryDatabase(), ms.cost_model.XGBModel(num_tuning_cores=settings.threads)
    entry = database.commit_workload(module)
    context.pre_tuning(settings.trials, BATCH, None, database, model)
    while time.monotonic() < settings.end and (batch := context.generate_measure_candidates()):
        measured = _measure(runner, space, batch, search)
        results = [ms.runner.RunnerResult([s] if s else None, None if s else "failed") for s in measured]
        context.notify_runner_results(batch, results)
        for asked, s in zip(batch, measured, strict=True):
            record = (asked.sch.trace, entry, [s or FAILED_S], space.target, asked.args_info)
            database.commit_tuning_record(ms.database.TuningRecord(*record))
        model.update(context, batch, results)
        search.seconds = time.monotonic() - start
        best_s = min((s for s, _ in search.ran.values()), default=math.nan)
        print(
            f"{workload.name}: {search.trials} trials, {search.seconds:.0f} s, best {best_s * 1e6:.2f} us",
            file=sys.stderr,
            flush=True,
        )
    context.post_tuning()
    return search


def _context(module: Any, target: Any, settings: Settings) -> Any:
    """MetaSchedule's context for one task, with its defaults for all that is not in the settings."""
    from tvm.s_tir import meta_schedule as ms

    rules = settings.rules
    return ms.TuneContext(
        mod=module,
        target=target,
        space_generator=ms.space_generator.PostOrderApply(
            sch_rules=rules, postprocs=rules, mutator_probs=rules
        ),
        search_strategy=ms.search_strategy.EvolutionarySearch(
            population_size=settings.population, genetic_num_iters=settings.generations
        ),
        rand_state=1,
        num_threads=settings.threads,
    )


def _measure(runner: AnyRunner, space: Any, batch: Sequence[Any], search: Search) -> list[float | None]:
    """Seconds of each of MetaSchedule's candidates, None for those that fail; kept in ``search``."""
    candidates = [_candidate(space, asked.sch.trace) for asked in batch]
    ours = list({c.candidate_id: c for c in candidates if c}.values())
    platform = runner.platform()
    jobs = [
        runner.submit([Request(c, platform) for c in ours[i : i + SIDE_BY_SIDE]])
        for i in range(0, len(ours), SIDE_BY_SIDE)
    ]
    measurements = [measurement for job in jobs for measurement in job.result()]
    search.ran |= {
        m.candidate.candidate_id: (m.latency_s, m.candidate) for m in measurements if m.latencies_s
    }
    search.trials += len(candidates)
    search.foreign += candidates.count(None)
    search.failed += sum(c is not None and c.candidate_id not in search.ran for c in candidates)
    return [search.ran[c.candidate_id][0] if c and c.candidate_id in search.ran else None for c in candidates]


def _candidate(space: Any, trace: Any) -> Candidate | None:
    """Our candidate of a trace; None if it is no config of our space."""
    try:
        return Candidate(space.workload, space.name, space.config_of(trace))
    except CostModelError:
        return None
