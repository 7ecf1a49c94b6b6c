"""Configs of a kernel whose author lists none, chosen by what is read of them.

Configs that are worth looking at are drawn and read; those that cannot be right are left out. Then those near
the most promising are read, and so on. Nothing is run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels._read_facts import ReadFacts, Reading
from costmodel.kernels.family._base import check_shared_bytes
from costmodel.kernels.triton.proposing._open_space import STAGES, OpenSpace

OpenConfig = dict[str, int]
# Reads configs: a note where one cannot be read, or cannot be right.
ConfigReader = Callable[[Sequence[OpenConfig]], Sequence[Reading]]
# Tells the log latency of configs relative to one another by what was read of them.
ConfigRanker = Callable[[Sequence[ReadFacts]], FloatArray]

_DRAWN, _NEAR, _ROUNDS = 64, 32, 2
_PARENTS = 8
# Words of tiles that a thread holds at once, over its registers: of the best recorded kernels none has more.
_MOST_HELD = 3.0
_REGISTERS, _REGISTERS_OF_THREAD = 65536, 255  # of an SM, and of a thread, on all of NVIDIA's since Maxwell


@dataclass
class Proposer:
    """Proposes configs.

    Attributes:
        space: What may be chosen.
        architecture: Architecture of the device, such as ``sm_90``.
        read: Reads configs.
        rank: Ranks them.
        notes: Why configs were left out.
    """

    space: OpenSpace
    architecture: str
    read: ConfigReader
    rank: ConfigRanker
    notes: list[str] = field(default_factory=list)
    _seen: set[tuple[int, ...]] = field(default_factory=set)
    _kept: dict[ReadFacts, OpenConfig] = field(default_factory=dict)

    def propose(self, count: int, seed: int = 0) -> list[OpenConfig]:
        """Return up to so many configs, the most promising first.

        Raises:
            CostModelError: None can be right, as far as can be read.
        """
        rng = np.random.default_rng(seed)
        self._look_at(self.space.draw(_DRAWN, rng))
        if not self._kept:
            self._look_at(self.space.draw(2 * _DRAWN, rng))
        for _ in range(_ROUNDS):
            near = (each for parent in self.ordered()[:_PARENTS] for each in self.space.neighbours(parent))
            self._look_at(list(near), _NEAR)
        if not self._kept:
            raise CostModelError(
                f"configs='auto' must find a config that is right, but none of {len(self._seen)} can be. The "
                f"first: {self.notes[0] if self.notes else 'none fits'} Give configs."
            )
        return self.ordered()[:count]

    def ordered(self) -> list[OpenConfig]:
        """Return all configs that were read, the most promising first."""
        configs = list(self._kept.values())
        if not configs:
            return []
        return [configs[i] for i in self.rank(list(self._kept)).argsort(kind="stable")]

    def _look_at(self, configs: Sequence[OpenConfig], most: int | None = None) -> None:
        """Read configs that were not read before, and keep those that can be right.

        Of those that read alike the one with the fewest stages is kept, of which further ones do nothing, and
        the largest numbers, such as of programs that share what is in the cache.
        """
        new = {key: each for each in configs if (key := tuple(each.values())) not in self._seen}
        chosen = list(new.values())[:most]
        self._seen.update(tuple(each.values()) for each in chosen)
        for config, reading in zip(chosen, self.read(chosen), strict=True):
            note = reading.note or _excess(reading.facts, self.architecture)
            if note:
                self.notes.append(note)
            else:
                alike = [config, self._kept.get(reading.facts, config)]
                self._kept[reading.facts] = min(alike, key=_is_less_wanted)


def _excess(facts: ReadFacts, architecture: str) -> str:
    """Tell what a config needs more of than the device has; empty if it is nothing."""
    registers = min(_REGISTERS_OF_THREAD, _REGISTERS / facts.threads)
    if facts.thread_live_words > _MOST_HELD * registers:
        return f"A thread holds {facts.thread_live_words:.0f} words at once."
    try:
        check_shared_bytes(int(np.nan_to_num(facts.shared_bytes)), architecture)
    except InvalidConfigError as error:
        return str(error)
    return ""


def _is_less_wanted(config: OpenConfig) -> tuple[int, int]:
    return config.get(STAGES, 0), -sum(config.values())
