"""When to end a search: the next measurement is not worth it."""

from contextlib import suppress

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from costmodel.search._history import History
from costmodel.search._model_sampler import ModelSampler


class StopGain:
    """Ends a search once the next measurement is expected to gain less than a share of the best latency.

    The gain is the sampler's expected improvement. Where its model has no joint belief to tell that by, the
    search ends when the last ``patience`` measurements together gained less. Nothing ends before one
    measurement ran, nor before ``at_least`` measurements.

    A callback for ``study.optimize``; ``tune`` asks ``is_reached`` itself.

    Args:
        sampler: Proposes for the study.
        gain: Share of the best latency, such as 0.01.
        at_least: Measurements, failures included, before which a search does not end: a model of other
            workloads is surer of itself than it should be until it has seen something of this one.
        patience: Measurements without gain that end a search whose model cannot tell.

    Raises:
        ValueError: The gain is not in (0, 1).

    Example:
        >>> study.optimize(latency_s, callbacks=[StopGain(sampler, 0.01)])  # doctest: +SKIP
    """

    def __init__(self, sampler: ModelSampler, gain: float, *, at_least: int = 8, patience: int = 16) -> None:
        if not 0.0 < gain < 1.0:
            raise ValueError(f"gain must be in (0, 1), but got {gain}")
        self.sampler = sampler
        self.gain = gain
        self.at_least = at_least
        self.patience = patience

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """End ``study.optimize`` if it is time; other trials that run are finished."""
        if trial.state is not TrialState.PRUNED and self.is_reached(study):
            with suppress(RuntimeError):  # raised outside study.optimize, where there is no loop to end
                study.stop()

    def is_reached(self, study: Study) -> bool:
        """Whether the search should end."""
        history = History.of(study, self.sampler.space)
        if len(history.measured) < self.at_least or not np.isfinite(history.best_s):
            return False
        expected = self.sampler.expected_gain(study)
        return (self._lately(history) if expected is None else expected) < self.gain

    def _lately(self, history: History) -> float:
        """What the last measurements gained; 1 where there are too few to tell."""
        before = history.first(max(0, len(history.measured) - self.patience)).best_s
        return 1.0 - history.best_s / before if np.isfinite(before) else 1.0
