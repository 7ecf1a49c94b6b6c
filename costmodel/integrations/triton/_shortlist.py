"""Which configs to time first: what a model says, or what was timed of the same kernel elsewhere and read.

Rule without a model: a config is expected to be as far from the best as it was in other tasks (other sizes,
SMs, devices, or source), in log latency, and farther or nearer by what it should be by what is read of the
kernel: half of that for other SMs, all of it for another size, if the kernel was read there. The weight of a
task halves with each doubling between its sizes and those asked for, and with each fourfold number of SMs.
What is read also tells what to expect before any timing; where a kernel cannot be read, configs that were
never timed follow in their order. Last comes what failed wherever it was tried.
"""

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from costmodel.arrays import FloatArray
from costmodel.kernels._read_facts import ReadFacts, Reading
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform

if TYPE_CHECKING:
    from costmodel.transfer.prediction._model import Model

# Another device counts as far as two doublings of a size, a doubling of SMs as half of one.
_OTHER_DEVICE, OF_SMS = 2.0, 0.5
# What is believed of a change that is read between other SMs and those asked for, and between other sizes.
_CHANGE_OF_SMS, _CHANGE_OF_SIZE = 0.5, 1.0
# What is known of a config is mixed with a doubt: a part of a task like this, with twice the best latency.
_DOUBT, _DOUBTFUL = 0.25, math.log(2.0)
# What the best config by what was read is expected to lose: a timed one that loses less goes before it.
_READ_LOSS = math.log(1.2)

_Number = TypeVar("_Number", float, FloatArray)
# Tells what each config is expected to lose on a platform for a workload; NaN if it was not read, nothing if
# none was.
LossesRead = Callable[[Platform, str], Sequence[float]]


class Reader(Protocol):
    """Tells what each config of a launch does, as far as it can be read."""

    def read(self) -> Sequence[Reading]:
        """Read the configs."""

    def recall(self, workload: str) -> Mapping[str, ReadFacts]:
        """Return what was read of configs for another workload of the kernel, by their ids."""


@dataclass(frozen=True)
class Advice:
    """An order of configs.

    Attributes:
        order: Positions of the configs, those to time first in front.
        basis: What it is based on, in words.
        readings: What was read of each config; empty if none was read.
    """

    order: list[int]
    basis: str
    readings: Sequence[Reading] = ()


class Adviser:
    """Orders the configs of a kernel by what is expected of them.

    Args:
        model: A model, or its file; None for what the store knows of neighbours alone.

    Raises:
        CostModelError: The file cannot be read.
    """

    def __init__(self, model: "Model | Path | str | None") -> None:
        self._model = _loaded(Path(model)) if isinstance(model, Path | str) else model

    def advise(
        self,
        candidates: Sequence[Candidate],
        platform: Platform,
        measured: Sequence[Measurement],
        first: int,
        read: Reader | None = None,
    ) -> Advice:
        """Order the candidates.

        Args:
            candidates: Configs of one kernel on one key.
            platform: Where they would run.
            measured: What is known of the kernel, on any platform and key.
            first: How many will be timed together: a model that tells its doubts chooses them so that they
                are not all alike.
            read: Reads what each does. Not called where a model knows the kernel.
        """
        if self._model is not None and self._knows(candidates[0].family):
            return Advice(self._by_model(candidates, platform, first), "the given model")
        readings = [] if read is None else read.read()
        losses = _LossesRead(candidates, readings, read)
        order = rank_by_neighbours(candidates, platform, measured, losses)
        return Advice(order, _basis(readings, measured), readings)

    def _knows(self, family: str) -> bool:
        assert self._model
        if f"{family}/" in self._model.metadata.columns:
            return True
        warnings.warn(
            f"The model must have learned from {family} to rank its configs, but has not. They are ranked "
            "by what is read of the kernel and the timings in the store. Train a model on a store that has "
            "this kernel.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False

    def _by_model(self, candidates: Sequence[Candidate], platform: Platform, first: int) -> list[int]:
        from costmodel.transfer._plan import shortlist

        assert self._model
        X = self._model.features(candidates, [platform] * len(candidates))
        listed = shortlist(self._model.model, X, first).tolist() if first > 1 else []
        by_score = (-self._model.model.predict(X).score).argsort(kind="stable").tolist()
        return [*listed, *(i for i in by_score if i not in listed)]


@cache
def _loaded(path: Path) -> "Model":
    """Return the model of a file, one object for all kernels of this process."""
    from costmodel.transfer.prediction._model import load_model  # takes a second

    return load_model(path)


def rank_by_neighbours(
    candidates: Sequence[Candidate],
    platform: Platform,
    measured: Sequence[Measurement],
    losses_read: LossesRead = lambda *_: (),
) -> list[int]:
    """Return the positions of the candidates by the rule without a model.

    Args:
        candidates: Configs of one kernel on one key.
        platform: Where they would run.
        measured: What is known of the kernel, on any platform and key.
        losses_read: Tells what each is expected to lose by what was read of it, in log latency.
    """
    tasks, asked = _tasks(measured), candidates[0].workload.name
    here = losses_read(platform, asked)
    weights, losses = defaultdict[str, float](float), defaultdict[str, float](float)
    tried = {each.candidate.config.config_id for each in measured}
    for task in tasks:
        ran = [each for each in task if each.outcome is Outcome.OK]
        best_s = min((each.latency_s for each in ran), default=math.inf)
        weight = 0.5 ** _distance(candidates[0], platform, task[0])
        of = task[0].candidate.workload.name
        there = losses_read(task[0].platform, of) if of != asked else ()
        is_other_size = bool(there)
        there = there or losses_read(task[0].platform, asked)
        changes = {
            each.config.config_id: now - then
            for each, now, then in zip(candidates, here, there, strict=False)
            if not math.isnan(now - then)
        }
        for each in ran:
            config = each.candidate.config.config_id
            weights[config] += weight
            lost, change = math.log(each.latency_s / best_s), changes.get(config, 0.0)
            losses[config] += weight * moved_loss(lost, change, is_other_size=is_other_size)

    def rank(position: int) -> tuple[int, float]:
        config = candidates[position].config.config_id
        read = here[position] if here else math.nan
        is_read = not math.isnan(read)
        if config in weights or (is_read and config not in tried):
            before = read if is_read else _DOUBTFUL
            return 0, expected_loss(losses[config], weights[config], before)
        return (2 if config in tried else 1), 0.0

    return sorted(range(len(candidates)), key=rank)


class _LossesRead:
    """What configs of a kernel are expected to lose by what was read of them, see ``LossesRead``."""

    def __init__(
        self, candidates: Sequence[Candidate], readings: Sequence[Reading], reader: Reader | None
    ) -> None:
        self._ids = [each.config.config_id for each in candidates]
        facts = [None if each.note else each.facts for each in readings]
        self._facts: dict[str, Sequence[ReadFacts | None]] = {candidates[0].workload.name: facts}
        self._reader = reader
        self._known: dict[tuple[str, str], Sequence[float]] = {}

    def __call__(self, platform: Platform, workload: str) -> Sequence[float]:
        key = platform.platform_id, workload
        if key not in self._known:
            if workload not in self._facts:
                recalled = self._reader.recall(workload) if self._reader else {}
                self._facts[workload] = [recalled.get(each) for each in self._ids]
            self._known[key] = _read_losses(self._facts[workload], platform)
        return self._known[key]


def moved_loss(lost: _Number, change: _Number, *, is_other_size: bool) -> _Number:
    """Return what a config is expected to lose that lost so much on other SMs, or for another size.

    Args:
        lost: Loss there, in log latency.
        change: What it should lose more by what was read of it.
        is_other_size: Whether it was read for another size too.
    """
    return lost + (_CHANGE_OF_SIZE if is_other_size else _CHANGE_OF_SMS) * change


def expected_loss(weighted_losses: _Number, weights: _Number, before: _Number) -> _Number:
    """Mix what was timed with what was expected before any timing.

    Args:
        weighted_losses: Sum of the losses in other tasks, each times the weight of the task.
        weights: Sum of these weights.
        before: Loss that was expected before.
    """
    return (weighted_losses + _DOUBT * before) / (weights + _DOUBT)


def _read_losses(facts: Sequence[ReadFacts | None], platform: Platform) -> list[float]:
    """What each config is expected to lose against the best, in log latency; nothing where none was read."""
    if not any(facts):
        return []
    from costmodel.transfer._read_ranker import shipped_ranker  # takes a moment

    log_s = shipped_ranker().predict(facts, platform)
    least = min(each for each in log_s.tolist() if not math.isnan(each))
    return [each - least + _READ_LOSS for each in log_s.tolist()]


def _basis(readings: Sequence[Reading], measured: Sequence[Measurement]) -> str:
    read = sum(not each.note for each in readings)
    told = ["timings of the kernel elsewhere"] if measured else []
    told += [f"what was read of {read} of {len(readings)} configs"] if read else []
    basis = " and ".join(told) or "their order in the list"
    notes = [each.note for each in readings if each.note]
    return f"{basis} ({len(notes)} not read: {notes[0]})" if notes else basis


def _tasks(measured: Sequence[Measurement]) -> list[list[Measurement]]:
    """Return the measurements of one kernel, key and platform together."""
    tasks = defaultdict[tuple[str, str, str], list[Measurement]](list)
    for each in measured:
        of = (each.candidate.workload.name, each.candidate.space, each.platform.platform_id)
        tasks[of].append(each)
    return list(tasks.values())


def _distance(candidate: Candidate, platform: Platform, other: Measurement) -> float:
    """Return doublings between what is asked for and what was measured."""
    ours, theirs = candidate.workload.dims, other.candidate.workload.dims
    shared = ours.keys() & theirs.keys()
    sizes = sum(abs(math.log2(ours[dim] / theirs[dim])) for dim in shared) + len(ours.keys() ^ theirs.keys())
    sms = abs(math.log2(platform.sms_granted / other.platform.sms_granted))
    return sizes + OF_SMS * sms + _OTHER_DEVICE * (platform.device.name != other.platform.device.name)
