"""Timings of Triton kernels in a record store that several processes append to."""

import os
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from costmodel.errors import CostModelError
from costmodel.records import Candidate, Measurement, Platform, SharedLineFile, Workload

# Names a store for all kernels that are not told another.
STORE_VARIABLE = "COSTMODEL_TRITON_STORE"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Measurement).decode


class TimingStore:
    """A record store that any number of processes append to, each measurement at once.

    It is a file like any record store: what was not killed in the middle of a write is kept, and a torn tail
    is moved out of the way.

    Args:
        path: The file; its name ends in ``.jsonl``. Made if it is not there.

    Raises:
        CostModelError: The file cannot be opened, or is damaged before its last line.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != ".jsonl":
            raise CostModelError(f"A record store must be a .jsonl file, but got {path}.")
        self.path = path
        self._lines = SharedLineFile(path, "record store")
        self._lock = threading.RLock()
        self._keys = set[str]()
        self._by_kernel: dict[tuple[str, str, str], list[Measurement]] = {}
        self._by_family: dict[str, list[Measurement]] = {}

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements; they are on disk when this returns.

        What another process kept meanwhile of the same candidate, platform and visit stays.
        """
        with self._lock, self._lines.locked():
            self.refresh()
            new = [each for each in measurements if each.key not in self._keys]
            self._lines.append([_encode(each) for each in new])
        self.refresh()

    def refresh(self) -> None:
        """Take over what was appended by anyone since the last time."""
        with self._lock:
            self._read_new()

    def of_kernel(self, workload: Workload, space: str, platform: Platform) -> list[Measurement]:
        """All measurements of a kernel on a platform, in order; drivers may differ."""
        return self._by_kernel.get((workload.name, space, platform.platform_id), [])

    def visits(self, candidate: Candidate, platform: Platform) -> int:
        """How often a candidate was measured on a platform."""
        of_kernel = self.of_kernel(candidate.workload, candidate.space, platform)
        return sum(each.candidate.candidate_id == candidate.candidate_id for each in of_kernel)

    def of_family(self, family: str) -> list[Measurement]:
        """All measurements of kernels of one name and types, in order."""
        return self._by_family.get(family, [])

    def _read_new(self) -> None:
        for number, record in self._lines.read_new():
            try:
                measurement = _decode(record)
            except msgspec.ValidationError as error:
                raise CostModelError(
                    f"{self.path}, line {number} is no measurement of this version: {error}."
                ) from None
            if measurement.key not in self._keys:
                self._keys.add(measurement.key)
                of, platform_id = measurement.candidate, measurement.platform.platform_id
                kernel = of.workload.name, of.space, platform_id
                self._by_kernel.setdefault(kernel, []).append(measurement)
                self._by_family.setdefault(of.workload.kind, []).append(measurement)


def open_store(path: Path | str | None) -> TimingStore:
    """The store at a path, one object for all kernels of this process.

    Args:
        path: The file; unless given ``$COSTMODEL_TRITON_STORE``, or
            ``~/.cache/costmodel/triton.jsonl`` (``$XDG_CACHE_HOME`` stands in for ``~/.cache``).
    """
    return _opened((Path(path) if path else _usual_path()).expanduser().absolute())


def _usual_path() -> Path:
    if named := os.environ.get(STORE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "costmodel" / "triton.jsonl"


@cache
def _opened(path: Path) -> TimingStore:
    return TimingStore(path)
