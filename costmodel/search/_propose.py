"""Active learning of one workload: which kernels to build and measure next.

Each round fits a model to all that was measured, evolves kernels on the model alone (which lowers the most
promising, but builds none), and chooses the few that are worth building.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.learners import FloatArray, Learner
from costmodel.records import Candidate, Config, Measurement, Outcome, Workload
from costmodel.search._breed import Breeder, Space, before_lowering, leaders
from costmodel.search._decisions import SKETCH
from costmodel.search._improvement import ImprovementModel
from costmodel.spaces import DistinctPrograms, InvalidConfigError, open_space, sample_candidates

# Generations, and what is lowered in each: random draws, and the most promising of those bred (fewer where
# budgets agree). That takes 1 s a generation for a softmax, 3 s for a matmul, 6 s for a float16 convolution.
_GENERATIONS, _RANDOM, _BRED = 4, 6, 48
# The fastest at each budget, measured and bred alike, that children come from.
_PARENTS = 6
# Most promising candidates of each budget, and of each sketch at each budget, that the choice is made from.
_FINALISTS, _FINALISTS_OF_SKETCH = 64, 8
# Every how many proposals one explores. Every fourth, every sixth and never found kernels as fast; exploring
# is there for the model that is wrong, and for variety in what is measured.
_EXPLORE_EVERY = 6


def propose_candidates(  # noqa: PLR0913 (one argument a knob)
    workload: Workload,
    kind: Literal["cuda", "cpu"],
    count: int,
    seed: int,
    *,
    measured: Sequence[Measurement],
    budgets: Sequence[int],
    time_limit_s: float = 20.0,
    prior: Learner | None = None,
) -> list[Candidate]:
    """Choose valid candidates that are worth measuring next, all of different programs.

    Most are those with the largest expected improvement, the budgets taking turns, so that small parts of
    the device are served as well as the whole. Every sixth is the one of which least is known among the
    promising of each sketch. Where nothing that was measured works, and for what the evolution does not find
    in its time, candidates are drawn at random.

    Args:
        workload: What they compute.
        kind: Kind of device.
        count: How many. Fewer come back only where the space has no more.
        seed: Seed; the same arguments give the same candidates as long as time does not run out.
        measured: Measurements of this workload so far, failures included.
        budgets: SM budgets, as requested, at which fast kernels are sought; threads on a CPU.
        time_limit_s: Seconds after which the evolution stops and the choice begins.
        prior: Predicts latency from features (``costmodel.features.extract``), fitted on other workloads of
            the same kind of device: worth most while little is measured of this one. None for nothing but
            the analytic time.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    known = list({m.candidate.candidate_id: m.candidate for m in measured}.values())
    chosen: list[Candidate] = []
    if rows := _to_learn_from(measured, budgets):
        space = open_space(workload, kind)
        deadline = time.monotonic() + time_limit_s
        model = ImprovementModel.fit(rows, prior)
        bare = ImprovementModel.fit(before_lowering(rows))
        breeder = Breeder(space, rows[0].candidate, bare, np.random.default_rng(seed))
        pool = _evolve(breeder, model, _starts(rows), deadline)
        programs = DistinctPrograms(space, known)
        for candidate in _best_first(model, pool):
            if len(chosen) == count:
                break
            if programs.add(candidate):
                chosen.append(candidate)
    return chosen + sample_candidates(workload, kind, count - len(chosen), seed, known=known + chosen)


def _to_learn_from(measured: Sequence[Measurement], budgets: Sequence[int]) -> list[Measurement]:
    """What was measured at these budgets; of several platforms with one budget, that with most that works."""
    working = Counter(m.platform.platform_id for m in measured if m.outcome is Outcome.OK)
    by_budget = {
        sms: {m.platform.platform_id for m in measured if m.platform.sms_requested == sms} & working.keys()
        for sms in budgets
    }
    chosen = {max(sorted(ids), key=working.__getitem__) for ids in by_budget.values() if ids}
    return [m for m in measured if m.platform.platform_id in chosen]


def _starts(measured: Sequence[Measurement]) -> list[Config]:
    """The fastest configs on each platform, and the fastest there of each sketch, each once."""
    starts: dict[str, Config] = {}
    faster = Counter[tuple[str, object]]()
    for m in sorted((m for m in measured if m.outcome is Outcome.OK), key=lambda m: m.latency_s):
        of_all = m.platform.platform_id, None
        of_sketch = m.platform.platform_id, m.candidate.config.decisions.get(SKETCH)
        if faster[of_all] < _PARENTS or not faster[of_sketch]:
            starts[m.candidate.candidate_id] = m.candidate.config
        faster.update((of_all, of_sketch))
    return list(starts.values())


def _evolve(
    breeder: Breeder, model: ImprovementModel, starts: Sequence[Config], deadline: float
) -> list[Candidate]:
    """Valid candidates, bred from ``starts`` for expected improvement at every budget."""
    pool: dict[str, Candidate] = {}
    improvement = np.empty((0, len(model.platforms)))
    parents = list(starts)
    for _ in range(_GENERATIONS):
        if time.monotonic() > deadline:
            break
        random = [breeder.space.sample(breeder.rng) for _ in range(_RANDOM)]
        lowered = _lowered(breeder.space, [*random, *breeder.configs(parents, _BRED)], deadline)
        new = {child.candidate_id: child for child in lowered if child.candidate_id not in pool}
        if new:
            pool |= new
            improvement = np.vstack([improvement, model.improvement(model.rows(list(new.values())))])
            every = list(pool.values())
            parents = [*starts, *(every[i].config for i in leaders(improvement, _PARENTS))]
    return list(pool.values())


def _lowered(space: Space, configs: Iterable[Config], deadline: float) -> Iterator[Candidate]:
    """The valid candidates among the configs, fewer if the time is over."""
    for config in configs:
        if time.monotonic() > deadline:
            return
        try:
            yield space.candidate(config)
        except InvalidConfigError:
            continue


def _best_first(model: ImprovementModel, pool: Sequence[Candidate]) -> Iterator[Candidate]:
    """Candidates of ``pool`` in the order in which they should be measured, each believed before the next."""
    rows, sketches = model.rows(pool), np.array([str(c.config.decisions.get(SKETCH)) for c in pool])
    left = _finalists(model.improvement(rows), sketches)
    turn = 0
    for place in range(1, len(left) + 1):
        improvement = model.improvement(rows[left])
        if place % _EXPLORE_EVERY:
            at = int(improvement[:, turn % improvement.shape[1]].argmax())
            turn += 1
        else:
            at = _least_known(model.spread(rows[left]), improvement.max(axis=1), sketches[left])
        model = model.believing(rows[[left[at]]])
        yield pool[left.pop(at)]


def _finalists(improvement: FloatArray, sketches: NDArray[np.str_]) -> list[int]:
    """Rows with the largest improvements at any budget, and those of each sketch."""
    of_sketches = [np.flatnonzero(sketches == sketch) for sketch in np.unique(sketches)]
    finalists = [
        leaders(improvement, _FINALISTS),
        *(rows[leaders(improvement[rows], _FINALISTS_OF_SKETCH)] for rows in of_sketches),
    ]
    return [int(row) for row in np.unique(np.concatenate(finalists))]


def _least_known(spread: FloatArray, improvement: FloatArray, sketches: NDArray[np.str_]) -> int:
    """Position of the largest spread among the most promising quarter of each sketch.

    A sketch of which little was measured so gets its chance, even if that little was slow.
    """
    promising = np.zeros(len(spread), dtype=bool)
    for sketch in np.unique(sketches):
        same = sketches == sketch
        promising |= same & (improvement >= np.quantile(improvement[same], 0.75))
    return int(np.where(promising, spread, -1.0).argmax())
