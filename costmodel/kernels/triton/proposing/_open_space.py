"""What may be chosen of a kernel whose author lists no configs.

Values that are worth trying follow from what a parameter is used for, and from what the grid makes of it: how
many tiles there are of a size, and whether it multiplies the programs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from costmodel.errors import CostModelError
from costmodel.kernels.triton._layouts import WARP_THREADS
from costmodel.kernels.triton.proposing._uses import ParameterUses

Choices = Mapping[str, tuple[int, ...]]
WARPS, STAGES = "num_warps", "num_stages"

_WARPS = (1, 2, 4, 8, 16)
_STAGES = (1, 2, 3, 4, 5)
_COUNTS = (1, 2, 4, 8, 16)
_MOST_SHARED = 64  # rows or tiles of a program, where the grid tells how many there are
_SWITCH = (0, 1)
_STAGES_OF_LOOP = (1, 2, 3, 4)
_PROGRAMS_OF_SM = (1, 2, 4, 8, 16, 32)
_MOST_SPLITS = 2048
_LEAST_OF_PRODUCT, _MOST_OF_PRODUCT = 16, 256  # sides of tiles that are multiplied
_MOST_TILE = 65536
_HUGE = 1 << 30
_USUAL_TILE = 64
# Elements of a tile that a thread has: of one that products add up to, or of any other.
_PER_THREAD_OF_PRODUCT, _PER_THREAD = (4, 128), (1, 64)
_MOST_LISTED = 1 << 14


@dataclass(frozen=True)
class OpenSpace:
    """The configs of a kernel that are worth looking at.

    Attributes:
        choices: Values of each parameter that is open, with those of Triton's compiler.
        tiles: Which of them are sizes of tiles.
        told: Further sizes of tiles, which are not open.
        multiplies: Whether tiles are multiplied.
    """

    choices: Choices
    tiles: tuple[str, ...]
    told: tuple[int, ...] = ()
    multiplies: bool = False

    @property
    def condition(self) -> str:
        """The same as ``fits`` as a formula; empty if there is nothing to hold."""
        if not self.tiles:
            return ""
        least, most = self._per_warp
        elements = " * ".join(self.tiles)
        if self.multiplies and len(self.tiles) > 2:  # the two longest of three
            elements = f"{elements} / min({', '.join(self.tiles)})"
        elif self.multiplies and len(self.tiles) == 1:
            elements = f"{elements} * {elements}"
        more = math.prod(self.told)
        return f"{least} * {WARPS} <= ({elements}) * {more} and ({elements}) <= {most} * {WARPS}"

    def fits(self, config: Mapping[str, int]) -> bool:
        """Tell whether threads have neither too little of a tile nor too much.

        Whether sizes that are told are of the same tile is not known: they may be.
        """
        sides = sorted((config[name] for name in self.tiles), reverse=True)
        if not sides:
            return True
        if self.multiplies:
            sides = [*sides, sides[0]][:2]
        elements, (least, most) = math.prod(sides), self._per_warp
        warps = config[WARPS]
        return least * warps <= elements * math.prod(self.told) and elements <= most * warps

    @property
    def _per_warp(self) -> tuple[int, int]:
        """Fewest and most elements of a tile for each warp."""
        least, most = _PER_THREAD_OF_PRODUCT if self.multiplies else _PER_THREAD
        return least * WARP_THREADS, most * WARP_THREADS

    def draw(self, count: int, rng: np.random.Generator) -> list[dict[str, int]]:
        """Draw so many configs that fit, or all if there are not more."""
        if self._listed is not None:
            chosen = rng.permutation(len(self._listed))[:count]
            return [self._listed[i] for i in chosen]
        drawn: dict[tuple[int, ...], dict[str, int]] = {}
        for _ in range(_MOST_LISTED):
            config = {name: values[rng.integers(len(values))] for name, values in self.choices.items()}
            if self.fits(config):
                drawn[tuple(config.values())] = config
            if len(drawn) == count:
                break
        return list(drawn.values())

    def neighbours(self, config: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Yield configs that fit and differ by one step of one parameter."""
        for name, values in self.choices.items():
            at = values.index(config[name])
            for near in (at - 1, at + 1):
                if 0 <= near < len(values):
                    changed = {**config, name: values[near]}
                    if self.fits(changed):
                        yield changed

    @cached_property
    def _listed(self) -> list[dict[str, int]] | None:
        """All configs that fit; None where there are too many to list."""
        if math.prod(map(len, self.choices.values())) > _MOST_LISTED:
            return None
        every = (dict(zip(self.choices, values, strict=True)) for values in product(*self.choices.values()))
        return [config for config in every if self.fits(config)]


@dataclass(frozen=True)
class OpenLaunch:
    """A launch of a kernel that leaves parameters open.

    Attributes:
        uses: What the kernel uses its parameters for.
        names: Parameters that are open, those that the grid alone uses too.
        grid: Tells the programs along each axis for values of the open parameters.
        numbers: Whole numbers that it is called with, by name.
        sms: SMs that it has.
    """

    uses: ParameterUses
    names: Sequence[str]
    grid: Callable[[Mapping[str, int]], Sequence[int]]
    numbers: Mapping[str, int]
    sms: int

    def space(self) -> OpenSpace:
        """Return the configs that are worth looking at.

        Raises:
            CostModelError: What may be chosen of a parameter cannot be told.
        """
        choices = {name: self._choices(name) for name in self.names}
        uses, tiles = self.uses, tuple(name for name in self.names if self._is_tile(name))
        told = [value for name, value in self.numbers.items() if uses.use(name) == "tile" and value > 1]
        told += sorted(uses.literals)
        stages = _STAGES if uses.multiplies and uses.loops else ()
        options = {WARPS: _WARPS, **({STAGES: stages} if stages else {})}
        return OpenSpace({**choices, **options}, tiles, tuple(told), uses.multiplies)

    def plain(self) -> dict[str, int]:
        """Return a config that a kernel with masks computes right, without a look at what it does.

        Tiles that no program or loop moves must cover what there is; all else is small.
        """
        space = self.space()
        return {
            name: choices[-1]
            if self._is_tile(name) and not self._cut(name)
            else min(choices, key=lambda each: abs(each - _USUAL_TILE))
            if self._is_tile(name)
            else choices[0]
            for name, choices in space.choices.items()
        }

    def _cut(self, name: str) -> float:
        """How much there is that the grid cuts into parts of this size; 0 if it does not."""
        small, large = self._programs({name: 1}), self._programs({name: _HUGE})
        return small / large if small > large > 0 else 0.0

    def _choices(self, name: str) -> tuple[int, ...]:
        if self._multiplies_programs(name):
            return self._launched(name)
        use = self.uses.use(name)
        if use == "text":
            raise CostModelError(
                f"Numbers can be chosen, but {name} is used as text. Give it: in the call, or as a constant."
            )
        if use == "tile":
            return self._sides(name)
        if use == "switch":
            return tuple(sorted({*_SWITCH, *self.uses.compared[name]}))
        return _STAGES_OF_LOOP if use == "stages" else self._counts(name)

    def _counts(self, name: str) -> tuple[int, ...]:
        """Powers of two, up to what programs share where the grid shrinks with it."""
        most = min(_MOST_SHARED, self._cut(name) or _COUNTS[-1])
        return tuple(2**i for i in range(math.ceil(math.log2(most)) + 1))

    def _is_tile(self, name: str) -> bool:
        return self.uses.use(name) == "tile" and not self._multiplies_programs(name)

    def _sides(self, name: str) -> tuple[int, ...]:
        """Powers of two up to what there is to cover."""
        covered = self._cut(name) or max((_USUAL_TILE, *self.numbers.values()))
        most = _MOST_OF_PRODUCT if self.uses.multiplies else _MOST_TILE
        least = _LEAST_OF_PRODUCT if self.uses.multiplies else 1
        last = max(least, min(most, 2 ** math.ceil(math.log2(covered))))
        return tuple(2**i for i in range(int(math.log2(least)), int(math.log2(last)) + 1))

    def _multiplies_programs(self, name: str) -> bool:
        one = self._programs({name: 1})
        return one > 0 and all(self._programs({name: times}) == times * one for times in (2, 3))

    def _launched(self, name: str) -> tuple[int, ...]:
        """Choices of what multiplies the programs: of all that there are, or of parts of each."""
        one = self._programs({name: 1})
        if one == 1:
            return tuple(self.sms * each for each in _PROGRAMS_OF_SM)
        most = max(1, min(_MOST_SPLITS, _PROGRAMS_OF_SM[-1] * self.sms // one))
        return tuple(2**i for i in range(int(math.log2(most)) + 1))

    def _programs(self, chosen: Mapping[str, int]) -> int:
        """Programs of a launch with some parameters chosen, and usual values of the others; 0 if unknown."""
        usual = {name: _USUAL_TILE if self.uses.use(name) == "tile" else 1 for name in self.names}
        try:
            return math.prod(map(int, self.grid({**usual, **chosen})))
        except Exception:  # noqa: BLE001 (of a user's function)
            return 0
