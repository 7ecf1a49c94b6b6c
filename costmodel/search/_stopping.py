"""Stop a search when the next measurement is not worth it."""

from contextlib import suppress

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from costmodel.arrays import FloatArray
from costmodel.search._objective import SearchGoal
from costmodel.search.samplers._history import History
from costmodel.search.samplers._model import ModelSampler


class StopGain:
    """Callback that stops a search when the expected gain of the next measurement is below a threshold.

    The gain is the sampler's expected improvement, as a share of the best latency. As models tend to be
    overconfident, the last ``window`` measurements together must also have gained less than the threshold. If
    the model has no joint posterior to estimate the gain, as for several SM budgets, the last ``patience``
    measurements must have gained less.

    With several SM budgets, the gain is the decrease of the objective for one kernel, and the largest gain at
    any budget for a portfolio.

    Use it as a callback for ``study.optimize``; ``tune`` calls ``is_reached`` itself.

    Args:
        sampler: The sampler of the study.
        gain: Threshold as a share of the best latency, such as 0.01.
        window: Number of measurements, failures included, that must have gained less than the threshold
            before the model is trusted.
        patience: The same number if the model cannot estimate the gain.

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
        """Stop ``study.optimize`` if the threshold is reached; running trials are finished."""
        if trial.state is not TrialState.PRUNED and self.is_reached(study):
            with suppress(RuntimeError):  # raised outside study.optimize, where there is no loop to end
                study.stop()

    def is_reached(self, study: Study) -> bool:
        """Return whether the search should stop."""
        history = History.of(study, self.sampler.space)
        if self._gained(history, self.window) >= self.gain:
            return False
        expected = self.sampler.expected_gain(study)
        return (self._gained(history, self.patience) if expected is None else expected) < self.gain

    def _gained(self, history: History, window: int) -> float:
        """Return the share by which the last measurements improved the best; 1 if nothing ran before them."""
        before = self._best(history.first(max(0, len(history.measured) - window)))
        return float((1.0 - self._best(history) / before).max()) if np.isfinite(before).all() else 1.0

    def _best(self, history: History) -> FloatArray:
        """What may fall: the best latency at each budget; of one kernel for several, the best value."""
        if self.sampler.goal is SearchGoal.ONE_KERNEL and history.best_s.size > 1:
            return np.asarray(np.exp(history.value.min(initial=np.inf, keepdims=True)))
        return history.best_s
