"""Ask an Optuna trial for a value of a distribution."""

from optuna import Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from costmodel.spaces._base import Param


def suggest_one(trial: Trial, name: str, distribution: BaseDistribution) -> Param:
    """The value that a trial proposes for one parameter.

    Raises:
        ValueError: The distribution is none of Optuna's three.
    """
    match distribution:
        case IntDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_int(name, low, high, step=step, log=log)
        case FloatDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_float(name, low, high, step=step, log=log)
        case CategoricalDistribution(choices=choices):
            return trial.suggest_categorical(name, choices)
    raise ValueError(f"{name} must have a distribution of Optuna, but got {distribution!r}")
