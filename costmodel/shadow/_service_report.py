"""How a search affected the latency of a watched service."""

from dataclasses import dataclass


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
