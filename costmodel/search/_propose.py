"""Active learning of one workload: which kernels to build and measure next.

Each round fits a model to all that was measured, evolves kernels on the model alone (which lowers them, but
builds none), and chooses the few that are worth building.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import InvalidConfigError
from costmodel.kernels._base import KernelSource
from costmodel.kernels._design_space import DesignSpace, DistinctPrograms, neighbour, sample_from_starts
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.learners._base import Learner
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._workload import Workload
from costmodel.search._improvement import SKETCH, ImprovementModel
from costmodel.search._objective import Objective, ObjectiveName, SearchGoal
from costmodel.search.samplers._prediction import SearchPrior
from costmodel.search.samplers._screening import screen
from costmodel.search.spaces._base import SearchSpace
from costmodel.search.spaces._compiled import CompiledSpace
from costmodel.search.spaces._kernel import KernelSpace
from costmodel.transfer._base import TransferModel
from costmodel.transfer._plan import choose_first

# Most promising candidates of each budget, and of each sketch at each budget, that the choice is made from.
_FINALISTS, _FINALISTS_OF_SKETCH = 64, 8
# Every how many proposals one explores. Every fourth, every sixth and never found kernels as fast; exploring
# is there for the model that is wrong, and for variety in what is measured.
_EXPLORE_EVERY = 6
# These were tried on two workloads (experiments/proposals), where mean scores differ by .05 from
# chance alone. None of those tried was clearly better: 3 generations, a random share of .25, no exploring.
#
# The fastest at each budget, measured and bred alike, that children come from.
_PARENTS = 6
# Parts of the draws that are random, and that have two parents.
_RANDOM_SHARE, _CROSSING_SHARE = 0.1, 0.3
_SCREENED = (
    4000  # configs that a model of other workloads scores at each SM budget: half a second of one core
)


def propose_candidates(  # noqa: PLR0913 (one argument a knob)
    workload: Workload,
    kind: Literal["cuda", "cpu"],
    count: int,
    seed: int,
    *,
    measured: Sequence[Measurement],
    budgets: Sequence[int],
    source: KernelSource | None = None,
    time_limit_s: float = 20.0,
    prior: Learner | None = None,
    generations: int = 5,
    draws: int = 96,
) -> list[Candidate]:
    """Choose valid candidates that are worth measuring next, all of different programs.

    Most are those with the largest expected improvement, the budgets taking turns, so that small parts of
    the device are served as well as the whole. Every sixth is the one of which least is known among the
    promising of each sketch. Where nothing that was measured works, and for what the evolution does not find
    in its time, come those that an author would take first, then random ones.

    Args:
        workload: What they compute.
        kind: Kind of device.
        count: How many. Fewer come back only where the space has no more.
        seed: Seed; the same arguments give the same candidates as long as time does not run out.
        measured: Measurements of this workload so far, failures included.
        budgets: SM budgets, as requested, at which fast kernels are sought; threads on a CPU.
        source: Where kernels come from; MetaSchedule unless given.
        time_limit_s: Seconds after which the evolution stops and the choice begins.
        prior: Predicts latency from features (``costmodel.features.extract``), fitted on other workloads of
            the same kind of device: worth most while little is measured of this one. None for nothing but
            the analytic time.
        generations: How often kernels are bred from the best so far.
        draws: Kernels that each generation lowers. Of 480 in all some 380 are valid, and take 6 s for a
            matmul and 20 s for a convolution.

    Raises:
        MissingExtraError: What the source needs is not installed.
    """
    space = (source or MetaSchedule()).space(workload, kind)
    known = list({m.candidate.candidate_id: m.candidate for m in measured}.values())
    chosen: list[Candidate] = []
    if rows := _to_learn_from(measured, budgets):
        deadline = time.monotonic() + time_limit_s
        model = ImprovementModel.fit(rows, prior)
        rng = np.random.default_rng(seed)
        breed = partial(_children, space, rng=rng, draws=draws, deadline=deadline)
        pool = _evolve(model, _starts(rows), breed, generations)
        programs = DistinctPrograms(space, known)
        for candidate in best_first(model, pool):
            if len(chosen) == count:
                break
            if programs.add(candidate):
                chosen.append(candidate)
    return chosen + sample_from_starts(space, count - len(chosen), seed, known=known + chosen)


def screen_candidates(
    space: KernelSpace | CompiledSpace,
    model: TransferModel,
    count: int,
    seed: int,
    *,
    known: Sequence[Candidate] = (),
) -> list[Candidate]:
    """Choose valid candidates that a model expects to be good, all of different programs.

    Candidates are chosen for the platforms of the space in turn, so that small parts of a device are covered
    as well as the whole. On each platform, configs are screened as in a search, and the most promising ones
    are ordered so that the first are good and informative together (see ``costmodel.transfer.choose_first``).
    No measurement of the workload is needed. If screening gives too few candidates, random ones are added.

    Args:
        space: Space to choose from, or what was compiled of one, on one or more platforms, with the columns
            that the model expects.
        model: A fitted model of other workloads.
        count: Number of candidates. Fewer are returned if the space has no more.
        seed: Seed; the same arguments give the same candidates.
        known: Candidates of this workload that are already known, not to be chosen again.
    """
    whole = space.whole
    assert isinstance(whole, KernelSpace)
    programs = DistinctPrograms(whole.space, known)
    chosen: list[Candidate] = []
    turns = deque(_promising(space.on(each), model, count, seed) for each in space.platforms)
    while turns and len(chosen) < count:
        found = next((candidate for candidate in turns[0] if programs.add(candidate)), None)
        if found is None:
            turns.popleft()
        else:
            chosen.append(found)
            turns.rotate(-1)
    return chosen + sample_from_starts(whole.space, count - len(chosen), seed, known=[*known, *chosen])


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
    model: ImprovementModel,
    starts: Sequence[Config],
    breed: Callable[[Sequence[Config]], Iterator[Candidate]],
    generations: int,
) -> list[Candidate]:
    """Valid candidates, bred from ``starts`` for expected improvement at every budget."""
    pool: dict[str, Candidate] = {}
    improvement = np.empty((0, len(model.platforms)))
    parents = list(starts)
    for _ in range(generations):
        children = {child.candidate_id: child for child in breed(parents)}
        new = [child for name, child in children.items() if name not in pool]
        if new:
            pool |= {child.candidate_id: child for child in new}
            improvement = np.vstack([improvement, model.improvement(model.rows(new))])
            every = list(pool.values())
            parents = [*starts, *(every[i].config for i in leaders(improvement, _PARENTS))]
    return list(pool.values())


def _children(
    space: DesignSpace, parents: Sequence[Config], *, rng: np.random.Generator, draws: int, deadline: float
) -> Iterator[Candidate]:
    """One generation: what is valid of so many draws, fewer if the time is over."""
    for _ in range(draws):
        if time.monotonic() > deadline:
            return
        try:
            yield space.candidate(_child(space, parents, rng))
        except InvalidConfigError:
            continue


def _child(space: DesignSpace, parents: Sequence[Config], rng: np.random.Generator) -> Config:
    """A random config, or a parent, perhaps crossed with another, with a few random changes."""
    if rng.random() < _RANDOM_SHARE:
        return space.sample(rng)
    config, other = (parents[int(i)] for i in rng.integers(len(parents), size=2))
    if rng.random() < _CROSSING_SHARE:
        config = _crossed(config, other, rng)
    return neighbour(space, config, rng)


def _crossed(config: Config, other: Config, rng: np.random.Generator) -> Config:
    """Each decision that both have from one or the other, where both are of the same sketch."""
    mine, theirs = config.decisions, other.decisions
    if mine.get(SKETCH) != theirs.get(SKETCH):
        return config
    return Config({name: (mine if rng.random() < 0.5 else theirs)[name] for name in mine})


def best_first(model: ImprovementModel, pool: Sequence[Candidate]) -> Iterator[Candidate]:
    """Candidates in the order in which to measure them; the model is conditioned on each before the next."""
    rows, sketches = model.rows(pool), np.array([str(c.config.decisions.get(SKETCH)) for c in pool])
    left = finalists(model.improvement(rows), sketches)
    turn = 0
    for place in range(1, len(left) + 1):
        improvement = model.improvement(rows[left])
        if place % _EXPLORE_EVERY:
            at = int(improvement[:, turn % improvement.shape[1]].argmax())
            turn += 1
        else:
            at = least_known(model.std(rows[left]), improvement.max(axis=1), sketches[left])
        model = model.condition_on(rows[[left[at]]])
        yield pool[left.pop(at)]


def finalists(improvement: FloatArray, sketches: NDArray[np.str_]) -> list[int]:
    """Rows with the largest improvements at any budget, and those of each sketch."""
    of_sketches = [np.flatnonzero(sketches == sketch) for sketch in np.unique(sketches)]
    found = [
        leaders(improvement, _FINALISTS),
        *(rows[leaders(improvement[rows], _FINALISTS_OF_SKETCH)] for rows in of_sketches),
    ]
    return [int(row) for row in np.unique(np.concatenate(found))]


def least_known(std: FloatArray, improvement: FloatArray, sketches: NDArray[np.str_]) -> int:
    """Position of the largest std among the most promising quarter of each sketch.

    A sketch of which little was measured so gets its chance, even if that little was slow.
    """
    promising = np.zeros(len(std), dtype=bool)
    for sketch in np.unique(sketches):
        same = sketches == sketch
        promising |= same & (improvement >= np.quantile(improvement[same], 0.75))
    return int(np.where(promising, std, -1.0).argmax())


def leaders(values: FloatArray, count: int) -> Positions:
    """Rows that hold one of the ``count`` largest values of any column."""
    return np.unique(np.argsort(-values, axis=0, kind="stable")[:count])


def _promising(space: SearchSpace, model: TransferModel, count: int, seed: int) -> Iterator[Candidate]:
    """Valid candidates to measure on one platform, in order."""
    rng = np.random.default_rng(seed)
    objective = Objective.make(ObjectiveName.MEAN, budgets=1)
    reference = space.draw(1, rng).features
    predictor = SearchPrior(model, objective, SearchGoal.ONE_KERNEL, lambda: reference).zero_shot()
    drawn = screen(space, predictor, _SCREENED, rng)
    for row in choose_first(model, drawn.features[:, 0], count):
        with suppress(InvalidConfigError):
            yield space.candidate(drawn.configs[int(row)])
