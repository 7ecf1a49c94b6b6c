"""The design space of a tensor program that is none of the operators."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace
from costmodel.kernels.metaschedule._parameters import Categorical
from costmodel.kernels.metaschedule.programs._facts import Block, program_workload, read_blocks
from costmodel.kernels.metaschedule.programs._fitted_launches import FittedLaunches, fit_launches
from costmodel.kernels.metaschedule.programs._launch_terms import nests_of
from costmodel.kernels.metaschedule.programs._traffic import program_launches
from costmodel.records._candidate import SKETCH, Config, ConfigBatch, KernelLaunch
from costmodel.records._platform import TargetKind

_DRAWN = 64  # configs of a sketch of which a few are lowered: of some sketches most are refused
_SEED = 0


class ProgramSpace(MetaScheduleSpace):
    """What MetaSchedule may decide for a tensor program of anybody, on one kind of device.

    Its workload is named ``tir.<hash>`` and says in its sizes what the program computes. What kernels launch
    is told for many configs at once, after a few were lowered.

    Args:
        module: Unscheduled ``tvm.IRModule`` with one function, ``main``.
        kind: Kind of device.

    Raises:
        CostModelError: The program cannot be read.
    """

    source = "tir"

    def __init__(self, module: Any, kind: TargetKind) -> None:
        super().__init__(program_workload(module), kind, module)
        self._fitted: dict[int, FittedLaunches] = {}

    def launches(self, batch: ConfigBatch) -> Mapping[str, FloatArray]:
        """What the kernels of each config launch, before anything is compiled.

        Args:
            batch: Configs of one sketch.

        Returns:
            Each field of ``KernelLaunch`` as ``(n, l)`` for l launches; NaN where it is not known, as on a
            CPU. Of tiled loop nests and of reductions all is what ``candidate`` finds, but the shared memory
            of Tensor Core sketches.
        """
        if self.target.kind.name != "cuda" or not batch.size:
            return super().launches(batch)
        return self._formulas(int(batch.decisions[SKETCH][0])).columns(batch)

    def counted(self, module: Any) -> tuple[KernelLaunch, ...]:
        """What the lowered program says of its kernels; on a GPU with the bytes that device memory moves."""
        return program_launches(module) if self.target.kind.name == "cuda" else super().counted(module)

    def _formulas(self, position: int) -> FittedLaunches:
        if position not in self._fitted:
            sketch = self.sketches[position]
            drawn = self.draw(position, _DRAWN, np.random.default_rng(_SEED))
            splits = [p for p in sketch.parameters if p.name.startswith("split.")]
            self._fitted[position] = fit_launches(
                self.workload,
                drawn.configs(),
                {p.name: p.choices for p in splits if isinstance(p, Categorical)},
                nests_of(self._blocks, [parameter.name for parameter in sketch.parameters]),
                self._lowered,
            )
        return self._fitted[position]

    @cached_property
    def _blocks(self) -> list[Block]:
        return read_blocks(self.module)

    def _lowered(self, config: Config) -> tuple[KernelLaunch, ...]:
        """The launches of a config; none where no valid kernel comes of it."""
        try:
            return self.counted(self.schedule(config).mod)
        except Exception:  # noqa: BLE001 (TVM raises its own error types for what cannot be lowered)
            return ()
