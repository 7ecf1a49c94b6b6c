"""What two dependent kernels save if tiles of the second wait for tiles of the first, not for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from costmodel.errors import did_you_mean
from costmodel.planner._tile_schedule import (
    Overheads,
    RowSync,
    StridedSync,
    SyncPolicy,
    TiledKernel,
    TileSync,
    overlapped_s,
)

POLICIES: Mapping[str, SyncPolicy] = MappingProxyType(
    {"row": RowSync(), "tile": TileSync(), "strided": StridedSync()}
)


@dataclass(frozen=True)
class Saving:
    """Two dependent kernels one after the other, and with synchronised tiles.

    Attributes:
        stream_s: Seconds of one after the other: the waves of both, and the gap between them.
        overlapped_s: Seconds with synchronised tiles, as simulated.
        bound_s: No schedule takes less: the greater of the critical path (a tile of each) and all work over
            all slots, both without overheads.
    """

    stream_s: float
    overlapped_s: float
    bound_s: float

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
    if sms < 1:
        raise ValueError(f"sms must be at least 1, but got {sms}")
    simulated = overlapped_s(producer, consumer, sms, _policy(policy), overheads)
    return Saving(
        stream_s=producer.duration_s(sms) + overheads.gap_s + consumer.duration_s(sms),
        overlapped_s=simulated,
        bound_s=max(producer.tile_s + consumer.tile_s, (_work(producer) + _work(consumer)) / sms),
    )


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
