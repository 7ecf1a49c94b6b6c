"""Sessions of Kernel Tuner in its simulation mode, without what it does for each session anew."""

import gzip
import json
import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kernel_tuner import util
from kernel_tuner.interface import Options, strategy_map
from kernel_tuner.runners.simulation import SimulationRunner
from kernel_tuner.searchspace import Searchspace

# Strategies that converged ask again for what they know, which Kernel Tuner does not count.
_MOST_REQUESTS = 50
END_AT = 1.01


@dataclass(frozen=True)
class Space:
    """A cache with its space, both made once.

    Attributes:
        path: The cache file.
        cache: Its content, failures as Kernel Tuner has them.
        searchspace: Its configs.
        best_ms: The least time.
    """

    path: Path
    cache: dict[str, Any]
    searchspace: Searchspace
    best_ms: float

    @classmethod
    def read(cls, path: Path) -> "Space":
        with gzip.open(path) as file:
            cache = json.load(file)
        for entry in cache["cache"].values():
            if isinstance(entry["time"], str):
                entry["__error__"] = getattr(util, entry["time"])()
        times = [entry["time"] for entry in cache["cache"].values() if "__error__" not in entry]
        return cls(path, cache, Searchspace(None, None, None, from_cache=cache), min(times))


class Recorder(SimulationRunner):
    """A runner that notes what each evaluation found, and ends the session near the best.

    Attributes:
        ratios: Time over the best one of each evaluation that counts; inf for a failure.
    """

    def __init__(self, space: Space) -> None:
        described = Options(
            kernel_name=space.cache["kernel_name"], problem_size=space.cache["problem_size"], kernel_source=""
        )
        super().__init__(None, described, Options(quiet=True), 1, [])
        self.dev.name = space.cache["device_name"]
        self.space = space
        self.ratios: list[float] = []
        self._seen: set[tuple[Any, ...]] = set()
        self._requests = 0

    def run(self, parameter_space: Any, tuning_options: Any) -> list[Any]:
        """One config at a time, so that a generation ends where the budget does."""
        results = []
        for element in map(tuple, parameter_space):
            budget = tuning_options.budget
            (result,) = super().run([element], tuning_options)
            results.append(result)
            self._requests += 1
            if result is not None and element not in self._seen:
                self._seen.add(element)
                self.ratios.append(
                    float("inf") if "__error__" in result else result["time"] / self.space.best_ms
                )
            near = bool(self.ratios) and min(self.ratios) <= END_AT
            if near or self._requests > _MOST_REQUESTS * budget.max_fevals:
                budget.max_fevals = budget.num_fevals
        return results


def simulate(space: Space, strategy: Any, seed: int, evaluations: int) -> list[float]:
    """Time over the best one of each evaluation of a session, in order; inf for a failure."""
    random.seed(seed)
    np.random.seed(seed)  # what strategies of Kernel Tuner draw from
    runner = Recorder(space)
    options = Options(
        tune_params=space.cache["tune_params"],
        cache=space.cache["cache"],
        cachefile=str(space.path),
        simulation_mode=True,
        budget=util.TuningBudget(None, evaluations),
        strategy_options=Options()
        if strategy is strategy_map["brute_force"]
        else Options(max_fevals=evaluations),
        max_fevals=evaluations,
        objective=["time"],
        objective_higher_is_better=[False],
        verbose=False,
        metrics=None,
        seed=seed,
        restrictions=[],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scipy, that a step was rounded
        strategy.tune(space.searchspace, runner, options)
    return runner.ratios
