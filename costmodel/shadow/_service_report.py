"""What a service lost while a search ran beside it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceReport:
    """What a service lost while a search ran beside it.

    Attributes:
        may_lose: Share by which its p99 might rise.
        p99_before_s: 99th percentile of its latencies before the search.
        p99_while_s: The same from the beginning of the search to its end, pauses included.
        p99_alone_s: The same of the last requests that ended while the search rested.
        median_before_s: Median latency before the search.
        median_while_s: The same from the beginning to the end.
        requests: Requests from the beginning to the end.
        requests_over: Those of them that were over the bound of their time.
        pauses: How often the search paused to keep the bound.
        paused_s: Seconds of all pauses.
        slower_by_itself: How often the service was found over the bound while the search rested.
        ended: Why the search could go no further; empty where it could.
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
        """By which share p99 was higher than before."""
        return self.p99_while_s / self.p99_before_s - 1.0
