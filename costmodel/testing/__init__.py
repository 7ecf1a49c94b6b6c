"""Public test utilities: landscapes with a known formula, and contract checks for extensions."""

from costmodel.testing._engine_contract import ENGINE_CHECKS, EngineCase
from costmodel.testing._landscapes import (
    LANDSCAPE_DEVICE,
    LANDSCAPE_SMS,
    LANDSCAPE_WORKLOADS,
    gpu_landscape,
    landscape_latency,
    landscape_platform,
)
from costmodel.testing._learner_contract import LEARNER_CHECKS, check_learner, contract_rows
from costmodel.testing._runner_contract import RUNNER_CHECKS, RunnerCase
from costmodel.testing._source_contract import SOURCE_CHECKS, SourceCase
from costmodel.testing._tracker_contract import TRACKER_CHECKS
from costmodel.testing._transfer_contract import TRANSFER_CHECKS

__all__ = [
    "ENGINE_CHECKS",
    "LANDSCAPE_DEVICE",
    "LANDSCAPE_SMS",
    "LANDSCAPE_WORKLOADS",
    "LEARNER_CHECKS",
    "RUNNER_CHECKS",
    "SOURCE_CHECKS",
    "TRACKER_CHECKS",
    "TRANSFER_CHECKS",
    "EngineCase",
    "RunnerCase",
    "SourceCase",
    "check_learner",
    "contract_rows",
    "gpu_landscape",
    "landscape_latency",
    "landscape_platform",
]
