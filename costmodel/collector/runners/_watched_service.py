"""Watch a service while kernels are measured alongside, and pause the measuring to keep a p99 bound."""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from costmodel.collector.runners._base import CannotGoOnError
from costmodel.collector.runners._service_watch import ServiceReport, ServiceWatch
from costmodel.errors import CostModelError
from costmodel.opening import open_regular

_TAIL = 0.01  # of requests are slower than p99
# A service that has become slower has more than so many over the bound. Where one in a hundred is, as usual,
# more than two are by chance in two windows of 1,000 requests out of a thousand (Poisson).
_SLOWER_SHARE = 0.02
# Time at rest, without any tuning, over the time of what was measured before: the load of a service changes.
_REST_SHARE = 0.1
_POLL_S = 0.02
_KEPT = 1_000_000  # latencies that the report is of, at most: 32 MB


def _nobody(_: object) -> None:
    """Is told something, and does nothing."""


class WatchedService:
    """Keep the p99 of a service within a bound while kernels are measured alongside.

    The bound is ``1 + may_lose`` times the p99 of the last ``window`` requests without tuning, which are
    collected before anything else, in a short rest after each measurement, and in pauses. Each request since
    then is judged by the bound of its time, whatever the tuner did meanwhile. After a measurement at most one
    request in a hundred may have been over it, which is what p99 within the bound means; where there were
    more, there is a pause until enough others have made up for them. The more a measurement took, the longer
    it is, and the first requests count like all others: one slow one takes a pause of a hundred.

    Where a pause finds the service over the bound without any tuning, it has become slower by itself: its
    p99 of now is the one to keep from then on, and what was over the bound until then is forgiven.

    Args:
        watch: The service, and what it may lose.
        on_requests: Called with the number of requests that were heard of at first, again and again.

    Attributes:
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
        self._ended = ""
        self.tell: Callable[[str], None] = _nobody
        self._heard_at = time.monotonic()
        try:
            while len(self._alone) < watch.window:
                self._alone.extend(heard := self._heard())
                on_requests(len(heard))
        except BaseException:  # an interrupt too
            self.close()
            raise
        self._p99_before_s, self._median_before_s = p99(self._alone), _median(self._alone)
        self._since = deque[float](maxlen=_KEPT)
        self._requests = self._over = self._forgiven = 0

    @contextmanager
    def burst(self) -> Iterator[None]:
        """What is measured within is followed by a rest, a look, and a pause where the bound is not kept.

        Raises:
            CannotGoOnError: After the last burst the bound could not be kept, or the service was silent.
        """
        if self._ended:
            raise CannotGoOnError(self._ended)
        start, bound_s = time.monotonic(), self.bound_s
        yield
        try:
            self._look(time.monotonic() - start, bound_s)
        except CannotGoOnError as error:  # what was measured counts
            self._ended = str(error)

    @property
    def may_lose(self) -> float:
        """Share by which the service's p99 may rise."""
        return self._watch.may_lose

    @property
    def bound_s(self) -> float:
        """Latency that one request in a hundred may exceed."""
        return (1.0 + self.may_lose) * p99(self._alone)

    @property
    def report(self) -> ServiceReport:
        """How the search affected the service so far."""
        return ServiceReport(
            may_lose=self.may_lose,
            p99_before_s=self._p99_before_s,
            p99_while_s=p99(self._since),
            p99_alone_s=p99(self._alone),
            median_before_s=self._median_before_s,
            median_while_s=_median(self._since),
            requests=self._requests,
            requests_over=self._over,
            pauses=self._pauses,
            paused_s=self._paused_s,
            slower_by_itself=self._slower_by_itself,
            ended=self._ended,
        )

    def close(self) -> None:
        """Close the file; what was counted stays."""
        self._log.close()

    def _look(self, burst_s: float, bound_s: float) -> None:
        """Count what a burst took, look at the service alone for a while, and pause if need be.

        Args:
            burst_s: How long it was.
            bound_s: The bound before it.

        Raises:
            CannotGoOnError: The pause takes too long, or the service is silent.
        """
        time.sleep(p99(self._alone))  # requests that were running in the burst have ended then
        self._count(self._listen())
        counted, end = self._requests, time.monotonic() + _REST_SHARE * burst_s
        while time.monotonic() < end:
            self._hear_alone()
        if self._is_over:
            self._pause(bound_s, counted)

    def _pause(self, bound_s: float, counted: int) -> None:
        """Wait until the bound is kept again, or the service is known to be slower by itself.

        Args:
            bound_s: The bound before the burst.
            counted: Requests until its end; those since then are without tuning.

        Raises:
            CannotGoOnError: That takes too long.
        """
        start = time.monotonic()
        self._pauses += 1
        try:
            while self._is_over:
                self.tell(f"paused, as p99 of the service is over {1e3 * bound_s:.3g} ms")
                self._hear_alone()
                all_now = self._requests - counted >= self._watch.window
                if all_now and _over(self._alone, bound_s) > _SLOWER_SHARE * len(self._alone):
                    self._slower_by_itself += 1
                    self._forgiven = self._over
                if time.monotonic() - start > self._watch.longest_pause_s:
                    raise CannotGoOnError(self._cannot_make_up())
        finally:
            self._paused_s += time.monotonic() - start
            self.tell("")

    @property
    def _is_over(self) -> bool:
        """Whether more than one request in a hundred was over the bound, but for what is forgiven."""
        return self._over - self._forgiven > _TAIL * self._requests

    def _count(self, latencies_s: Collection[float]) -> None:
        """Judge requests by the bound of now."""
        self._since.extend(latencies_s)
        self._requests += len(latencies_s)
        self._over += _over(latencies_s, self.bound_s)

    def _hear_alone(self) -> None:
        """Count requests while nothing else runs."""
        heard = self._heard()
        self._alone.extend(heard)
        self._count(heard)

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
        return (
            f"At most one request in a hundred may take over {1e3 * self.bound_s:.3g} ms, but "
            f"{self._over} of {self._requests} did, and a pause of {self._watch.longest_pause_s:g} s did not "
            f"make up for it (p99 without tuning: {1e3 * p99(self._alone):.3g} ms). Let the service lose "
            "more, tune on fewer SMs, or allow a longer pause."
        )


def p99(latencies_s: Collection[float]) -> float:
    """Return the latency that at most one request in a hundred exceeds; NaN without requests."""
    if not latencies_s:
        return float("nan")
    return float(np.quantile(list(latencies_s), 1.0 - _TAIL, method="inverted_cdf"))


def _over(latencies_s: Collection[float], bound_s: float) -> int:
    """How many are over the bound."""
    return sum(each > bound_s for each in latencies_s)


def _median(latencies_s: Collection[float]) -> float:
    return float(np.median(list(latencies_s))) if latencies_s else float("nan")


class LatencyLog:
    """Reader of a service's latency file, with one line per request that begins with its latency in seconds.

    The rest of a line is ignored. A line counts once it is complete, so a partly written line loses nothing.
    A file that is truncated or replaced is read from its beginning.

    Args:
        path: The file. Its present content is skipped.

    Attributes:
        malformed: Number of lines that did not begin with a positive number.

    Raises:
        CostModelError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.malformed, self._torn = path, 0, b""
        try:
            self._file: BinaryIO = open_regular(path, buffering=0)
        except OSError as error:
            raise CostModelError(
                f"A service must append its latencies to a file, but {path} cannot be read "
                f"({error.strerror}). Start the service first, or name its file."
            ) from None
        end = self._file.seek(0, os.SEEK_END)
        self._skips = end > 0  # from the last byte on: the end of a line, or of a part of one
        self._file.seek(max(0, end - 1))

    def read(self) -> list[float]:
        """Return the latencies in seconds of requests that ended since the last call, in order."""
        lines = self._lines()
        if self._is_other():
            lines += self._lines()
        parsed = [_latency_s(line) for line in lines if line.strip()]
        found = [latency_s for latency_s in parsed if latency_s is not None]
        self.malformed += len(parsed) - len(found)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _lines(self) -> list[bytes]:
        """What was appended, as far as lines are complete."""
        *lines, self._torn = (self._torn + self._file.read()).split(b"\n")
        if self._skips and lines:
            self._skips = False
            del lines[0]
        return lines

    def _is_other(self) -> bool:
        """Whether another file has taken the place of the one that was read, or it was emptied."""
        with suppress(OSError):  # it is being replaced
            there, read = self._path.stat(), os.fstat(self._file.fileno())
            if there.st_ino == read.st_ino and read.st_size >= self._file.tell():
                return False
            self._file.close()
            self._file, self._torn, self._skips = open_regular(self._path, buffering=0), b"", False
            return True
        return False


def _latency_s(line: bytes) -> float | None:
    """What a line begins with; None where that is no latency."""
    with suppress(ValueError):
        latency_s = float(line.split(None, 1)[0])
        if 0.0 < latency_s < math.inf:
            return latency_s
    return None
