"""All plug-ins at once."""

from pathlib import Path
from typing import Any

from costmodel.integrations.tvm._builder import Builder
from costmodel.integrations.tvm._cost_model import CostModel
from costmodel.integrations.tvm._database import Database
from costmodel.integrations.tvm._model_file import AnyModel
from costmodel.integrations.tvm._runner import Runner
from costmodel.integrations.tvm._strategy import SearchStrategy
from costmodel.kernels.metaschedule import register_tensor_intrinsics
from costmodel.records import TargetKind

_BATCH = 16


def tuning_options(
    database: Path | str,
    *,
    sms: int | None = None,
    kind: TargetKind = "cuda",
    model: AnyModel | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Keyword arguments that make ``ms.tune_tir``, ``tune_relax`` or ``tune_tasks`` tune for an SM budget.

    Loads TVM's tensor intrinsics too, in a fraction of the time that its first ``TuneContext`` would take.

    Args:
        database: File that keeps what was measured, ``.jsonl``.
        sms: SMs that kernels will have, threads on a CPU; all unless given.
        kind: Kind of device, that of the target.
        model: A pretrained transfer model, its file, or ``"default"`` for that which ``costmodel train``
            makes of what ships.
        settings: Of the runner, see ``Runner``.

    Returns:
        ``builder``, ``runner``, ``cost_model``, ``strategy``, ``database`` and ``num_trials_per_iter``: each
        batch of 16 is learned from before the next. Worker processes end with this one, or by
        ``close`` of the first two.

    Raises:
        CostModelError: The device cannot be opened or grant that many SMs, or a file not be read.
    """
    register_tensor_intrinsics()
    runner = Runner(sms, kind=kind, **settings)
    return {
        "builder": Builder(),
        "runner": runner,
        "cost_model": CostModel(model, platform=runner.platform),
        "strategy": SearchStrategy(model, platform=runner.platform),
        "database": Database(database, runner.platform),
        "num_trials_per_iter": _BATCH,
    }
