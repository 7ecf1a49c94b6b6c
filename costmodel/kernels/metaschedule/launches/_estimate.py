"""Launches of configs from workload and decisions alone: nothing is lowered."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule.launches._row_launch import is_row_reduction, row_launches
from costmodel.kernels.metaschedule.launches._tiled_launch import (
    is_tensorised,
    is_tiled,
    tensor_launch,
    tiled_launch,
)
from costmodel.records._candidate import DATA_FACTS, ConfigBatch, KernelLaunch


def estimate_launches(batch: ConfigBatch) -> dict[str, FloatArray]:
    """What the lowered program of each config would say of the kernels that it launches.

    Knows the sketches of MetaSchedule for a GPU. Where they are multi-level tiled, every number is that of
    ``KernelLaunch``; ``shared_bytes`` of Tensor Core sketches is that of merged buffers.

    Args:
        batch: Configs of one sketch.

    Returns:
        Each field of ``KernelLaunch`` as ``(n, l)`` for l launches; ``(n, 1)`` of NaN where the decisions
        tell no launches, as of a foreign kernel or on a CPU.

    Example:
        >>> from costmodel.records import Config, Workload
        >>> tiles = {"tile.C.i": (2, 1, 16, 2, 1), "tile.C.j": (4, 1, 8, 1, 2), "tile.C.k": (8, 1, 8)}
        >>> fetches = {"cooperative_fetch.A_shared": 4, "cooperative_fetch.B_shared": 1}
        >>> config = Config({"sketch": 0, **tiles, **fetches, "unroll_explicit.root": 64})
        >>> launches = estimate_launches(
        ...     ConfigBatch.from_configs(Workload.parse("matmul-m64-n64-k64"), [config])
        ... )
        >>> launches["blocks"], launches["threads_per_block"], launches["local_bytes"]
        (array([[8.]]), array([[128.]]), array([[16.]]))
    """
    if not batch.workload.is_foreign and batch.size:
        if is_tiled(batch):
            return _complete(_columns(tiled_launch(batch)))
        if is_tensorised(batch):
            return _complete(_columns(tensor_launch(batch)))
        if is_row_reduction(batch):
            return _complete(row_launches(batch))
    return {field: np.full((batch.size, 1), np.nan) for field in KernelLaunch.__struct_fields__}


def _columns(launch: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """``(n,)`` arrays of a single launch as ``(n, 1)``."""
    return {field: values[:, None] for field, values in launch.items()}


def _complete(launches: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """With what only data decide, of which there is none."""
    return launches | dict.fromkeys(DATA_FACTS, np.zeros_like(launches["blocks"]))
