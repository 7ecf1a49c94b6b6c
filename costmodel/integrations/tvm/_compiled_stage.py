"""The stage between screening and measuring: MetaSchedule's builder compiles a shortlist first."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.arguments import check_whole
from costmodel.integrations.tvm._measuring import Builder
from costmodel.integrations.tvm._model_file import DEFAULT
from costmodel.integrations.tvm._program import ScheduledSpace
from costmodel.kernels._machine_code import MachineCode
from costmodel.records._candidate import Candidate
from costmodel.search.samplers._model import ModelSampler
from costmodel.search.samplers._staged import StagedSampler, compiled_per_trial
from costmodel.search.spaces._compiled import CompiledSpace
from costmodel.transfer.prediction._model import Model, load_model
from costmodel.tuning._shipped import pretrained_compiled


@dataclass(frozen=True)
class CompiledStage:
    """A second choice for ``SearchStrategy``: of a shortlist that is compiled, by its machine code.

    It is the stage of ``costmodel.tune``. A program that is no known operator goes without it, and so does a
    device of another architecture than those that the model learned from.

    Attributes:
        builder: Builder of the same tuning. What it compiled for the shortlist it does not build again.
        model: Model that reads what a compiler made of kernels, its file, or ``"default"`` for that of what
            ships (``costmodel.tuning.pretrain``), if there is one.
        per_trial: Number of candidates to compile for each one that is measured. None for as many as the
            builder makes of all trials at once, 4 at most.
    """

    builder: Builder
    model: Model | Path | str = DEFAULT
    per_trial: int | None = None

    def __post_init__(self) -> None:
        """Check the number."""
        if self.per_trial is not None:
            check_whole("per_trial", self.per_trial, 1)

    def add_to(self, screener: ModelSampler, target: Any, trials: int, **settings: Any) -> ModelSampler:
        """Return a sampler that chooses from compiled shortlists of another; that one where it cannot.

        Args:
            screener: The other sampler, of a ``ScheduledSpace``.
            target: What MetaSchedule tunes for.
            trials: Number of candidates that will be measured.
            settings: Those of the sampler.

        Raises:
            CostModelError: The model cannot be read.
        """
        per_trial = self.per_trial or compiled_per_trial(self.builder.in_flight, trials)
        space = screener.space
        assert isinstance(space, ScheduledSpace)
        model = None if per_trial <= 1 or space.space.workload.is_program else self._model_for(space)
        if model is None:
            return screener
        compiled = CompiledSpace(space, partial(self._compile, space, target), model.metadata.columns)
        staged = StagedSampler(
            compiled, model.model, screener=screener, trials=trials, per_trial=per_trial, **settings
        )
        return staged if compiled.built else screener

    def _model_for(self, space: ScheduledSpace) -> Model | None:
        """The model, if it learned from devices of the same architecture."""
        if self.model == DEFAULT:
            model = pretrained_compiled()
        else:
            model = self.model if isinstance(self.model, Model) else load_model(self.model)
        architectures = {each.architecture for each in model.metadata.devices} if model else set()
        return model if space.platforms[0].device.architecture in architectures else None

    def _compile(
        self, space: ScheduledSpace, target: Any, candidates: Sequence[Candidate]
    ) -> list[MachineCode | None]:
        modules = [space.take_schedule(each.config).mod for each in candidates]
        return self.builder.machine_code(modules, target)
