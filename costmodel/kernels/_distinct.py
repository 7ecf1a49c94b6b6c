"""Tells candidates that are the same program, which different decisions often are in small spaces."""

from collections.abc import Iterable

import msgspec

from costmodel.errors import InvalidConfigError
from costmodel.kernels._design_space import DesignSpace
from costmodel.records._candidate import Candidate, KernelLaunch


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
        """Hash of the program; None where it cannot be lowered."""
        if candidate.candidate_id not in self._hashes:
            try:
                self._hashes[candidate.candidate_id] = self._space.program_hash(candidate.config)
            except InvalidConfigError:
                self._hashes[candidate.candidate_id] = None
        return self._hashes[candidate.candidate_id]


def _without_unrolling(candidate: Candidate) -> tuple[KernelLaunch, ...]:
    return tuple(msgspec.structs.replace(launch, unroll_steps=0) for launch in candidate.launches)
