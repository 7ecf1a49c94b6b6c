"""What is compared: ours, what knows the same, and strategies of Kernel Tuner at their defaults."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from kernel_tuner.interface import strategy_map
from kernel_tuner.strategies.common import CostFunc
from kernel_tuner.util import StopCriterionReached
from report import CONSENSUS, OURS
from sessions import Space

from costmodel.dataset import Dataset, read_files
from costmodel.dataset.sources._base import find_named_device
from costmodel.dataset.splits._similarity import device_similarity, twin_groups
from costmodel.integrations.kernel_tuner import CostModelStrategy
from costmodel.search import ModelSampler


class Prepared(CostModelStrategy):
    """Ours, which learns once for all seeds."""

    _once: ModelSampler | None = None

    def sampler(self, searchspace: Any, runner: Any, tuning_options: Any) -> ModelSampler:
        self._once = once = self._once or super().sampler(searchspace, runner, tuning_options)
        return ModelSampler(once.space, once.model, seed=tuning_options["seed"])


class BestElsewhere:
    """Configs by the mean of log(time / best) over the GPUs that ours learns from, best first.

    A failure counts as the slowest that ran there.
    """

    def __init__(self, spaces: list[Space]) -> None:
        self.spaces = spaces

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[Any]:
        cost = CostFunc(searchspace, tuning_options, runner, snap=False)
        keys = [",".join(map(str, values)) for values in searchspace.list]
        order = np.argsort(
            np.mean([_log_ratios(space, keys) for space in self.spaces], axis=0), kind="stable"
        )
        with suppress(StopCriterionReached):
            for place in order:
                cost.eval(searchspace.list[place], check_restrictions=False)
        return list(cost.results)


def _log_ratios(space: Space, keys: list[str]) -> np.ndarray:
    """``(n,)`` log of time over the best; the largest for what failed or is not there."""
    entries = [space.cache["cache"].get(key, {"__error__": ""}) for key in keys]
    ratios = [np.nan if "__error__" in entry else np.log(entry["time"] / space.best_ms) for entry in entries]
    return np.nan_to_num(ratios, nan=np.nanmax(ratios))


def method_of(name: str, case: Path) -> Callable[[], Any]:
    """Makes the strategy of this name for a cache; what was made serves all seeds."""
    if name == OURS:
        return cache(lambda: Prepared(learned(case.parent)))
    if name == CONSENSUS:
        return cache(lambda: BestElsewhere([Space.read(path) for path in sources(case)]))
    return lambda: strategy_map[name]


@cache
def learned(folder: Path) -> Dataset:
    """All caches of a kernel."""
    return read_files(sorted(folder.glob("*.json.gz")))


def sources(case: Path) -> list[Path]:
    """The caches that ours learns from: those of other GPUs that are no near-twins of this one."""
    groups = twin_groups(device_similarity(learned(case.parent)))
    own = device_of(case)
    held_out = {own, *(name for group in groups if own in group for name in group)}
    return [path for path in sorted(case.parent.glob("*.json.gz")) if device_of(path) not in held_out]


@cache
def device_of(path: Path) -> str:
    """Name of the device of a cache."""
    name = Space.read(path).cache["device_name"] or path.name.partition(".")[0]
    return find_named_device(name).name
