"""The searches that are compared, and how one is replayed."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.samplers import GPSampler, NSGAIISampler, TPESampler
from optuna.trial import TrialState
from tasks import Task

from costmodel.search import ModelSampler, PoolSampler, RandomOrderSampler, SpaceSampler
from costmodel.transfer import TransferModel

OURS, NOTHING_KNOWN, STOCK = "ours, {}", "ours, nothing known", "stock XGBoost"
TPE, GP, GENETIC, RANDOM = "Optuna TPE", "Optuna GP", "genetic search", "random order"
POPULATION = 8  # of the genetic search: 50, Optuna's default, would be at random for half of a search
# A proposal of Optuna's Gaussian process takes up to a second: it searches fewer tasks, of each budget.
GP_EVERY, GP_SEEDS = 4, 2


@dataclass(frozen=True)
class Search:
    """A way to search a task.

    Attributes:
        name: Its name in tables.
        make: The sampler of a seed.
        seeds: Number of seeds, from 0.
    """

    name: str
    make: Callable[[int], SpaceSampler]
    seeds: int


def searches_of(
    task: Task, models: Mapping[str, TransferModel], seeds: int, *, stock: bool, gp: bool
) -> Iterator[Search]:
    """All searches of a task; ``models`` learned nothing of it."""
    pool = task.pool
    for learner, model in models.items():
        yield Search(
            OURS.format(learner), lambda seed, model=model: ModelSampler(pool, model, seed=seed), seeds
        )
    yield Search(NOTHING_KNOWN, lambda seed: ModelSampler(pool, seed=seed), seeds)
    if stock:
        from stock_xgb import ScheduledPool, StockXGBSampler

        scheduled = ScheduledPool(pool)
        yield Search(STOCK, lambda seed: StockXGBSampler(scheduled, seed=seed), seeds)
    yield Search(TPE, lambda seed: PoolSampler(pool, TPESampler(seed=seed), seed=seed), seeds)
    if gp and task.number % GP_EVERY == 0:
        yield Search(GP, lambda seed: PoolSampler(pool, GPSampler(seed=seed), seed=seed), GP_SEEDS)
    yield Search(GENETIC, lambda seed: PoolSampler(pool, _genetic(seed), seed=seed), seeds)
    yield Search(RANDOM, lambda seed: RandomOrderSampler(pool, seed=seed), seeds)


def _genetic(seed: int) -> NSGAIISampler:
    return NSGAIISampler(population_size=POPULATION, seed=seed)


def replay(task: Task, sampler: SpaceSampler, cap: int, until: float) -> dict[str, Any]:
    """Search until the best is found, to within ``until``, or ``cap`` candidates were measured.

    Returns:
        ``best_so_far``: score after each measurement; ``n_5`` and ``n_1``: measurements until within 5 % and
        1 % of the best, None if that did not happen; ``failed``: how many failed; ``seconds``: mean that a
        proposal took.
    """
    latency_s, pool = task.latency_s, task.pool
    best, seconds, order = latency_s.min(), 0.0, list[float]()
    study = optuna.create_study(sampler=sampler)
    while len(order) < min(cap, len(pool)) and (not order or min(order) > best * (1.0 + until)):
        start = time.perf_counter()
        trial = study.ask(pool.distributions)
        seconds += time.perf_counter() - start
        order.append(float(latency_s[pool.position(trial.params)]))
        failed = np.isinf(order[-1])
        study.tell(trial, None if failed else order[-1], state=TrialState.FAIL if failed else None)
    score = best / np.minimum.accumulate(order)
    return {
        "n_5": needed(score, 0.05),
        "n_1": needed(score, 0.01),
        "failed": int(np.isinf(order).sum()),
        "seconds": round(seconds / len(order), 5),
        "best_so_far": score.round(4).tolist(),
    }


def needed(best_so_far: np.ndarray, eps: float) -> int | None:
    """Measurements until the best so far is within ``eps`` of the best; None if it never is."""
    within = np.flatnonzero(best_so_far * (1.0 + eps) >= 1.0)
    return int(within[0]) + 1 if within.size else None
