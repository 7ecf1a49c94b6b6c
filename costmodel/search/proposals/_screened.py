"""Choose the kernels of a workload to measure first, by a model of other workloads."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from costmodel.errors import InvalidConfigError
from costmodel.kernels._distinct import DistinctPrograms
from costmodel.kernels._sample import sample_from_starts
from costmodel.records._candidate import Candidate
from costmodel.search._objective import Objective, ObjectiveName, SearchGoal
from costmodel.search.samplers._prediction import Prior
from costmodel.search.samplers._screening import screen
from costmodel.spaces._kernel import KernelSpace
from costmodel.transfer._base import TransferModel
from costmodel.transfer._plan import choose_first

_SCREENED = 4000  # configs that the model scores at each SM budget: half a second of one core


def screen_candidates(
    space: KernelSpace, model: TransferModel, count: int, seed: int, *, known: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Choose valid candidates that a model expects to be good, all of different programs.

    Candidates are chosen for the platforms of the space in turn, so that small parts of a device are covered
    as well as the whole. On each platform, configs are screened as in a search, and the most promising ones
    are ordered so that the first are good and informative together (see ``costmodel.transfer.choose_first``).
    No measurement of the workload is needed. If screening gives too few candidates, random ones are added.

    Args:
        space: Space to choose from, on one or more platforms, with the columns that the model expects.
        model: A fitted model of other workloads.
        count: Number of candidates. Fewer are returned if the space has no more.
        seed: Seed; the same arguments give the same candidates.
        known: Candidates of this workload that are already known, not to be chosen again.
    """
    programs = DistinctPrograms(space.space, known)
    chosen: list[Candidate] = []
    turns = deque(_best_first(space.on(each), model, count, seed) for each in space.platforms)
    while turns and len(chosen) < count:
        found = next((candidate for candidate in turns[0] if programs.add(candidate)), None)
        if found is None:
            turns.popleft()
        else:
            chosen.append(found)
            turns.rotate(-1)
    return chosen + sample_from_starts(space.space, count - len(chosen), seed, known=[*known, *chosen])


def _best_first(space: KernelSpace, model: TransferModel, count: int, seed: int) -> Iterator[Candidate]:
    """Valid candidates to measure on one platform, in order."""
    rng = np.random.default_rng(seed)
    objective = Objective.make(ObjectiveName.MEAN, budgets=1)
    reference = space.draw(1, rng).features
    predictor = Prior(model, objective, SearchGoal.ONE_KERNEL, lambda: reference).zero_shot()
    drawn = screen(space, predictor, _SCREENED, rng)
    for row in choose_first(model, drawn.features[:, 0], count):
        with suppress(InvalidConfigError):
            yield space.candidate(drawn.configs[int(row)])
