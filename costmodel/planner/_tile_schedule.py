"""What dependent kernels save if tiles of each wait for tiles of the one before, not for all of them.

Notations: the producer has ``r`` rows, ``c`` columns and ``z`` splits, the consumer ``R``, ``C`` and ``Z``.
Blocks start in order, the producer's before the consumer's, each as soon as there is room on the SMs; a block
that waits keeps its room. So a wait is only ever for blocks that have started, and nothing deadlocks.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, lcm, prod
from types import MappingProxyType

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import did_you_mean


@dataclass(frozen=True)
class TiledKernel:
    """A kernel whose thread blocks compute one tile each, all in the same time.

    Tiles start row by row, a row from its first column to its last, and the whole grid once for each split.

    Attributes:
        grid: Rows and columns of tiles of the output, and parts that the reduction of a tile is split into,
            each part a block of its own.
        blocks_per_sm: Blocks that run on an SM at once.
        tile_s: Seconds that a block takes while its SM holds ``blocks_per_sm`` of them.

    Raises:
        ValueError: A number is not positive.
    """

    grid: tuple[int, int, int]
    blocks_per_sm: int
    tile_s: float

    def __post_init__(self) -> None:
        if len(self.grid) != 3 or min(self.grid) < 1:
            raise ValueError(f"grid must be (rows, columns, splits), each at least 1, but got {self.grid}")
        if self.blocks_per_sm < 1:
            raise ValueError(f"blocks_per_sm must be at least 1, but got {self.blocks_per_sm}")
        if not 0.0 < self.tile_s < float("inf"):
            raise ValueError(f"tile_s must be positive and finite, in seconds, but got {self.tile_s}")

    @property
    def tiles(self) -> int:
        """Blocks of the grid."""
        return prod(self.grid)

    def waves(self, sms: int) -> int:
        """Count how often all slots are filled, rounded up: ``ceil(blocks / (SMs * blocks per SM))``."""
        return ceil(self.tiles / (sms * self.blocks_per_sm))

    def duration_s(self, sms: int) -> float:
        """Return the seconds of the kernel alone on so many SMs: its waves, each as long as a tile."""
        return self.waves(sms) * self.tile_s

    @classmethod
    def from_duration(
        cls, grid: tuple[int, int, int], blocks_per_sm: int, sms: int, duration_s: float
    ) -> "TiledKernel":
        """Make the kernel whose waves on so many SMs take a measured or predicted time in all.

        Example:
            >>> TiledKernel.from_duration((2, 24, 1), blocks_per_sm=1, sms=32, duration_s=4e-4).tile_s
            0.0002
        """
        kernel = cls(grid, blocks_per_sm, duration_s)
        return cls(grid, blocks_per_sm, duration_s / kernel.waves(sms))


class SyncPolicy(ABC):
    """How a consumer's tile waits for the tiles of the producer's rows that it reads.

    A consumer's tile reduces over the columns of the producer's output. Each wait is for a group of columns;
    after it the tile works on these, an equal part of its reduction, and then waits for the next.
    """

    @abstractmethod
    def groups(self, columns: int) -> Positions:
        """Return ``(w, n)`` columns of the producer that each of ``w`` waits is for, in their order.

        Raises:
            ValueError: The columns do not fall into equal groups.
        """


def column_groups(columns: int, together: int) -> Positions:
    """Group columns as far from one another as can be: ``(columns / together, together)``.

    Raises:
        ValueError: ``together`` does not divide ``columns``.
    """
    if together < 1 or columns % together:
        raise ValueError(f"the stride must divide the {columns} columns of the producer, but got {together}")
    return np.arange(columns).reshape(together, -1).T


class RowSync(SyncPolicy):
    """A consumer's tile waits once, until all tiles of the rows that it reads are done."""

    def groups(self, columns: int) -> Positions:
        return column_groups(columns, columns)


class TileSync(SyncPolicy):
    """A consumer's tile waits for each of the producer's tiles just before it reads that tile."""

    def groups(self, columns: int) -> Positions:
        return column_groups(columns, 1)


@dataclass(frozen=True)
class StridedSync(SyncPolicy):
    """A consumer's tile waits for several of the producer's tiles, equally far apart, read together.

    So are read the gate and the value of a gated layer (2), or queries, keys and values of attention (3),
    where one matrix product computes them side by side.

    Attributes:
        together: Tiles that are read together.
    """

    together: int = 2

    def groups(self, columns: int) -> Positions:
        return column_groups(columns, self.together)


@dataclass(frozen=True)
class Overheads:
    """What two dependent kernels cost beside their tiles, in seconds.

    Attributes:
        gap_s: From the end of the first kernel to the start of the second in a stream.
        block_s: With synchronised tiles, added to each block of both kernels, which takes its tile from a
            list, so that tiles start in order, and says that it is done.
        wait_s: With synchronised tiles, added to a block of the consumer for each of its waits, also for one
            that is over at once.

    Raises:
        ValueError: An overhead is negative or not finite.
    """

    gap_s: float = 0.0
    block_s: float = 0.0
    wait_s: float = 0.0

    def __post_init__(self) -> None:
        if not all(0.0 <= seconds < np.inf for seconds in (self.gap_s, self.block_s, self.wait_s)):
            raise ValueError(f"overheads must be at least 0 and finite, in seconds, but got {self}")


POLICIES: Mapping[str, SyncPolicy] = MappingProxyType(
    {"row": RowSync(), "tile": TileSync(), "strided": StridedSync()}
)


@dataclass(frozen=True)
class Saving:
    """Dependent kernels one after the other, and with synchronised tiles.

    Attributes:
        stream_s: Seconds of one after the other: the waves of all, and the gaps between them.
        overlapped_s: Seconds with synchronised tiles, as simulated.
        bound_s: No schedule takes less: the greater of the critical path (a tile of each) and all work over
            all slots, both without overheads.
        gaps_s: Seconds of the gaps, which synchronised tiles do not have.
    """

    stream_s: float
    overlapped_s: float
    bound_s: float
    gaps_s: float = 0.0

    @property
    def saving(self) -> float:
        """``1 - overlapped / stream``; negative where synchronisation costs more than it saves."""
        return 1.0 - self.overlapped_s / self.stream_s


_NONE = Overheads()


def predict_saving(
    producer: TiledKernel,
    consumer: TiledKernel,
    sms: int,
    policy: str | SyncPolicy = "row",
    overheads: Overheads = _NONE,
) -> Saving:
    """Predict what synchronised tiles of two dependent kernels save (cuSync, CGO 2024, arXiv:2305.13450).

    One after the other, each kernel ends with a wave that fills only part of the slots. With synchronised
    tiles the consumer's blocks take the slots that the producer leaves, and each waits for the tiles that it
    reads. A row of the consumer reads the rows of the producer at the same part of its height, over all its
    columns.

    Args:
        producer: The kernel that is launched first.
        consumer: The kernel that reads its output.
        sms: SMs that both run on.
        policy: ``"row"``, ``"tile"``, ``"strided"`` (pairs), or a policy.
        overheads: What launches and synchronisation cost; nothing if not given.

    Raises:
        ValueError: ``sms`` is not positive, the policy is not known, or its groups do not divide the columns.

    Example:
        >>> up = TiledKernel((8, 24, 1), blocks_per_sm=1, tile_s=100e-6)  # 2.4 waves on 80 SMs
        >>> down = TiledKernel((8, 48, 1), blocks_per_sm=1, tile_s=50e-6)  # 4.8
        >>> round(predict_saving(up, down, sms=80).saving, 3)  # 550 us one after the other, 500 us overlapped
        0.091
    """
    return predict_chain([producer, consumer], sms, policy, overheads)


def predict_chain(
    kernels: Sequence[TiledKernel],
    sms: int,
    policy: str | SyncPolicy = "row",
    overheads: Overheads = _NONE,
) -> Saving:
    """Predict what synchronised tiles save of several kernels, each of which reads what the one before wrote.

    Args:
        kernels: In the order in which they are launched; blocks of all are in one queue.
        sms: SMs that they run on.
        policy: As of ``predict_saving``, between each kernel and the next.
        overheads: What launches and synchronisation cost; nothing if not given.

    Raises:
        ValueError: As of ``predict_saving``, or there are fewer than two kernels.

    Example:
        >>> layer = TiledKernel((8, 15, 1), blocks_per_sm=1, tile_s=100e-6)  # a wave and a half on 80 SMs
        >>> round(predict_chain([layer] * 4, sms=80).saving, 3)  # four take six waves, not eight
        0.25
    """
    if sms < 1:
        raise ValueError(f"sms must be at least 1, but got {sms}")
    if len(kernels) < 2:
        raise ValueError(f"there must be at least two kernels, but got {len(kernels)}")
    gaps_s = overheads.gap_s * (len(kernels) - 1)
    return Saving(
        stream_s=sum(each.duration_s(sms) for each in kernels) + gaps_s,
        overlapped_s=overlapped_s(kernels, sms, _policy(policy), overheads),
        bound_s=max(sum(each.tile_s for each in kernels), sum(map(_work, kernels)) / sms),
        gaps_s=gaps_s,
    )


# Savings that differ by less are alike: predictions of pairs never measured are off by more.
_TIE = 0.01


@dataclass(frozen=True)
class PolicyChoice:
    """What each policy is predicted to save, and which are best.

    Attributes:
        savings: By policy, part of the time of both kernels one after the other.
        best: Policies that save the most, or less by no more than a tie; none if that is no more than a tie
            above nothing: then the kernels may as well run one after the other.
    """

    savings: Mapping[str, float]
    best: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a sentence."""
        shown = {name: f"{name} {saving:+.1%}" for name, saving in self.savings.items()}
        if not self.best:
            return f"No policy is better than one kernel after the other: {', '.join(shown.values())}."
        others = [text for name, text in shown.items() if name not in self.best]
        of_others = f"; {', '.join(others)}" if others else ""
        alike = "Alike: " if len(self.best) > 1 else ""
        return f"{alike}{', '.join(shown[name] for name in self.best)}{of_others}."


def choose_policy(
    producer: TiledKernel,
    consumer: TiledKernel,
    sms: int,
    overheads: Overheads = _NONE,
    tie: float = _TIE,
) -> PolicyChoice:
    """Compare the policies for two dependent kernels, and say so where none is better.

    Args:
        producer: The kernel that is launched first.
        consumer: The kernel that reads its output.
        sms: SMs that both run on.
        overheads: What launches and synchronisation cost; nothing if not given.
        tie: Savings that differ by no more are alike.

    Raises:
        ValueError: ``sms`` is not positive, or ``tie`` is negative.

    Example:
        >>> up = TiledKernel((8, 10, 1), blocks_per_sm=1, tile_s=100e-6)  # a wave on 80 SMs
        >>> print(choose_policy(up, up, sms=80))
        No policy is better than one kernel after the other: row +0.0%, tile +0.0%, strided +0.0%.
    """
    if not tie >= 0:
        raise ValueError(f"tie must be at least 0, but got {tie}")
    paired = producer.grid[1] % StridedSync().together == 0
    names = [name for name in POLICIES if paired or name != "strided"]
    savings = {name: predict_saving(producer, consumer, sms, name, overheads).saving for name in names}
    most = max(savings.values())
    best = tuple(name for name, saving in savings.items() if saving >= most - tie) if most > tie else ()
    return PolicyChoice(savings, best)


def _work(kernel: TiledKernel) -> float:
    """Seconds that the kernel would take on one SM if its last wave were full."""
    return kernel.tiles * kernel.tile_s / kernel.blocks_per_sm


def _policy(policy: str | SyncPolicy) -> SyncPolicy:
    if isinstance(policy, SyncPolicy):
        return policy
    if policy not in POLICIES:
        meant = did_you_mean(policy, POLICIES)
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, but got {policy!r}.{meant}")
    return POLICIES[policy]


def overlapped_s(kernels: Sequence[TiledKernel], sms: int, policy: SyncPolicy, overheads: Overheads) -> float:
    """Simulate the seconds from the first block of the first kernel to the end of the last of the last."""
    shares = lcm(*(each.blocks_per_sm for each in kernels))
    room = _Room(sms * shares)
    first = kernels[0]
    ends = [
        room.start(shares // first.blocks_per_sm, first.tile_s + overheads.block_s)
        for _ in range(first.tiles)
    ]
    for producer, consumer in pairwise(kernels):
        rows, columns, splits = producer.grid
        done = np.array(ends).reshape(splits, rows, columns).max(axis=0)
        share = shares // consumer.blocks_per_sm
        ends = [
            room.start(share, work_s, end)
            for work_s, soonest in _splits(done, consumer, policy, overheads)
            for end in np.repeat(soonest, consumer.grid[1]).tolist()
        ]
    return room.end


def _splits(
    done: FloatArray, consumer: TiledKernel, policy: SyncPolicy, overheads: Overheads
) -> Iterator[tuple[float, FloatArray]]:
    """Seconds of a block, and ``(R,)`` seconds before which those of each row do not end, for each split.

    The first if nothing keeps the block waiting, the second whenever it starts: a block ends when its slowest
    wait is over and what it does from there on is done. A split does an equal part of the reduction; both of
    two splits that share a group of columns wait for it.

    Args:
        done: ``(r, c)`` seconds at which each tile of the producer is done.
        consumer: Whose blocks wait.
        policy: What they wait for.
        overheads: What a block and a wait cost.
    """
    rows, _, splits = consumer.grid
    of_groups = done[:, policy.groups(done.shape[1])].max(axis=2)  # (r, w)
    read = np.stack([of_groups[_part(row, rows, len(done))].max(axis=0) for row in range(rows)])  # (R, w)
    groups = read.shape[1]
    for split in range(splits):
        part = _part(split, splits, groups)
        waited = np.arange(part.start, part.stop)
        left = (split + 1) / splits - np.maximum(waited / groups, split / splits)  # of the whole reduction
        after = left * splits * consumer.tile_s + (part.stop - waited) * overheads.wait_s + overheads.block_s
        yield float(after[0]), (read[:, part] + after).max(axis=1)


def _part(index: int, parts: int, length: int) -> slice:
    """Positions of a sequence that one of so many equal parts touches."""
    return slice(index * length // parts, -(-(index + 1) * length // parts))


class _Room:
    """Shares of SMs that blocks take and give back, in the order in which they ask."""

    def __init__(self, shares: int) -> None:
        self._free = shares
        self._now = 0.0
        self._running: list[tuple[float, int]] = []
        self.end = 0.0

    def start(self, share: int, work_s: float, not_before: float = 0.0) -> float:
        """Tell when a block ends that starts as soon as its share is free.

        Args:
            share: What it takes of the shares.
            work_s: Seconds that it takes if nothing keeps it waiting.
            not_before: It does not end before.
        """
        while self._free < share:
            self._now, given_back = heapq.heappop(self._running)
            self._free += given_back
        self._free -= share
        end = max(self._now + work_s, not_before)
        heapq.heappush(self._running, (end, share))
        self.end = max(self.end, end)
        return end
