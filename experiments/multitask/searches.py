"""Searches for a task's best config that know little of other tasks, and what they would take first."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from errors import Sample, targets
from families import Family, latencies_permuted
from kit.replay import search_recorded
from processes import JoinedTask
from tried import Pooled, PredictedOptimum, SimilarSources

from costmodel.learners import KernelRidge
from costmodel.learners._source_rules import WeightedConsensus
from costmodel.transfer import StorableModel, TransferModel, make_model
from costmodel.transfer.models._residual import FromScratch, Residual
from costmodel.transfer.models._ridge_on_sources import RidgeOnSources

NEAR = 1.05
AT_RANDOM = 3  # measurements of a search that knows no other task

Make = Callable[[Family, int], TransferModel]


def named(name: str) -> Make:
    return lambda family, seed: make_model(name, family.columns, seed)


def similar(make: Callable[[Family], StorableModel]) -> Make:
    return lambda family, seed: SimilarSources(make(family), family.task_columns)


def consensus(family: Family) -> StorableModel:
    return Residual(WeightedConsensus.for_columns(family.columns, 0))


def ridge(family: Family) -> StorableModel:
    return RidgeOnSources.for_columns(family.columns, 0)


ALONE = "one process, alone"
RULES: Mapping[str, Make] = {
    ALONE: lambda family, seed: JoinedTask(family.task_columns, alone=True, seed=seed),
    "from scratch": lambda family, seed: FromScratch(),
    "joined task, coregionalised": lambda family, seed: JoinedTask(family.task_columns, alone=False),
    "joined task, kernel ridge": lambda family, seed: Pooled(KernelRidge.for_columns(family.columns, 0)),
    "predicted optimum": lambda family, seed: Residual(PredictedOptimum(family.task_columns)),
    "kernel-ridge": named("kernel-ridge"),
    "consensus": named("consensus"),
    "nearest-task": named("nearest-task"),
    "source-mixture": named("source-mixture"),
    "ridge-on-sources": named("ridge-on-sources"),
    "consensus, 2 similar sources": similar(consensus),
    "ridge-on-sources, 2 similar sources": similar(ridge),
}
# With sources that mislead beside those that do not.
CHOOSERS = (
    ALONE,
    "joined task, coregionalised",
    "consensus",
    "source-mixture",
    "ridge-on-sources",
    "consensus, 2 similar sources",
    "ridge-on-sources, 2 similar sources",
)


@dataclass(frozen=True)
class Limits:
    """How much is measured.

    Attributes:
        known: Rows known of each source.
        most: Measurements of a search at most.
    """

    known: int
    most: int


def searched(
    family: Family, rule: str, seed: int, limits: Limits, *, misled: bool
) -> Iterator[dict[str, Any]]:
    """What a rule finds on each target of a family.

    Args:
        family: The family.
        rule: A name in ``RULES``.
        seed: Seed of what is known of the sources, and of what is drawn at random.
        limits: How much is measured.
        misled: Whether each source has a twin with the same descriptors whose latencies are permuted.
    """
    for target in targets(family):
        sources = [t for t in range(len(family.y)) if t != target]
        X, latency_s, tasks = Sample(family, [limits.known for _ in family.y], seed).rows(sources)
        if misled:
            twins = latencies_permuted(family, seed)
            fX, fy, ftasks = Sample(twins, [limits.known for _ in family.y], seed + 100).rows(sources)
            X, latency_s = np.vstack([X, fX]), np.append(latency_s, fy)
            tasks = np.append(tasks, ftasks + len(family.y))
        model = RULES[rule](family, seed).fit(X, latency_s, tasks)
        y = family.y[target]
        alone = rule in (ALONE, "from scratch")
        first = np.random.default_rng(seed).permutation(len(y))[: AT_RANDOM if alone else 0]
        order = search_recorded(model, family.X[target], y, near=NEAR, most=limits.most, first=first)
        near = np.flatnonzero(y[order] <= NEAR * y.min())
        yield {
            "target": target,
            "needed": int(near[0]) + 1 if near.size else None,
            "first_above_best": None if alone else round(float(y[order[0]] / y.min() - 1.0), 4),
        }
