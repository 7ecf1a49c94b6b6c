"""The design space of one workload, whatever its kernel source, and how candidates are drawn from one."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import InvalidConfigError
from costmodel.records._candidate import Candidate, Config, ConfigBatch, KernelLaunch
from costmodel.records._workload import Workload

# A neighbour is one to so many single-parameter changes away: enough to leave a small local optimum.
MOST_CHANGES = 3


class DesignSpace(Protocol):
    """All kernels that a source can make of a workload, by sketch: a kind of kernel with its own parameters.

    Attributes:
        name: Name of the space, part of the identity of a candidate.
        workload: What the kernels compute.
    """

    name: str
    workload: Workload

    @property
    def sketches(self) -> Sequence[Any]:
        """Sketches, in a fixed order."""
        ...

    @property
    def size(self) -> int | None:
        """Number of configs if ``draw`` can return all of them on request, else None."""
        ...

    @property
    def starts(self) -> Sequence[Config]:
        """Return the configs to measure before any other, such as the one that an author considers best."""
        ...

    def parameters(self) -> Mapping[str, int | tuple[Any, ...]]:
        """Return every parameter: the last index of a range from 0, or the choices."""
        ...

    def suggest(self, trial: Any) -> Config:
        """Return the config that an Optuna trial proposes."""
        ...

    def params(self, config: Config) -> Mapping[str, Any]:
        """Return the parameters of a config."""
        ...

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these parameters; raise ``CostModelError`` if there is none."""
        ...

    def draw(self, sketch: int, size: int, rng: np.random.Generator) -> ConfigBatch:
        """Draw random configs of one sketch, as columns."""
        ...

    def sample(self, rng: np.random.Generator) -> Config:
        """Draw a random config."""
        ...

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """Return a config with one random change."""
        ...

    def launches(self, batch: ConfigBatch) -> Mapping[str, FloatArray]:
        """Return what is known about the kernels of configs before any of them is built.

        Returns:
            Each field of ``KernelLaunch`` as ``(n, l)`` for l launches; NaN if unknown.
        """
        ...

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of a config; raise ``InvalidConfigError`` if it makes no kernel."""
        ...

    def program_hash(self, config: Config) -> int:
        """Return a hash that equal programs share within one process; raise as ``candidate`` does."""
        ...


def neighbour(space: DesignSpace, config: Config, rng: np.random.Generator) -> Config:
    """Return a config one to three random changes away, or by chance the config itself."""
    for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
        config = space.mutate(config, rng)
    return config


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
