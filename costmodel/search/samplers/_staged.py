"""The sampler that has a shortlist compiled, and chooses by what became of it."""

from typing import Any

from costmodel.records._candidate import Config
from costmodel.search.samplers._history import History
from costmodel.search.samplers._model import RESCREEN_EVERY, ModelSampler
from costmodel.search.spaces._base import DrawnConfigs
from costmodel.search.spaces._compiled import CompiledSpace
from costmodel.transfer._base import TransferModel

# Of so many compiled for each that is measured the best are as good as of more (experiments/compiled_stage).
COMPILED_PER_TRIAL = 4


def compiled_per_trial(in_flight: int, trials: int) -> int:
    """Return how many candidates to compile for each that is measured, unless told.

    It is as many as builders make at once: in the time that more would take, measuring finds as fast kernels
    (experiments/live_search).

    Args:
        in_flight: Number of candidates that are built or measured at once.
        trials: Number of candidates that will be measured.
    """
    return max(1, min(COMPILED_PER_TRIAL, in_flight // trials))


class StagedSampler(ModelSampler):
    """Sampler that chooses among candidates that were compiled, by a model that reads their machine code.

    Another sampler, whose model knows decisions alone, screens the space and names a shortlist; all of it is
    compiled. After every 16 measurements it names another one, by what was measured, and what is left of the
    shortlists before may still be chosen.

    Args:
        space: The space that the other sampler screens, compiled.
        model: Model fitted to the columns of compiled kernels; it is not modified.
        screener: The other sampler.
        trials: Number of candidates that will be measured.
        per_trial: Number of candidates to compile for each one that is measured.
        settings: Those of ``ModelSampler``.
    """

    def __init__(
        self,
        space: CompiledSpace,
        model: TransferModel | None,
        *,
        screener: ModelSampler,
        trials: int,
        per_trial: int,
        **settings: Any,
    ) -> None:
        self._compiled, self._screener = space, screener
        self._at_once = per_trial * min(trials, RESCREEN_EVERY)
        space.look_at(screener.shortlist(self._at_once))
        super().__init__(space, model, **settings)
        self._tell_compiled()

    def _screen(self, known: History) -> DrawnConfigs:
        """All that was compiled, with another shortlist after these measurements."""
        if known.measured:
            self._compiled.look_at(self._screener.shortlist(self._at_once, known))
            self._tell_compiled()
        return self._compiled.draw(0, self.rng(2))

    def _any_left(self, history: History) -> Config:
        """A config of the space beyond those that were compiled."""
        return self._screener._any_left(history)

    def _tell_compiled(self) -> None:
        self.knowledge = {**self.knowledge, "compiled": str(len(self._compiled.built))}
