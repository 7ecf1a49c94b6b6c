"""A runner that measures nothing twice: each measurement is on disk before the next one is made."""

from collections.abc import Sequence
from pathlib import Path

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._wrapped import WrappedRunner
from costmodel.records import Candidate, Measurement, Platform, SharedRecordStore, measurement_key


class RecordedRunner(WrappedRunner):
    """Measures with another runner what a record store does not hold, and serves what it holds.

    Several processes may use one store. A process that is killed loses the measurement in flight.

    Args:
        runner: What measures; it stays open.
        path: The store; its name ends in ``.jsonl``. Made if it is not there.

    Raises:
        CostModelError: The store cannot be opened, or is damaged before its last line.
    """

    def __init__(self, runner: Runner, path: Path) -> None:
        super().__init__(runner)
        self._store = SharedRecordStore(path)
        self._store.refresh()

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """What is stored of each candidate; the rest is built together, measured and stored one by one."""
        missing = [each for each in candidates if not self._known(each, platform, visit)]
        self._runner.prefetch(missing)
        return [self._measured(candidate, platform, visit) for candidate in candidates]

    def _known(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement | None:
        """What is stored: measured alone, or else beside others where the other runner measures so too."""
        found = self._store.get(measurement_key(candidate, platform, visit))
        if found is None and self._runner.has_neighbours:
            found = self._store.get(measurement_key(candidate, platform, visit, co_run=True))
        return found

    def _measured(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement:
        if (known := self._known(candidate, platform, visit)) is not None:
            return known
        (measured,) = self._runner.measure([candidate], platform, visit=visit)
        self._store.add([measured])
        return measured
