"""Launches of configs from workload and decisions alone: nothing is lowered.

A reduction over rows (softmax and the norms) is a chain of stages: each but the last reduces a row to a
number, the last writes a result for each element. A stage is run in one of three ways, which the sketch and
its ``split.*`` decisions tell:

- across threads: one block a row, whose ``split`` threads share the row; such stages in a row share a kernel
  with the last, and pass numbers on through shared memory;
- a row a thread: ``split`` threads of a block have a row each, and the number grows in device memory;
- an element a thread: the last stage, where it has a kernel of its own.

Threads that are masked count in full, as they do in the lowered program.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule._tiled_launch import (
    is_tensorised,
    is_tiled,
    tensor_launch,
    tiled_launch,
    unroll_steps,
)
from costmodel.records._candidate import DATA_FACTS, SKETCH, ConfigBatch, KernelLaunch
from costmodel.records._workload import DTYPE_BYTES

_NUMBER_BYTES = 4  # what a row is reduced to is float32 in every dtype
# Without a ``split``, less than two warps of items have one, and more than so many are looped over.
_WARP = 32
_MOST_BLOCKS, _MOST_THREADS = 256, 1024


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


@dataclass(frozen=True)
class _Stage:
    """What a stage does for each element of a row.

    Attributes:
        split: Name of its decision, ``split.<block>``.
        inputs: Elements of inputs that it loads.
        numbers: For each stage before, how often it loads that stage's number.
        flops: Operations.
    """

    split: str
    inputs: int
    numbers: tuple[int, ...]
    flops: int


_STAGES: Mapping[str, tuple[_Stage, ...]] = {
    "softmax": (
        _Stage("split.T_softmax_maxelem", 1, (), 1),
        _Stage("split.T_softmax_expsum", 1, (1,), 3),
        _Stage("split.T_softmax_norm", 1, (1, 1), 3),
    ),
    "layer_norm": (
        _Stage("split.x_sum", 1, (), 1),
        _Stage("split.x_var_sum", 2, (2,), 6),
        _Stage("split.T_layer_norm", 3, (1, 1), 8),
    ),
    "rms_norm": (
        _Stage("split.T_multiply_red", 2, (), 2),
        _Stage("split.T_rms_norm", 2, (1,), 5),
    ),
}


def is_row_reduction(batch: ConfigBatch) -> bool:
    """Whether the batch schedules a reduction over rows as a GPU's sketch does; all must be of one sketch."""
    stages = _STAGES.get(batch.workload.operator.anchor)
    sketch = batch.decisions.get(SKETCH, np.empty(0))
    return (
        stages is not None
        and len(np.unique(sketch)) == 1
        and all(kernel.is_decided(batch) for kernel in _kernels(stages, int(sketch[0])))
    )


def row_launches(batch: ConfigBatch) -> dict[str, FloatArray]:
    """Each field of ``KernelLaunch`` as ``(n, l)``."""
    stages = _STAGES[batch.workload.operator.anchor]
    kernels = [kernel.launch(batch) for kernel in _kernels(stages, int(batch.decisions[SKETCH][0]))]
    return {field: np.column_stack([launch[field] for launch in kernels]) for field in kernels[0]}


@dataclass(frozen=True)
class _Grid:
    """Blocks, threads of a block, elements that all threads visit, values that they store; all ``(n,)``."""

    blocks: FloatArray
    threads: FloatArray
    elements: FloatArray
    stores: FloatArray


def _binding(items: int, split: NDArray[Any] | None, size: int) -> tuple[FloatArray, FloatArray]:
    """``(size,)`` blocks, and threads of each, that have an item a thread (``AutoBind`` of TVM)."""
    if split is not None:
        return np.ceil(items / split), split.astype(np.float64)
    threads = min(_WARP, items) if items < 2 * _WARP else _MOST_THREADS
    blocks = min(-(-items // threads), _MOST_BLOCKS)
    return np.full(size, float(blocks)), np.full(size, float(threads))


@dataclass(frozen=True)
class _Kernel:
    """A kernel: the stages from ``first`` to ``last`` of ``stages``, across threads or not."""

    stages: tuple[_Stage, ...]
    first: int
    last: int
    across_threads: bool

    @property
    def writes_results(self) -> bool:
        """Whether the last stage is in it."""
        return self.last == len(self.stages) - 1

    @property
    def _split(self) -> str:
        return self.stages[self.last].split

    def is_decided(self, batch: ConfigBatch) -> bool:
        """Whether its threads are known: with few items, or very many, nothing is left to decide."""
        items = self._items(batch)
        return self._split in batch.decisions or (
            not self.across_threads and not 2 * _WARP <= items <= _MOST_BLOCKS * _MOST_THREADS
        )

    def launch(self, batch: ConfigBatch) -> dict[str, FloatArray]:
        """Each field of ``KernelLaunch`` as ``(n,)``."""
        grid = self._grid(batch)
        mine = self.stages[self.first : self.last + 1]
        passed = len(mine) - 1 if self.writes_results else 0
        reductions = passed if self.writes_results else int(self.across_threads)
        size = DTYPE_BYTES[batch.workload.dtype]
        shared_loads, number_loads = self._number_loads(passed)
        load_bytes = size * sum(stage.inputs for stage in mine) + _NUMBER_BYTES * number_loads
        widest = max(size, _NUMBER_BYTES if number_loads or not self.writes_results else 0)
        zeros = np.zeros(batch.size)
        return {
            "blocks": grid.blocks,
            "threads_per_block": grid.threads,
            "vthreads": zeros + 1.0,
            "shared_bytes": zeros + _NUMBER_BYTES * passed,
            "local_bytes": zeros + 2 * _NUMBER_BYTES * reductions,
            "global_load_bytes": grid.elements * load_bytes,
            "global_store_bytes": grid.stores * (size if self.writes_results else _NUMBER_BYTES),
            "shared_load_bytes": grid.elements * _NUMBER_BYTES * shared_loads,
            "shared_store_bytes": grid.blocks * grid.threads * _NUMBER_BYTES * passed,
            "flops": grid.elements * sum(stage.flops for stage in mine),
            "tensor_flops": zeros,
            "vector_bytes": zeros + widest,
            "unroll_steps": zeros if self._is_elementwise else unroll_steps(batch),
        }

    @property
    def _is_elementwise(self) -> bool:
        return self.writes_results and not self.across_threads

    def _items(self, batch: ConfigBatch) -> int:
        """Rows, or elements, of which a thread has one at a time."""
        rows, columns = batch.workload.dims["m"], batch.workload.dims["n"]
        return rows * columns if self._is_elementwise else rows

    def _grid(self, batch: ConfigBatch) -> _Grid:
        items, columns = self._items(batch), batch.workload.dims["n"]
        blocks, threads = _binding(items, batch.decisions.get(self._split), batch.size)
        if self.across_threads:
            blocks = np.full(batch.size, float(items))
            elements = blocks * np.ceil(columns / threads) * threads
            return _Grid(blocks, threads, elements, elements if self.writes_results else blocks * threads)
        visited = np.ceil(items / (blocks * threads)) * blocks * threads
        if self._is_elementwise:
            return _Grid(blocks, threads, visited, visited)
        return _Grid(blocks, threads, visited * columns, visited * (columns + 1))

    def _number_loads(self, passed: int) -> tuple[int, int]:
        """Numbers loaded for each element: from shared memory, and from device memory."""
        from_shared = from_device = 0
        for stage in self.stages[self.first : self.last + 1]:
            for position, loads in enumerate(stage.numbers):
                if passed and position >= self.first:
                    from_shared += loads
                else:
                    from_device += loads
        # A row a thread adds to the number where it is.
        grows = not self.across_threads and not self.writes_results
        return from_shared, from_device + int(grows)


def _kernels(stages: tuple[_Stage, ...], sketch: int) -> list[_Kernel]:
    """The kernels of a sketch: bit i of its number tells whether stage i reduces across threads.

    The reduction before the last stage fuses with it if it is across threads, and so do those before it.
    """
    last = len(stages) - 1
    across = [bool(sketch >> i & 1) for i in range(last)]
    first = last
    while first and across[first - 1]:
        first -= 1
    alone = [_Kernel(stages, i, i, across[i]) for i in range(first)]
    return [*alone, _Kernel(stages, first, last, first < last)]
