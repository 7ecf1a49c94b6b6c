"""MetaSchedule's cost model: knows device and SM budget, and more than nothing from the first trial on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costmodel.arguments import check_path
from costmodel.arrays import FloatArray
from costmodel.failures import last_line
from costmodel.features._extract import COLUMNS
from costmodel.integrations.tvm import _model_file
from costmodel.integrations.tvm._database import latency_of
from costmodel.integrations.tvm._program import (
    TunedProgram,
    announce,
    platform_for,
    program_key,
    refuse_other_sms,
)
from costmodel.records._platform import Platform
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer.models._residual import FromScratch

_ANALYTIC = [column.name for column in COLUMNS].index("log2_analytic_s")
_MOST_LOG_RATIO = 50.0


@derived_object
class CostModel(ms.cost_model.PyCostModel):  # type: ignore[misc]
    """A cost model for every entry point of MetaSchedule that takes ``cost_model=``.

    Serves several tasks at once, each with measurements of its own: the pretrained model is adapted to those
    of the task that is asked about, failures included, and stays as it is.

    Args:
        model: A pretrained model (``costmodel.train``), the file of one (``costmodel train``, or ``save``
            of this class), or ``"default"`` for that of what ships (``costmodel.tuning.pretrain``). Without
            one, candidates are ranked by an analytic time first and learned from nothing.
        sms: SMs that the kernels will have, threads on a CPU; all unless given. Not beside ``platform``.
        platform: Where the kernels will run; this machine's device with ``sms`` SMs unless given.

    Attributes:
        platform: Where the kernels will run; None until that is found out.

    Example:
        >>> from costmodel.integrations.tvm import named_platform
        >>> model = CostModel(platform=named_platform("NVIDIA H100 80GB HBM3", sms=32))
        >>> model.platform.sms_granted
        32
    """

    def __init__(
        self,
        model: _model_file.AnyModel | None = None,
        *,
        sms: int | None = None,
        platform: Platform | None = None,
    ) -> None:
        super().__init__()
        refuse_other_sms(sms, platform)
        self.platform = platform
        self._sms = sms
        self._tasks: dict[str, TaskModel] = {}
        self._pretrained, self._loaded = _model_file.open_model(model)

    def load(self, path: str) -> None:
        """Take over what ``save`` wrote; what was known before is forgotten.

        Raises:
            CostModelError: The file cannot be read, is damaged or of another version.
        """
        model, measured = _model_file.load(check_path("path", path))
        self._pretrained, self._loaded, self._tasks = model, measured, {}

    def save(self, path: str) -> None:
        """Write the pretrained model and all measurements; reading runs no code from the file.

        Raises:
            CostModelError: It cannot be written.
        """
        measured = {key: (task.X, task.y) for key, task in self._tasks.items()}
        _model_file.save(check_path("path", path), self._pretrained, {**self._loaded, **measured})

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn the results of a task's candidates; one without run times failed."""
        latencies_s = np.array([latency_of(result.run_secs) for result in results])
        platform = self._platform_of(context)
        try:
            self._task(context, platform).learn([candidate.sch for candidate in candidates], latencies_s)
        except Exception as error:  # noqa: BLE001 (a tuning meets any program; TVM raises its own error types)
            announce(str(context.task_name), f"cannot be learned from ({last_line(error)})")

    def predict(self, context: Any, candidates: Sequence[Any]) -> FloatArray:
        """``(n,)`` float64 scores, higher is better, see ``Task.scores``; all alike where unknown."""
        platform = self._platform_of(context)
        try:
            return self._task(context, platform).scores([candidate.sch for candidate in candidates])
        except Exception as error:  # noqa: BLE001 (as above)
            announce(
                str(context.task_name), f"cannot be ranked ({last_line(error)}): candidates count as equals"
            )
            return np.ones(len(candidates))

    def _platform_of(self, context: Any) -> Platform:
        """Where the kernels will run, found out at the first call."""
        if self.platform is None:
            self.platform = platform_for(context.target, self._sms)
        return self.platform

    def _task(self, context: Any, platform: Platform) -> "TaskModel":
        """The task of a context, opened at its first call."""
        key = f"{program_key(context.mod)}@{platform.platform_id}"
        if key not in self._tasks:
            model = self._pretrained.model if self._pretrained else None
            program = TunedProgram(context.mod, context.target)
            announce(str(context.task_name), program.verdict)
            task = TaskModel(program, platform, model)
            if key in self._loaded:
                task.restore(*self._loaded[key])
            self._tasks[key] = task
        return self._tasks[key]


class TaskModel:
    """One task: its measurements so far, and a predictor that was adapted to them.

    A program that cannot be read, or has no pretrained model, is ranked by its analytic time until there are
    measurements, and learned from nothing after that.

    Args:
        program: The program.
        platform: Where it runs.
        model: The pretrained model, if there is one.

    Attributes:
        X: ``(m, d)`` measured candidates, in order.
        y: ``(m,)`` their latencies in seconds, inf for those that failed.
    """

    def __init__(self, program: TunedProgram, platform: Platform, model: TransferModel | None) -> None:
        self._program, self._platform = program, platform
        self._model = model if program.space else None
        self.X, self.y = np.empty((0, len(COLUMNS))), np.empty(0)
        self._predictor: Predictor | None = None
        self._unit: float | None = None

    def scores(self, schedules: Sequence[Any]) -> FloatArray:
        """``(n,)`` scores, higher is better, above 0: what MetaSchedule breeds in proportion to.

        They are ratios of predicted latencies: that of the best measured one over the candidate's own; before
        the first measurement, that of the best of the first candidates that were asked about.
        """
        if not schedules:
            return np.empty(0)
        score = self._score(self._program.features(schedules, self._platform))
        if self._unit is None:
            self._unit = float(score.max())
        return np.exp(np.clip(score - self._unit, -_MOST_LOG_RATIO, _MOST_LOG_RATIO))

    def learn(self, schedules: Sequence[Any], latencies_s: FloatArray) -> None:
        """Take in measurements; ``(n,)`` seconds, inf for those that failed."""
        if schedules:
            self.restore(self._program.features(schedules, self._platform), latencies_s)

    def restore(self, X: FloatArray, y: FloatArray) -> None:
        """Take in measurements by their features."""
        self.X, self.y = np.vstack([self.X, X]), np.append(self.y, y)
        if self.y.size:
            self._predictor = self._adapted()
            self._unit = float(self._score(self.X).max())

    def _adapted(self) -> Predictor:
        model = self._model or FromScratch().fit(self.X, self.y, np.zeros(len(self.y)))
        return model.adapt(self.X, self.y)

    def _score(self, X: FloatArray) -> FloatArray:
        """``(n,)`` -log latency up to a constant; never NaN."""
        predictor = self._predictor or self._model
        score = predictor.predict(X).score if predictor else -np.log(2.0) * X[:, _ANALYTIC]
        known = ~np.isnan(score)
        return np.where(known, score, score[known].min() if known.any() else 0.0)
