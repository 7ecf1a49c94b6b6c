"""What is known of a kernel's configs: timings of the record store, and those that are made now."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from costmodel.integrations.triton import Question, TimingStore
from costmodel.records import Candidate, Config, Measurement, Outcome, Platform

_PER_SECOND = 1e3  # Helion tells milliseconds
# Helion says "error" of all that fails while it is compiled or run.
_OUTCOMES = {
    "ok": Outcome.OK,
    "deduplicated": Outcome.OK,
    "error": Outcome.LAUNCH_ERROR,
    "timeout": Outcome.TIMEOUT,
    "accuracy_error": Outcome.WRONG_RESULT,
    "peer_compilation_fail": Outcome.COMPILE_ERROR,
    "source_rejected": Outcome.INVALID_CONFIG,
    "filtered": Outcome.INVALID_CONFIG,
}


class Timings:
    """Measurements of one kernel on one platform, in order.

    Failures are kept in the store once a config ran: what fails them all is not their fault.

    Args:
        asked: The kernel.
        platform: Where it runs.
        store: Knows what was timed, and keeps what will be.
        anew: Whether what the store has of this very question counts as not timed yet.
    """

    def __init__(
        self, asked: Question, platform: Platform, store: TimingStore, *, anew: bool = False
    ) -> None:
        self._asked, self._platform, self._store = asked, platform, store
        store.refresh()
        here = [each for each in store.of_family(asked.family) if self._is_here(each)]
        self._known = {} if anew else {each.candidate.config.config_id: each for each in here}
        self._unproven: list[Measurement] = []

    def __len__(self) -> int:
        return len(self._known)

    @property
    def known(self) -> list[Measurement]:
        """One measurement a config, the last where there are several."""
        return list(self._known.values())

    @property
    def elsewhere(self) -> list[Measurement]:
        """Measurements of this kernel on other sizes, platforms or with another source."""
        return [each for each in self._store.of_family(self._asked.family) if not self._is_here(each)]

    @property
    def best(self) -> Config | None:
        """The fastest config; None where none ran."""
        ran = [each for each in self.known if each.outcome is Outcome.OK]
        return min(ran, key=lambda each: each.latency_s).candidate.config if ran else None

    def keep(self, results: Sequence[tuple[Config, Any]]) -> list[Measurement]:
        """Keep Helion's results of configs at once; they are on disk when this returns."""
        made = [self._measurement(config, result) for config, result in results]
        self._known |= {each.candidate.config.config_id: each for each in made}
        self._unproven += made
        if self.best is not None:
            self._store.add(self._unproven)
            self._unproven.clear()
        return made

    def _measurement(self, config: Config, result: Any) -> Measurement:
        candidate = Candidate(self._asked.workload, self._asked.space, config)
        outcome = _OUTCOMES.get(result.status, Outcome.LAUNCH_ERROR)
        if outcome is Outcome.OK and not (math.isfinite(result.perf) and result.perf > 0.0):
            outcome = Outcome.LAUNCH_ERROR
        ran = outcome is Outcome.OK
        return Measurement(
            candidate=candidate,
            platform=self._platform,
            outcome=outcome,
            latencies_s=(result.perf / _PER_SECOND,) if ran else (),
            runs_per_repeat=1 if ran else 0,
            visit=len(self._store.visits(candidate, self._platform)),
            l2_policy="flushed",
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            error="" if ran else f"Helion told {result.status}, {result.perf} ms",
        )

    def _is_here(self, each: Measurement) -> bool:
        of = each.candidate.workload, each.candidate.space, each.platform.platform_id
        asked = self._asked.workload, self._asked.space, self._platform.platform_id
        return of == asked and _driver(each.platform) == _driver(self._platform)


def _driver(platform: Platform) -> str | None:
    return platform.software.get("driver")
