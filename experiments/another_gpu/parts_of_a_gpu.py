"""Kernels of our datasets: from an H100 to an H200 and back, and from some SM budgets to others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
from judged import Judged, Shots, judged, with_shots
from recorded import SMS, Recorded
from rules import RULES

from costmodel.features._latency_parts import PartSettings
from costmodel.transfer._carry import Spread

# What is chosen from, on the other datasets.
STARTS_S, WARPS, HELD, EFFICIENCY = (1e-6, 2e-6, 3e-6), (4.0, 8.0, 16.0), (0.3, 0.5), (0.6, 0.8)
OURS = "carried over"


@dataclass(frozen=True)
class Move:
    """Platforms that are predicted, and those that are known.

    Attributes:
        name: What is asked.
        known: Device and SM budgets that everything is known on.
        targets: Device and SMs to predict, and the SMs of the known device that rules start from.
        is_learned: Whether learners are asked too, which takes long.
    """

    name: str
    known: tuple[str, tuple[int, ...]]
    targets: tuple[tuple[str, int, int], ...]
    is_learned: bool = False


MOVES = (
    Move("H100 to H200", ("H100", SMS), tuple(("H200", sms, sms) for sms in SMS), is_learned=True),
    Move("H200 to H100", ("H200", SMS), tuple(("H100", sms, sms) for sms in SMS)),
    Move("H100 to H200, whole", ("H100", SMS), (("H200", 132, 132),)),
    Move(
        "32 and more SMs to 8 and 16",
        ("H100", (32, 64, 96, 132)),
        (("H100", 8, 32), ("H100", 16, 32)),
        is_learned=True,
    ),
    Move(
        "64 and fewer SMs to 96 and 132",
        ("H100", (8, 16, 32, 64)),
        (("H100", 96, 64), ("H100", 132, 64)),
        is_learned=True,
    ),
    Move("132 SMs to 64", ("H100", (132,)), (("H100", 64, 132),)),
    Move("132 SMs to 8", ("H100", (132,)), (("H100", 8, 132),)),
)


def judge(
    data: Recorded, others: Sequence[Recorded], learners: Sequence[str], shots: Shots
) -> Iterator[dict[str, Any]]:
    """A row for each move and way to predict; settings and spread of ours come from the other datasets."""
    settings = _chosen(others)
    spread = _spread(others, settings)
    yield {"dataset": data.name, "settings": repr(settings), "spread": repr(spread)}
    for move in MOVES:
        place = {"dataset": data.name, "move": move.name}
        for name, found in _by_rules(data, move, settings, spread, shots):
            yield {**place, "way": name, **found.summary()}
        for name in learners if move.is_learned else ():
            yield {**place, "way": f"learner {name}", **_learned(data, move, name).summary()}


def shipped(data: Sequence[Recorded]) -> dict[str, Any]:
    """The settings and the spread that all datasets together give."""
    settings = _chosen(data)
    return {"dataset": "all", "settings": repr(settings), "spread": repr(_spread(data, settings))}


def _by_rules(
    data: Recorded, move: Move, settings: PartSettings, spread: Spread, shots: Shots
) -> Iterator[tuple[str, Judged]]:
    groups = np.concatenate([np.char.add(data.workloads, f"@{sms}") for _, sms, _ in move.targets])
    targets = [(data.place(move.known[0], source), data.place(dev, sms)) for dev, sms, source in move.targets]
    for name in (*RULES, OURS):
        parts = []
        for known, to in targets:
            measured = data.latency_s[:, to]
            if name == OURS:
                parts.append(judged(data.carried(known, to, settings), measured, spread))
            else:
                first, second = data.platforms[known], data.platforms[to]
                found = RULES[name](data.latency_s[:, known], data.candidates, first, second)
                parts.append(Judged.plain(measured, found))
        every = Judged.joined(parts)
        yield name, every
        if name in (OURS, "same latency"):
            yield f"{name}, {shots.count} measured", with_shots(every.log_error, groups, shots)


def _learned(data: Recorded, move: Move, learner: str) -> Judged:
    """A learner that saw these kernels on the known platforms."""
    model = data.learned(learner, [data.place(move.known[0], sms) for sms in move.known[1]])
    X, y, _ = data.rows([data.place(device, sms) for device, sms, _ in move.targets])
    predicted = model.predict(X).latency_s
    assert predicted is not None
    return Judged.plain(y, predicted)


def _spread(data: Sequence[Recorded], settings: PartSettings) -> Spread:
    """From every second kernel, carried over from each platform to each other."""
    parts = [
        (found.distances, np.log(each.latency_s[:, to] / found.latency_s))
        for each in (recorded.every(2) for recorded in data)
        for known, to in permutations(range(len(each.platforms)), 2)
        for found in [each.carried(known, to, settings)]
    ]
    return Spread.fitted(np.concatenate([d for d, _ in parts]), np.concatenate([e for _, e in parts]))


def _chosen(data: Sequence[Recorded]) -> PartSettings:
    """What has the least error: of the parts that SMs decide first, then of those of the memory."""
    few = [each.every(8) for each in data]
    of_sms = [PartSettings(*pair) for pair in product(STARTS_S, WARPS)]
    best = min(of_sms, key=lambda each: _typical_error(few, each))
    of_memory = [PartSettings(best.start_s, best.hiding_warps, *pair) for pair in product(HELD, EFFICIENCY)]
    return min(of_memory, key=lambda each: _typical_error(few, each))


def _typical_error(data: Sequence[Recorded], settings: PartSettings) -> float:
    """Mean over datasets and moves of the mean log error."""
    errors = []
    for each in data:
        for move in MOVES:
            for device, sms, source in move.targets:
                to = each.place(device, sms)
                found = each.carried(each.place(move.known[0], source), to, settings)
                errors.append(np.nanmean(np.abs(np.log(each.latency_s[:, to] / found.latency_s))))
    return float(np.mean(errors))
