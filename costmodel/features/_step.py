"""Features of a step of a tiled loop nest: what a block stages of each operand, how, and what it multiplies.

Sums over both operands, which the columns of launches have, do not tell a kernel whose copies are both done
in vectors from one that copies the larger of them element by element.
"""

from collections.abc import Callable

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features._feature import Feature, Values, columns_of, values_of
from costmodel.kernels.metaschedule.launches._step import Step, step_of
from costmodel.records._config_batch import ConfigBatch


def _plain(name: str, formula: Callable[[Step], FloatArray]) -> Feature[Step]:
    return Feature(name, "1", "config", formula)


def _log2(name: str, unit: str, formula: Callable[[Step], FloatArray]) -> Feature[Step]:
    return Feature(f"log2_{name}", f"log2({unit})", "config", lambda step: np.log2(formula(step)))


STEP_FEATURES: tuple[Feature[Step], ...] = (
    _log2("first_staged_bytes", "byte", lambda step: step.staged_bytes[0]),
    _log2("second_staged_bytes", "byte", lambda step: step.staged_bytes[1]),
    _plain("first_vector_width", lambda step: step.lanes[0]),
    _plain("second_vector_width", lambda step: step.lanes[1]),
    _plain("result_vector_width", lambda step: step.lanes[2]),
    _plain("staged_copies", lambda step: step.copies),
    _plain("on_tensor_cores", lambda step: step.on_tensor_cores),
    _plain("second_by_columns", lambda step: step.by_columns),
    _log2("block_rows", "1", lambda step: step.block[0]),
    _log2("block_columns", "1", lambda step: step.block[1]),
    _log2("block_depth", "1", lambda step: step.block[2]),
    _log2("inner_rows", "1", lambda step: step.inner[0]),
    _log2("inner_columns", "1", lambda step: step.inner[1]),
    _log2("inner_depth", "1", lambda step: step.inner[2]),
)
STEP_COLUMNS = columns_of(STEP_FEATURES)


def step_values(batch: ConfigBatch) -> list[Values]:
    """``(n,)`` numbers for each of ``STEP_FEATURES``; NaN where the decisions tell no step."""
    step = step_of(batch)
    return [np.nan] * len(STEP_FEATURES) if step is None else values_of(STEP_FEATURES, step)
