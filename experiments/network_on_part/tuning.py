"""Tuning the network's tasks, stock or with the plug-in; what is done stays done."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tuning_tasks import Tasks

from costmodel.spaces import register_tensor_intrinsics

DONE = "done.json"  # a phase's folder has it once the phase is over


@dataclass(frozen=True)
class Settings:
    """Of all phases alike.

    Attributes:
        kind: Kind of device.
        trials: Of each task.
        batch: Trials of a task that are built and measured at once.
        population: Of evolution.
        generations: Of evolution.
        threads: Of evolution, of XGBoost, and processes that build.
        model: File of a pretrained model for the plug-in; it learns from nothing without one.
        keep_builders: Whether stock has the plug-in's builder, whose processes stay.
    """

    kind: str
    trials: int
    batch: int
    population: int
    generations: int
    threads: int
    model: Path | None
    keep_builders: bool

    @property
    def rules(self) -> str:
        """Name of MetaSchedule's rules, postprocessors and mutators: those that our spaces are made of."""
        return {"cuda": "cuda", "cpu": "llvm"}[self.kind]


Pieces = dict[str, Any]  # what ``tune_relax`` is given by these names


@dataclass(frozen=True)
class Phase:
    """One way to tune.

    Attributes:
        name: Of its row and of its folder.
        sms: What it tunes for.
        pieces: Opens, from settings and ``sms``, what it tunes with.
    """

    name: str
    sms: int
    pieces: Callable[[Settings, int], AbstractContextManager[Pieces]]


@contextmanager
def stock(settings: Settings, _: int) -> Iterator[Pieces]:
    """MetaSchedule's own, which knows nothing of SMs and measures on the whole device.

    Its builder starts processes for each batch, in each of which a build first imports TVM's tensor
    intrinsics: the initialiser does that quickly, and the time-out is raised.
    """
    from costmodel.integrations.tvm import Builder
    from tvm.s_tir import meta_schedule as ms

    threads, start = settings.threads, register_tensor_intrinsics
    local = partial(ms.builder.LocalBuilder, max_workers=threads, timeout_sec=300.0, initializer=start)
    builder = Builder(max_workers=threads) if settings.keep_builders else local()
    try:
        yield {
            "builder": builder,
            "runner": ms.runner.LocalRunner(timeout_sec=100.0),
            "cost_model": ms.cost_model.XGBModel(num_tuning_cores=threads),
        }
    finally:
        if settings.keep_builders:
            builder.close()


@contextmanager
def plug_in(settings: Settings, sms: int) -> Iterator[Pieces]:
    """Ours, which measures and predicts for so many SMs."""
    from costmodel.integrations.tvm import Builder, CostModel, Runner

    builder = Builder(max_workers=settings.threads)
    runner = Runner(sms, kind=settings.kind)
    try:
        yield {
            "builder": builder,
            "runner": runner,
            "cost_model": CostModel(settings.model, platform=runner.platform),
        }
    finally:
        runner.close()
        builder.close()


def tune(phase: Phase, tasks: Tasks, settings: Settings, folder: Path, end: float) -> dict[str, Any]:
    """Tune into a database in the phase's folder, or take what an earlier run left there.

    A phase that was killed starts again from nothing, so that its seconds are those of one run.

    Args:
        phase: How, and for what.
        tasks: What.
        settings: Of all phases.
        folder: Of all phases.
        end: ``time.monotonic()`` after which no batch is started; what is found by then counts.

    Returns:
        ``trials``, ``failed``, ``seconds`` and ``cut`` of the phase.
    """
    folder = folder / phase.name
    if (folder / DONE).exists():
        return dict(json.loads((folder / DONE).read_text()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    with phase.pieces(settings, phase.sms) as pieces:
        counter = _run(tasks, settings, folder, end, pieces)
    found = {
        "trials": counter.trials,
        "failed": counter.failed,
        "seconds": time.monotonic() - start,
        "cut": counter.cut,
    }
    (folder / DONE).write_text(json.dumps(found) + "\n")
    return found


def _run(tasks: Tasks, settings: Settings, folder: Path, end: float, pieces: Pieces) -> "Counter":
    from tvm.s_tir import meta_schedule as ms

    counter = Counter(folder.name, end)
    rules = settings.rules
    try:
        ms.relax_integration.tune_relax(
            tasks.module,
            {},
            tasks.target,
            str(folder),
            max_trials_global=settings.trials * tasks.tuned,
            max_trials_per_task=settings.trials,
            op_names=list(tasks.names),
            num_trials_per_iter=settings.batch,
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), counter.callback()],
            space=ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules),
            strategy=ms.search_strategy.EvolutionarySearch(
                population_size=settings.population, genetic_num_iters=settings.generations
            ),
            seed=1,
            **pieces,
        )
    except Exception:
        if not counter.cut:
            raise
    return counter


class Counter:
    """Counts what a tuner tries, and stops it when the time is over.

    Attributes:
        trials: Kernels that were to be measured.
        failed: Of these, those that were not built or did not run.
        cut: Whether the time was over before the tuner was through.
    """

    def __init__(self, name: str, end: float) -> None:
        self.trials = self.failed = 0
        self.cut = False
        self._name, self._end = name, end

    def callback(self) -> Any:
        """What the tuner calls after each batch."""
        from tvm.ir.utils import derived_object
        from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback

        counter = self

        @derived_object
        class Count(PyMeasureCallback):
            def apply(self, *arguments: Any) -> None:
                *_, results = arguments
                counter.count(results)

        return Count()

    def count(self, results: Any) -> None:
        """Count the results of one batch.

        Raises:
            TimeoutError: The time is over.
        """
        self.trials += len(results)
        self.failed += sum(result.run_secs is None for result in results)
        print(f"{self._name}: {self.trials} trials, {self.failed} failed", file=sys.stderr, flush=True)
        if time.monotonic() > self._end:
            self.cut = True
            raise TimeoutError("the time of this phase is over")


def open_database(phase: Phase, folder: Path) -> Any:
    """The database that a phase left."""
    from tvm.s_tir import meta_schedule as ms

    return ms.database.JSONDatabase(work_dir=str(folder / phase.name))
