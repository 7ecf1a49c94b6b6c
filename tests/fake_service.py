"""A service for tests: a process of its own that appends the latency of each request to a file.

What a request takes is drawn, not timed, so that tests hold on any machine: 1 to 1.04 ms, times the factor in
the file ``factor``.
"""

import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SLOWEST_S = 1.04e-3


class FakeService:
    """The process, until the end of the ``with`` block.

    Args:
        folder: Where its files are.

    Attributes:
        log: File of latencies, which it has begun.
    """

    def __init__(self, folder: Path) -> None:
        self.log, self._factor = folder / "latencies.log", folder / "factor"
        self.times(1.0)
        self.process = subprocess.Popen([sys.executable, __file__, self.log, self._factor])
        try:
            self.await_requests(1)
        except BaseException:
            self.__exit__()
            raise

    def times(self, factor: float) -> None:
        """Make requests take a multiple from now on."""
        new = self._factor.with_suffix(".new")
        new.write_text(str(factor))
        new.replace(self._factor)

    def disturb(self, requests: int, factor: float = 2.0) -> None:
        """Make some requests, or a few more, take a multiple."""
        self.times(factor)
        self.await_requests(requests, over_s=SLOWEST_S)
        self.times(1.0)

    def await_requests(self, count: int, *, over_s: float = 0.0) -> None:
        """Wait until so many more than there are took longer than that."""
        before = len(self.latencies_s(over_s))
        while len(self.latencies_s(over_s)) < before + count:
            assert self.process.poll() is None, "the service has ended"
            time.sleep(0.005)

    def latencies_s(self, over_s: float = 0.0) -> list[float]:
        """Latencies in the log that are longer than that."""
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        return [latency_s for line in lines if (latency_s := float(line.split()[0])) > over_s]

    def __enter__(self) -> "FakeService":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def _serve(log: Path, factor: Path) -> None:
    draw = random.Random(0)
    with log.open("a", buffering=1) as out:
        while True:
            with suppress(ValueError):
                latency_s = float(factor.read_text()) * draw.uniform(1e-3, SLOWEST_S)
                out.write(f"{latency_s:.9f} request of a user\n")
            time.sleep(0.0002)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]))
