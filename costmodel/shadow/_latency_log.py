"""The file to which a service appends the latency of each request."""

import math
import os
from contextlib import suppress
from pathlib import Path

from costmodel.errors import CostModelError


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
            self._file = path.open("rb", buffering=0)
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
            self._file, self._torn, self._skips = self._path.open("rb", buffering=0), b"", False
            return True
        return False


def _latency_s(line: bytes) -> float | None:
    """What a line begins with; None where that is no latency."""
    with suppress(ValueError):
        latency_s = float(line.split(None, 1)[0])
        if 0.0 < latency_s < math.inf:
            return latency_s
    return None
