"""When to end a search: the next measurement is not worth it."""

from contextlib import suppress

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from costmodel.search.samplers import History, ModelSampler


class StopGain:
    """Ends a search once the next measurement is expected to gain less than a share of the best latency.

    The gain is the sampler's expected improvement, and as a model is surer of itself than it should be, the
    last ``window`` measurements together must have gained less, too. Where the model has no joint belief to
    tell the expected gain by, the last ``patience`` measurements must.

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
        if _gained(history, self.window) >= self.gain:
            return False
        expected = self.sampler.expected_gain(study)
        return (_gained(history, self.patience) if expected is None else expected) < self.gain


def _gained(history: History, window: int) -> float:
    """What the last measurements gained; 1 where nothing ran before them."""
    before = history.first(max(0, len(history.measured) - window)).best_s
    return 1.0 - history.best_s / before if np.isfinite(before) else 1.0
