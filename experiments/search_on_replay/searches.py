"""The searches that are compared, and how one is replayed."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import Trial, TrialState
from tasks import Task

from costmodel.search import ModelSampler, Pool, PoolSampler, RandomOrderSampler, SpaceSampler
from costmodel.transfer import TransferModel

OURS, NOTHING_KNOWN, STOCK = "ours, {}", "ours, nothing known", "stock XGBoost"
TPE, GP, GENETIC, RANDOM = "Optuna TPE", "Optuna GP", "genetic search", "random order"
POPULATION = 8  # of the genetic search: 50, Optuna's default, would be at random for half of a search
# A proposal of Optuna's Gaussian process takes up to a second: it searches fewer tasks, of each budget.
GP_EVERY, GP_SEEDS = 4, 2
FAILURE = 4.0  # a failed kernel counts as so many times the slowest that ran, as for our own sampler


@dataclass(frozen=True)
class Search:
    """A way to search a task.

    Attributes:
        make: The sampler of a seed.
        seeds: Number of seeds, from 0.
        told_failures: Whether a failure is told as a latency, as Optuna's own samplers ignore a failed trial.
    """

    make: Callable[[int], SpaceSampler]
    seeds: int
    told_failures: bool = False


def search_names(learners: Iterable[str], *, stock: bool, gp: bool) -> list[str]:
    """The names of all searches, in the order of the tables."""
    left_out = {name for name, taken in ((STOCK, stock), (GP, gp)) if not taken}
    names = [*map(OURS.format, learners), NOTHING_KNOWN, STOCK, TPE, GP, GENETIC, RANDOM]
    return [name for name in names if name not in left_out]


def learner_of(name: str) -> str:
    """The learner whose model a search knows; empty where it knows nothing."""
    knows = name.startswith(OURS.format("")) and name != NOTHING_KNOWN
    return name.removeprefix(OURS.format("")) if knows else ""


def is_searched(task: Task, name: str) -> bool:
    """Whether the search of this name is made on the task."""
    return name != GP or task.number % GP_EVERY == 0


def search_of(name: str, pool: Pool, model: TransferModel | None, seeds: int) -> Search:
    """The search of this name on a pool; the model, of which ``ours`` knows, learned nothing of it."""
    if name == STOCK:
        from stock_xgb import ScheduledPool, StockXGBSampler

        scheduled = ScheduledPool(pool)
        return Search(lambda seed: StockXGBSampler(scheduled, seed=seed), seeds)
    if name == RANDOM:
        return Search(lambda seed: RandomOrderSampler(pool, seed=seed), seeds)
    if name in _OPTUNA:
        make = _OPTUNA[name]
        count = GP_SEEDS if name == GP else seeds
        return Search(lambda seed: PoolSampler(pool, make(seed), seed=seed), count, told_failures=True)
    return Search(lambda seed: ModelSampler(pool, model, seed=seed), seeds)


_OPTUNA: dict[str, Callable[[int], BaseSampler]] = {
    TPE: lambda seed: TPESampler(seed=seed),
    GP: lambda seed: GPSampler(seed=seed),
    GENETIC: lambda seed: NSGAIISampler(population_size=POPULATION, seed=seed),
}


def replay(task: Task, search: Search, seed: int, cap: int, until: float) -> dict[str, Any]:
    """Search until the best is found, to within ``until``, or ``cap`` candidates were measured.

    Returns:
        ``best_so_far``: score after each measurement; ``n_5`` and ``n_1``: measurements until within 5 % and
        1 % of the best, None if that did not happen; ``failed``: how many failed; ``seconds``: mean that a
        proposal took.
    """
    latency_s, pool = task.latency_s, task.pool
    best, seconds, order = latency_s.min(), 0.0, list[float]()
    study = optuna.create_study(sampler=search.make(seed))
    untold: list[Trial] = []
    while len(order) < min(cap, len(pool)) and (not order or min(order) > best * (1.0 + until)):
        start = time.perf_counter()
        trial = study.ask(pool.distributions)
        seconds += time.perf_counter() - start
        order.append(float(latency_s[pool.position(trial.params)]))
        if np.isfinite(order[-1]):
            study.tell(trial, order[-1])
        elif search.told_failures:
            untold.append(trial)
        else:
            study.tell(trial, state=TrialState.FAIL)
        _tell_failures(study, untold, order)
    score = best / np.minimum.accumulate(order)
    return {
        "n_5": needed(score, 0.05),
        "n_1": needed(score, 0.01),
        "failed": int(np.isinf(order).sum()),
        "seconds": round(seconds / len(order), 5),
        "best_so_far": score.round(4).tolist(),
    }


def _tell_failures(study: optuna.Study, untold: list[Trial], order: Sequence[float]) -> None:
    """Tell failed trials as slower than all that ran; they wait until one did."""
    ran = [latency_s for latency_s in order if np.isfinite(latency_s)]
    while ran and untold:
        study.tell(untold.pop(0), FAILURE * max(ran))


def needed(best_so_far: np.ndarray, eps: float) -> int | None:
    """Measurements until the best so far is within ``eps`` of the best; None if it never is."""
    within = np.flatnonzero(best_so_far * (1.0 + eps) >= 1.0)
    return int(within[0]) + 1 if within.size else None
