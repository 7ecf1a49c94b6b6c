"""Draws candidates from a design space: at random, or near configs that are known to be good."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
import numpy as np

from costmodel.errors import InvalidConfigError
from costmodel.kernels._design_space import DesignSpace, neighbour
from costmodel.records._candidate import Candidate, Config, KernelLaunch

# After this many draws in a row that repeat a config or a program, what is drawn from counts as exhausted: a
# program that 2 % of the draws give is then missed with a probability of 2 %. It happens near the fastest
# kernels of row-wise reductions, whose sketch has two decisions, and in small spaces.
_MOST_REPEATS = 200


class DistinctPrograms:
    """Set of candidates, of which no two lower to the same program.

    Most pairs differ in their launches already. Unrolling is left out of that comparison, because a limit
    that no loop reaches changes nothing. If everything else agrees, the lowered programs are compared.
    """

    def __init__(self, space: DesignSpace, known: Iterable[Candidate] = ()) -> None:
        """Start with the candidates that are known."""
        self._space = space
        self._ids: set[str] = set()
        self._alike: dict[tuple[KernelLaunch, ...], list[Candidate]] = {}
        self._hashes: dict[str, int | None] = {}
        for candidate in known:
            self._keep(candidate)

    def add(self, candidate: Candidate) -> bool:
        """Add ``candidate`` if its program is new, and return whether it was.

        A candidate that has to be compared and cannot be lowered, which TVM notices late, is not added.
        """
        if candidate.candidate_id in self._ids:
            return False
        alike = self._alike.get(_without_unrolling(candidate), [])
        if alike:
            program = self._hash(candidate)
            if program is None or program in {self._hash(other) for other in alike}:
                return False
        self._keep(candidate)
        return True

    def _keep(self, candidate: Candidate) -> None:
        self._ids.add(candidate.candidate_id)
        self._alike.setdefault(_without_unrolling(candidate), []).append(candidate)

    def _hash(self, candidate: Candidate) -> int | None:
        """Return the hash of the program; None where it cannot be lowered."""
        if candidate.candidate_id not in self._hashes:
            try:
                self._hashes[candidate.candidate_id] = self._space.program_hash(candidate.config)
            except InvalidConfigError:
                self._hashes[candidate.candidate_id] = None
        return self._hashes[candidate.candidate_id]


def _without_unrolling(candidate: Candidate) -> tuple[KernelLaunch, ...]:
    return tuple(msgspec.structs.replace(launch, unroll_steps=0) for launch in candidate.launches)


def sample(  # noqa: PLR0913 (one argument a knob, all but three optional)
    space: DesignSpace,
    count: int,
    seed: int,
    *,
    parents: Sequence[Config] = (),
    known: Sequence[Candidate] = (),
    time_limit_s: float = 600.0,
    on_progress: Callable[[int], None] | None = None,
) -> list[Candidate]:
    """Draw valid candidates that are all different programs.

    Args:
        space: Space to draw from.
        count: Number of candidates to draw. Fewer are returned if the space or the time limit does not allow
            as many.
        seed: Seed. The same arguments draw the same candidates unless time runs out.
        parents: Configs to start from. With parents, a draw changes one to three parameters of one of them
            until their neighbourhood is exhausted. After that, and without parents, draws are uniform over
            each parameter's choices.
        known: Existing candidates of this workload, which are not drawn again.
        time_limit_s: Seconds after which to stop.
        on_progress: Called with the number drawn so far, after each draw.
    """
    rng = np.random.default_rng(seed)
    programs = DistinctPrograms(space, known)
    found: list[Candidate] = []
    tried: set[str] = set()
    repeats = 0
    deadline = time.monotonic() + time_limit_s
    # Nearly all draws verify; 400 for each candidate end the search where none does.
    for _ in range(400 * count):
        if repeats == _MOST_REPEATS and parents:
            parents, repeats = (), 0
        if len(found) == count or repeats == _MOST_REPEATS or time.monotonic() > deadline:
            break
        config = _draw(space, parents, rng)
        if config.config_id in tried:
            repeats += 1
            continue
        tried.add(config.config_id)
        try:
            candidate = space.candidate(config)
        except InvalidConfigError:
            continue
        if not programs.add(candidate):
            repeats += 1
            continue
        repeats = 0
        found.append(candidate)
        if on_progress:
            on_progress(len(found))
    return found


def sample_from_starts(
    space: DesignSpace, count: int, seed: int, *, known: Sequence[Candidate] = ()
) -> list[Candidate]:
    """Draw valid candidates: first the starts of the space, then at random, as ``sample`` does.

    Args:
        space: Space to draw from.
        count: Number of candidates to draw. Fewer are returned if the space does not have as many.
        seed: Seed.
        known: Existing candidates of this workload, which are not drawn again.
    """
    there = {candidate.candidate_id for candidate in known}
    starts = [each for each in _starts(space) if each.candidate_id not in there][:count]
    return [*starts, *sample(space, count - len(starts), seed, known=[*known, *starts])]


def _starts(space: DesignSpace) -> Iterator[Candidate]:
    """Return the candidates to measure before any other, as far as they are valid."""
    for config in space.starts:
        with suppress(InvalidConfigError):
            yield space.candidate(config)


def _draw(space: DesignSpace, parents: Sequence[Config], rng: np.random.Generator) -> Config:
    """Return a random config, or one near a random parent."""
    if not parents:
        return space.sample(rng)
    return neighbour(space, parents[int(rng.integers(len(parents)))], rng)
