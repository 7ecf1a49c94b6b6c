"""One measured proposal, and how a study stores it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from costmodel.arrays import FloatArray
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.search.samplers._base import SpaceSampler
from costmodel.search.samplers._history import LATENCIES, chosen_params, latencies_of, value_of
from costmodel.search.samplers._model import PREDICTED_LATENCY, PREDICTED_RANK, TIED
from costmodel.search.spaces._base import SearchSpace
from costmodel.transfer.prediction._physics import least_latencies

_OUTCOMES, _ERROR = "outcomes", "error"


@dataclass(frozen=True)
class Trial:
    """One proposal, measured at every SM budget of the search.

    Attributes:
        number: Number of its Optuna trial.
        candidate: The measured candidate.
        sms: ``(b,)`` granted SMs.
        outcomes: ``(b,)`` outcome at each SM budget.
        latency_s: ``(b,)`` median latencies in seconds; inf where it failed.
        value: The value that the study minimises: with one SM budget, the latency; with several, the natural
            log of latency over a reference; inf for a failure.
        error: First line of the first failure's message; empty if all measurements succeeded.
        predicted_latency_s: ``(b,)`` latency in seconds predicted before the measurement, not below what the
            hardware allows; None if the sampler predicts none.
        predicted_rank: Rank of the config's score among the configs to choose from, 1 for the best; None if
            the sampler does not score.
        tied: Number of configs with the same score, from which this one was chosen by novelty, then at
            random.
    """

    number: int
    candidate: Candidate
    sms: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    latency_s: tuple[float, ...]
    value: float
    error: str = ""
    predicted_latency_s: tuple[float, ...] | None = None
    predicted_rank: int | None = None
    tied: int = 1

    def times(self, factor: float) -> "Trial":
        """Return the trial with all latencies multiplied by a factor."""
        latency_s = tuple(factor * each for each in self.latency_s)
        value = factor * self.value if len(self.sms) == 1 else self.value + float(np.log(factor))
        return replace(self, latency_s=latency_s, value=value)

    @classmethod
    def of(cls, trial: FrozenTrial, space: SearchSpace) -> "Trial":
        """What a finished trial of a study says."""
        candidate = space.candidate(space.config(chosen_params(trial)))
        predicted = trial.system_attrs.get(PREDICTED_LATENCY)
        if predicted is not None:
            least = least_latencies([candidate] * len(predicted), space.platforms)
            predicted = tuple(np.maximum(predicted, least).tolist())
        return cls(
            number=trial.number,
            candidate=candidate,
            sms=tuple(platform.sms_granted for platform in space.platforms),
            outcomes=tuple(map(Outcome, trial.user_attrs[_OUTCOMES])),
            latency_s=tuple(latencies_of(trial, len(space.platforms)).tolist()),
            value=value_of(trial),
            error=trial.user_attrs.get(_ERROR, ""),
            predicted_latency_s=predicted,
            predicted_rank=trial.system_attrs.get(PREDICTED_RANK),
            tied=trial.system_attrs.get(TIED, 1),
        )


def tell(
    study: optuna.Study,
    trial: optuna.Trial,
    measured: Sequence[Measurement],
    sampler: SpaceSampler,
    reference_s: FloatArray,
) -> None:
    """Store what was measured at each budget; the last measurement stands for those that are missing.

    A kernel that fails at a budget that counts fails its trial: a failure is never a huge latency. What it
    did at the others is kept and learned from all the same, and it may still be part of a portfolio.
    """
    budgets = len(sampler.space.platforms)
    every = [measured[min(i, len(measured) - 1)] for i in range(budgets)]
    trial.set_user_attr(_OUTCOMES, [m.outcome.value for m in every])
    trial.set_user_attr(LATENCIES, [m.latency_s if m.outcome is Outcome.OK else None for m in every])
    if error := next((m.error for m in measured if m.outcome is not Outcome.OK), ""):
        trial.set_user_attr(_ERROR, error)
    value = sampler.value(np.array([m.latency_s for m in every]), reference_s)
    if np.isfinite(value):
        study.tell(trial, value)
    else:
        study.tell(trial, state=TrialState.FAIL)
