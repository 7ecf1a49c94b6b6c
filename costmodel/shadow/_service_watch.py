"""What a service may lose, and how that is watched."""

from dataclasses import dataclass
from pathlib import Path

from costmodel.errors import CostModelError

# The slowest of so many requests is above p99 with a probability of 95 %: 0.99 ** 299 = 0.0495.
_FEWEST = 299


@dataclass(frozen=True)
class ServiceWatch:
    """What a service may lose while kernels are measured beside it, and how that is watched.

    Attributes:
        latencies: File to which the service appends a line a request, see ``LatencyLog``.
        may_lose: Share by which its p99 may rise.
        window: Requests without tuning that p99 is taken of. Ten of 1,000 are slower than p99, so that the
            share of requests above it is known to a third; fewer than 299 tell no p99 at all.
        longest_pause_s: Seconds of one pause after which tuning ends.
        silence_s: Seconds without any request after which tuning ends.

    Raises:
        CostModelError: One is out of range.

    Example:
        >>> watch = ServiceWatch("latencies.log", may_lose=0.02)
        >>> costmodel.tune("matmul-m16-n1024-k1024", sms=16, runner="cuda", beside=watch)  # doctest: +SKIP
    """

    latencies: Path | str
    may_lose: float = 0.05
    window: int = 1000
    longest_pause_s: float = 600.0
    silence_s: float = 30.0

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.window < _FEWEST:
            raise CostModelError(
                f"window must be at least {_FEWEST} requests, as fewer tell no p99, but got {self.window}."
            )
        for name in ("may_lose", "longest_pause_s", "silence_s"):
            if not 0.0 < (value := getattr(self, name)) < float("inf"):
                raise CostModelError(f"{name} must be above 0 and finite, but got {value:g}.")
