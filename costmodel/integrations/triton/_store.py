"""Timings of Triton kernels in a record store that several processes append to."""

import os
from functools import cache
from itertools import count
from pathlib import Path

from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, measurement_key
from costmodel.records._platform import Platform
from costmodel.records._store import SharedRecordStore
from costmodel.records._workload import Workload

# Names a store for all kernels that are not told another.
STORE_VARIABLE = "COSTMODEL_TRITON_STORE"


class TimingStore(SharedRecordStore):
    """A record store that indexes its measurements by kernel."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._by_kernel: dict[tuple[str, str, str], list[Measurement]] = {}
        self._by_family: dict[str, list[Measurement]] = {}

    def of_kernel(self, workload: Workload, space: str, platform: Platform) -> list[Measurement]:
        """Return all measurements of a kernel on a platform, in order; drivers may differ."""
        return self._by_kernel.get((workload.name, space, platform.platform_id), [])

    def next_visit(self, candidate: Candidate, platform: Platform) -> int:
        """Return the number of the next measurement of a candidate on a platform."""
        return next(
            visit for visit in count() if self.get(measurement_key(candidate, platform, visit)) is None
        )

    def of_family(self, family: str) -> list[Measurement]:
        """Return all measurements of kernels of one name and types, in order."""
        return self._by_family.get(family, [])

    def _forget_all(self) -> None:
        self._by_kernel.clear()
        self._by_family.clear()

    def _remember(self, measurement: Measurement) -> None:
        of, platform_id = measurement.candidate, measurement.platform.platform_id
        self._by_kernel.setdefault((of.workload.name, of.space, platform_id), []).append(measurement)
        self._by_family.setdefault(of.workload.kind, []).append(measurement)


def open_store(path: Path | str | None) -> TimingStore:
    """Open the store at a path; all kernels of this process share one object.

    Args:
        path: Path of the file. Default: ``$COSTMODEL_TRITON_STORE``, or ``~/.cache/costmodel/triton.jsonl``
            (``$XDG_CACHE_HOME`` replaces ``~/.cache``).
    """
    return _opened((Path(path) if path else _usual_path()).expanduser().absolute())


def _usual_path() -> Path:
    if named := os.environ.get(STORE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "costmodel" / "triton.jsonl"


@cache
def _opened(path: Path) -> TimingStore:
    return TimingStore(path)
