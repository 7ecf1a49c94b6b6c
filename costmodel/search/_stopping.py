"""When to end a search: the next measurement is not worth it."""

from contextlib import suppress

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from costmodel.arrays import FloatArray
from costmodel.search._objective import SearchGoal
from costmodel.search.samplers import History, ModelSampler


class StopGain:
    """Ends a search once the next measurement is expected to gain less than a share of the best latency.

    The gain is the sampler's expected improvement, and as a model is surer of itself than it should be, the
    last ``window`` measurements together must have gained less, too. Where the model has no joint posterior
    to tell the expected gain by, as over several SM budgets, the last ``patience`` measurements must.

    What was gained at several budgets is, for one kernel, what the objective fell by; for a portfolio the
    largest gain at any of them.

    A callback for ``study.optimize``; ``tune`` asks ``is_reached`` itself.

    Args:
        sampler: Proposes for the study.
        gain: Share of the best latency, such as 0.01.
        window: Measurements, failures included, that must have gained less before the model is believed.
        patience: The same where the model cannot tell.

    Raises:
        ValueError: The gain is not in (0, 1).

    Example:
        >>> study.optimize(latency_s, callbacks=[StopGain(sampler, 0.01)])  # doctest: +SKIP
    """

    def __init__(self, sampler: ModelSampler, gain: float, *, window: int = 8, patience: int = 16) -> None:
        if not 0.0 < gain < 1.0:
            raise ValueError(f"gain must be in (0, 1), but got {gain}")
        self.sampler = sampler
        self.gain = gain
        self.window = window
        self.patience = patience

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """End ``study.optimize`` if it is time; other trials that run are finished."""
        if trial.state is not TrialState.PRUNED and self.is_reached(study):
            with suppress(RuntimeError):  # raised outside study.optimize, where there is no loop to end
                study.stop()

    def is_reached(self, study: Study) -> bool:
        """Whether the search should end."""
        history = History.of(study, self.sampler.space)
        if self._gained(history, self.window) >= self.gain:
            return False
        expected = self.sampler.expected_gain(study)
        return (self._gained(history, self.patience) if expected is None else expected) < self.gain

    def _gained(self, history: History, window: int) -> float:
        """By which share the last measurements improved the best; 1 where nothing ran before them."""
        before = self._best(history.first(max(0, len(history.measured) - window)))
        return float((1.0 - self._best(history) / before).max()) if np.isfinite(before).all() else 1.0

    def _best(self, history: History) -> FloatArray:
        """What may fall: the best latency at each budget; of one kernel for several, the best value."""
        if self.sampler.goal is SearchGoal.ONE_KERNEL and history.best_s.size > 1:
            return np.asarray(np.exp(history.value.min(initial=np.inf, keepdims=True)))
        return history.best_s
