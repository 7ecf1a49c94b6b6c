"""Tuning the network's tasks in one way; what is done stays done."""

import json
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuning_tasks import Tasks
from tuning_ways import Phase, Pieces, Settings

DONE = "done.json"  # a phase's folder has it once the phase is over


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
        ``trials``, ``failed``, ``seconds``, ``cut`` and ``asked`` of the phase.

    Raises:
        ValueError: The folder holds what was tuned with other settings.
    """
    folder = folder / phase.name
    asked = {"of": list(tasks.names), **asdict(settings), "model": settings.model and settings.model.name}
    if (folder / DONE).exists():
        return _earlier(folder / DONE, asked)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    with phase.pieces(settings, folder, phase.sms) as pieces:
        counter = _run(tasks, settings, folder, end, pieces)
    found = {
        "trials": counter.trials,
        "failed": counter.failed,
        "seconds": time.monotonic() - start,
        "cut": counter.cut,
        "asked": asked,
    }
    (folder / DONE).write_text(json.dumps(found) + "\n")
    return found


def _earlier(file: Path, asked: dict[str, Any]) -> dict[str, Any]:
    found = dict(json.loads(file.read_text()))
    if found["asked"] != asked:
        raise ValueError(
            f"The settings must be those of {file}, {found['asked']}, but got {asked}. Name another --json."
        )
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
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), counter.callback()],
            space=ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules),
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
