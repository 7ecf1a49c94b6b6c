"""All plug-ins at once."""

from pathlib import Path
from typing import Any

from costmodel.integrations.tvm._compiled_stage import CompiledStage
from costmodel.integrations.tvm._cost_model import CostModel
from costmodel.integrations.tvm._database import Database
from costmodel.integrations.tvm._measuring import Builder, Runner
from costmodel.integrations.tvm._model_file import DEFAULT, AnyModel
from costmodel.integrations.tvm._strategy import SearchStrategy
from costmodel.integrations.tvm._task_scheduler import TaskScheduler
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records._platform import TargetKind

_BATCH = 16


def tuning_options(
    database: Path | str,
    *,
    sms: int | None = None,
    kind: TargetKind = "cuda",
    model: AnyModel | None = None,
    compiled_per_trial: int | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Return arguments that make ``ms.tune_tir`` or ``tune_relax`` tune for an SM budget.

    They stand beside any others, such as ``num_trials_per_iter`` and ``seed``. ``tune_tasks`` takes all but
    ``strategy``, which is then given to each ``TuneContext``.

    This also loads TVM's tensor intrinsics, in a fraction of the time that the first ``TuneContext`` would
    take.

    Args:
        database: File for the measurements, ``.jsonl``.
        sms: Number of SMs available to kernels (threads on a CPU). Default: all.
        kind: Kind of device; it must match the target.
        model: A pretrained transfer model, its file, or ``"default"`` for the model that ``costmodel train``
            makes from the shipped data.
        compiled_per_trial: Number of candidates to compile for each one that is measured, on a GPU with the
            model ``"default"``: a second model chooses by their machine code. None for as many as the builder
            makes of all trials of a task at once, 4 at most.
        settings: Settings of the runner, see ``Runner``.

    Returns:
        ``builder``, ``runner``, ``cost_model``, ``strategy``, ``database`` and ``task_scheduler``. The model
        learns from each batch of at most 16 before the next. Worker processes end with this process, or when
        the builder and the runner are closed with ``close``.

    Raises:
        CostModelError: If the device cannot be opened or cannot grant this number of SMs, or a file cannot be
            read.
    """
    register_tensor_intrinsics()
    builder, runner = Builder(), Runner(sms, kind=kind, **settings)
    stage = CompiledStage(builder, per_trial=compiled_per_trial) if model == DEFAULT else None
    return {
        "builder": builder,
        "runner": runner,
        "cost_model": CostModel(model, platform=runner.platform),
        "strategy": SearchStrategy(model, platform=runner.platform, batch=_BATCH, stage=stage),
        "database": Database(database, runner.platform),
        "task_scheduler": TaskScheduler(),
    }
