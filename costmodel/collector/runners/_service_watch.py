"""The bound on the latency of a service beside which kernels are measured, and how it was kept."""

from dataclasses import dataclass
from math import inf
from pathlib import Path

from costmodel.arguments import check_number, check_path, check_whole
from costmodel.errors import CostModelError
from costmodel.report._page import format_three_digits

# The slowest of so many requests is above p99 with a probability of 95 %: 0.99 ** 299 = 0.0495.
_FEWEST = 299


@dataclass(frozen=True)
class ServiceWatch:
    """Bound on a service's p99 while kernels are measured alongside, and settings for watching it.

    Attributes:
        latencies: File to which the service appends one line per request (see ``LatencyLog``).
        may_lose: Share by which the service's p99 may rise.
        window: Number of requests without tuning from which p99 is computed. Ten of 1,000 requests are slower
            than p99, so the share of requests above it is known to within a third. At least 299, as fewer
            give no p99 at all.
        longest_pause_s: Length of one pause, in seconds, after which tuning ends.
        silence_s: Time without any request, in seconds, after which tuning ends.

    Raises:
        CostModelError: A setting is out of range.

    Example:
        >>> watch = ServiceWatch("latencies.log", may_lose=0.02)
        >>> costmodel.tune("matmul-m16-n1024-k1024", sms=16, on=Beside("cuda", watch))  # doctest: +SKIP
    """

    latencies: Path | str
    may_lose: float = 0.05
    window: int = 1000
    longest_pause_s: float = 600.0
    silence_s: float = 30.0

    def __post_init__(self) -> None:
        """Check the settings."""
        check_path("latencies", self.latencies)
        if check_whole("window", self.window) < _FEWEST:
            raise CostModelError(
                f"window must be at least {_FEWEST} requests, as fewer give no p99, but got {self.window}."
            )
        for name in ("may_lose", "longest_pause_s", "silence_s"):
            if not 0.0 < (value := check_number(name, getattr(self, name), -inf, inf)) < inf:
                raise CostModelError(f"{name} must be above 0 and finite, but got {value:g}.")


@dataclass(frozen=True)
class ServiceReport:
    """How a search affected the latency of a service that ran alongside.

    Attributes:
        may_lose: Share by which p99 was allowed to rise.
        p99_before_s: p99 before the search, in seconds.
        p99_while_s: p99 from the beginning of the search to its end, pauses included, in seconds.
        p99_alone_s: p99 of the last requests that ended while the search rested, in seconds.
        median_before_s: Median latency before the search, in seconds.
        median_while_s: Median latency from the beginning of the search to its end, in seconds.
        requests: Number of requests from the beginning of the search to its end.
        requests_over: Number of these requests that exceeded the bound in force at their time.
        pauses: Number of pauses to keep the bound.
        paused_s: Total time of all pauses, in seconds.
        slower_by_itself: How often the service exceeded the bound while the search rested.
        ended: Why the service ended the search; empty if it did not.
    """

    may_lose: float
    p99_before_s: float
    p99_while_s: float
    p99_alone_s: float
    median_before_s: float
    median_while_s: float
    requests: int
    requests_over: int
    pauses: int
    paused_s: float
    slower_by_itself: int
    ended: str = ""

    @property
    def p99_rise(self) -> float:
        """Share by which p99 was higher than before the search."""
        return self.p99_while_s / self.p99_before_s - 1.0

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the service lost meanwhile, and why the search did not come to its end."""
        seconds = (self.p99_before_s, self.p99_while_s, self.p99_alone_s)
        before, meanwhile, alone = (format_three_digits(1e3 * each) for each in seconds)
        told = [
            f"The service beside it: p99 {meanwhile} ms, {before} ms before "
            f"({100 * self.p99_rise:+.1f} %, at most {100 * self.may_lose:+g} %), over "
            f"{self.requests:,} requests; {self.pauses} {'pause' if self.pauses == 1 else 'pauses'}, "
            f"{self.paused_s:.1f} s in all."
        ]
        if self.slower_by_itself:
            told.append(
                "It has become slower by itself, which is not the search's: without it p99 is "
                f"{alone} ms now."
            )
        if self.ended:
            told.append(f"The search went no further: {self.ended}")
        return tuple(told)
