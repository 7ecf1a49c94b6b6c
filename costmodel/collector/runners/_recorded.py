"""A runner that measures nothing twice: each measurement is on disk before the next one is made."""

from collections.abc import Sequence
from pathlib import Path

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._wrapped import WrappedRunner
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, measurement_key
from costmodel.records._platform import Platform
from costmodel.records._store import SharedRecordStore


class RecordedRunner(WrappedRunner):
    """Serves the measurements in a record store, and measures the missing ones with another runner.

    Several processes may use one store. A process that is killed loses only the measurement in progress.

    Args:
        runner: Runner that measures. It is not closed.
        path: Path of the store, ending in ``.jsonl``. Created if missing.

    Raises:
        CostModelError: If the store cannot be opened, or is damaged before its last line.
    """

    def __init__(self, runner: Runner, path: Path) -> None:
        super().__init__(runner)
        self._store = SharedRecordStore(path)
        self._store.refresh()

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Return stored measurements; build the missing candidates together, then measure and store each."""
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
        if not measured.is_passing:  # the next run tries again
            self._store.add([measured])
        return measured
