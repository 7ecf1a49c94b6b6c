"""Kernels that others measured on nine GPUs with Kernel Tuner: each GPU left out."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from judged import Judged, Shots, judged, with_shots
from recorded import Recorded
from rules import RULES

from costmodel.records import Device, find_device
from costmodel.transfer._carry import Spread
from costmodel.transfer.prediction._physics import base_of

OURS = "carried over"


def judge(every: Sequence[Recorded], learners: Sequence[str], shots: Shots) -> Iterator[dict[str, Any]]:
    """A row for each kernel, GPU to predict, GPU that is known, and way to predict."""
    for data in every:
        for known, to in permutations(range(len(data.platforms)), 2):
            first, second = data.platforms[known].device, data.platforms[to].device
            place = {
                "kernel": data.name,
                "known": first.name,
                "device": second.name,
                "pair": _kind(first, second),
            }
            spread = _spread([each for each in every if each.name != data.name], second)
            for name, found in _by_rules(data, known, to, spread, shots):
                yield {**place, "way": name, **found.summary()}
        for to in range(len(data.platforms)):
            place = {
                "kernel": data.name,
                "device": data.platforms[to].device.name,
                "pair": "all others known",
            }
            for learner in learners:
                for name, found in _learned(data, to, learner, shots):
                    yield {**place, "way": name, **found.summary()}


def by_the_nearest(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the GPU that a model would carry over from, of each kernel and GPU that it has one for."""
    pairs = rows.dropna(subset="known")
    known = pairs.groupby(["kernel", "device"])["known"].unique()
    nearest = {
        (kernel, name): base.name
        for (kernel, name), others in known.items()
        if (base := base_of(find_device(name), [find_device(other) for other in others]))
    }
    of = [nearest.get(pair) for pair in zip(pairs["kernel"], pairs["device"], strict=True)]
    return pairs[pairs["known"] == of].assign(pair="the nearest of its vendor")


def _kind(first: Device, second: Device) -> str:
    if first.architecture == second.architecture:
        return "same architecture"
    return "same vendor" if first.kind == second.kind else "another vendor"


def _by_rules(
    data: Recorded, known: int, to: int, spread: Spread, shots: Shots
) -> Iterator[tuple[str, Judged]]:
    first, second = data.platforms[known], data.platforms[to]
    for name, rule in RULES.items():
        predicted = rule(data.latency_s[:, known], data.candidates, first, second)
        yield name, Judged.plain(data.latency_s[:, to], predicted)
    found = judged(data.carried(known, to), data.latency_s[:, to], spread)
    yield OURS, found
    one_task = np.zeros(len(data.candidates), dtype=int)
    yield f"{OURS}, {shots.count} measured", with_shots(found.log_error, one_task, shots)


def _learned(data: Recorded, to: int, learner: str, shots: Shots) -> Iterator[tuple[str, Judged]]:
    """A learner that saw these configs on all other GPUs, without a measurement and adapted to some."""
    model = data.learned(learner, [i for i in range(len(data.platforms)) if i != to])
    X, y, _ = data.rows([to])
    predicted = model.predict(X).latency_s
    if predicted is not None:
        yield f"learner {learner}", Judged.plain(y, predicted)
    parts = []
    for draw in range(shots.draws):
        mixed = np.random.default_rng(draw).permutation(len(y))
        measured, rest = mixed[: shots.count], mixed[shots.count :]
        predicted = model.adapt(X[measured], y[measured]).predict(X[rest]).latency_s
        if predicted is not None:
            parts.append(Judged.plain(y[rest], predicted))
    if parts:
        yield f"learner {learner}, {shots.count} measured", Judged.joined(parts)


def _spread(others: Sequence[Recorded], target: Device) -> Spread:
    """From the other kernels, on pairs of GPUs that the one to predict is not one of."""
    parts = [
        (found.distances, np.log(each.latency_s[:, to] / found.latency_s))
        for each in others
        for known, to in permutations(range(len(each.platforms)), 2)
        if target.name not in (each.platforms[known].device.name, each.platforms[to].device.name)
        for found in [each.carried(known, to)]
    ]
    return Spread.fitted(np.concatenate([d for d, _ in parts]), np.concatenate([e for _, e in parts]))
