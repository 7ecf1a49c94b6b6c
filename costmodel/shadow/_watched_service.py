"""Looks at a service while something runs beside it, and pauses that so that the bound on p99 is kept."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from costmodel.errors import CostModelError
from costmodel.shadow._latency_log import LatencyLog
from costmodel.shadow._service_report import ServiceReport
from costmodel.shadow._service_watch import ServiceWatch

_TAIL = 0.01  # of requests are slower than p99
# Time at rest, without any tuning, over the time of what was measured before: the load of a service changes.
_REST_SHARE = 0.1
_POLL_S = 0.02
_KEPT = 1_000_000  # latencies that the report is of, at most: 32 MB


def _nobody(_: object) -> None:
    """Is told something, and does nothing."""


class CannotGoOnError(CostModelError):
    """A search beside a service must end: with what it has, if it has anything."""


class WatchedService:
    """Keeps the p99 of a service within a bound while kernels are measured beside it.

    The bound is ``1 + may_lose`` times the p99 of the last ``window`` requests without tuning, which are
    collected before anything else, in a short rest after each measurement, and in pauses. Each request since
    then is judged by the bound of its time, whatever the tuner did meanwhile. After a measurement at most one
    request in a hundred may have been over it, which is what p99 within the bound means; where there were
    more, there is a pause until enough others have made up for them. The more a measurement took, the longer
    it is, and the first requests count like all others: one slow one takes a pause of a hundred.

    Where a pause finds the service over the bound without any tuning, it has become slower by itself: its
    p99 of now is the one to keep from then on, and the count begins anew.

    Args:
        watch: The service, and what it may lose.
        on_requests: Called with the number of requests that were heard of at first, again and again.

    Attributes:
        ended: Why the search ended before its time; empty unless somebody sets it.
        tell: Called with a few words while there is a pause.

    Raises:
        CostModelError: The file of latencies cannot be read.
        CannotGoOnError: The service does not append to it.
    """

    def __init__(self, watch: ServiceWatch, on_requests: Callable[[int], None] = _nobody) -> None:
        """Learn the p99 of the service alone: nothing may run beside it yet."""
        self._watch, self._log = watch, LatencyLog(Path(watch.latencies))
        self._alone = deque[float](maxlen=watch.window)
        self._pauses, self._paused_s, self._slower_by_itself = 0, 0.0, 0
        self.ended = ""
        self.tell: Callable[[str], None] = _nobody
        self._heard_at = time.monotonic()
        while len(self._alone) < watch.window:
            self._alone.extend(heard := self._heard())
            on_requests(len(heard))
        self._since = _Account(self._alone)

    @contextmanager
    def burst(self) -> Iterator[None]:
        """What is measured within is followed by a rest, a look, and a pause where the bound is not kept.

        Raises:
            CannotGoOnError: The bound cannot be kept, or the service has gone silent.
        """
        start = time.monotonic()
        yield
        burst_s = time.monotonic() - start
        time.sleep(p99(self._alone))  # requests that were running in the burst have ended then
        self._since.add(self._listen(), self.bound_s)
        self._rest(_REST_SHARE * burst_s)
        if self._since.is_over:
            self._pause()

    @property
    def may_lose(self) -> float:
        """Share by which p99 may rise."""
        return self._watch.may_lose

    @property
    def bound_s(self) -> float:
        """Latency that one request in a hundred may exceed."""
        return (1.0 + self.may_lose) * p99(self._alone)

    @property
    def report(self) -> ServiceReport:
        """What the service lost."""
        since = self._since
        return ServiceReport(
            may_lose=self.may_lose,
            p99_before_s=since.p99_before_s,
            p99_while_s=p99(since.latencies_s),
            median_before_s=since.median_before_s,
            median_while_s=_median(since.latencies_s),
            requests=since.requests,
            requests_over=since.over,
            pauses=self._pauses,
            paused_s=self._paused_s,
            slower_by_itself=self._slower_by_itself,
            ended=self.ended,
        )

    def close(self) -> None:
        """Close the file; what was counted stays."""
        self._log.close()

    def _rest(self, seconds: float) -> None:
        """Look at the service alone for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._hear_alone()

    def _pause(self) -> None:
        """Wait until the bound is kept again, or the service is known to be slower by itself.

        Raises:
            CannotGoOnError: That takes too long.
        """
        start, bound_s, alone = time.monotonic(), self.bound_s, 0
        self._pauses += 1
        try:
            while self._since.is_over:
                self.tell(f"paused, as p99 of the service is over {1e3 * bound_s:.3g} ms")
                alone += self._hear_alone()
                if alone >= self._watch.window and p99(self._alone) > bound_s:
                    self._slower_by_itself += 1
                    self._since = _Account(self._alone)
                if time.monotonic() - start > self._watch.longest_pause_s:
                    raise CannotGoOnError(self._cannot_make_up())
        finally:
            self._paused_s += time.monotonic() - start
            self.tell("")

    def _hear_alone(self) -> int:
        """Count requests while nothing else runs; how many there were."""
        heard = self._heard()
        self._alone.extend(heard)
        self._since.add(heard, self.bound_s)
        return len(heard)

    def _heard(self) -> list[float]:
        """Requests that end in a short while."""
        time.sleep(_POLL_S)
        return self._listen()

    def _listen(self) -> list[float]:
        """Requests that ended since the last call.

        Raises:
            CannotGoOnError: There has been none for too long.
        """
        heard, now = self._log.read(), time.monotonic()
        if heard:
            self._heard_at = now
        elif now - self._heard_at > self._watch.silence_s:
            malformed = self._log.malformed
            why = f" ({malformed} lines began with no positive number)" if malformed else ""
            raise CannotGoOnError(
                f"A service must append a line for each request, but {self._watch.latencies} had none for "
                f"{self._watch.silence_s:g} s{why}. Start the service, name its file, or wait longer."
            )
        return heard

    def _cannot_make_up(self) -> str:
        since = self._since
        return (
            f"At most one request in a hundred may take over {1e3 * self.bound_s:.3g} ms, but "
            f"{since.over} of {since.requests} did, and a pause of {self._watch.longest_pause_s:g} s did not "
            f"make up for it (p99 without tuning: {1e3 * p99(self._alone):.3g} ms). Let the service lose "
            "more, tune on fewer SMs, or allow a longer pause."
        )


class _Account:
    """Requests since some moment, and how many of them were over the bound.

    Args:
        alone: Latencies without tuning until then, in seconds.
    """

    def __init__(self, alone: Collection[float]) -> None:
        self.p99_before_s, self.median_before_s = p99(alone), _median(alone)
        self.latencies_s = deque[float](maxlen=_KEPT)
        self.requests = self.over = 0

    def add(self, latencies_s: Collection[float], bound_s: float) -> None:
        """Count requests."""
        self.latencies_s.extend(latencies_s)
        self.requests += len(latencies_s)
        self.over += sum(each > bound_s for each in latencies_s)

    @property
    def is_over(self) -> bool:
        """Whether more than one request in a hundred was over the bound."""
        return self.over > _TAIL * self.requests


def p99(latencies_s: Collection[float]) -> float:
    """The latency that at most one in a hundred exceeds; NaN of none."""
    if not latencies_s:
        return float("nan")
    return float(np.quantile(list(latencies_s), 1.0 - _TAIL, method="inverted_cdf"))


def _median(latencies_s: Collection[float]) -> float:
    return float(np.median(list(latencies_s))) if latencies_s else float("nan")
