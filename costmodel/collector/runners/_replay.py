"""A runner that measures nothing: it serves what was recorded.

The idea is Kernel Tuner's simulation mode (van Werkhoven, 2019, doi:10.1016/j.future.2018.08.004).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from costmodel.arguments import check_items, check_kind
from costmodel.collector.runners._base import Runner
from costmodel.errors import CostModelError, did_you_mean
from costmodel.kernels._machine_code import MachineCode
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome, measurement_key
from costmodel.records._platform import Isolation, Platform
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.search.spaces._base import SearchSpace

# Where one number of SMs was recorded under several mechanisms, the first of these is served.
_ISOLATION_ORDER: tuple[Isolation, ...] = ("whole", "green_context", "mps", "threads")


class ReplayRunner(Runner):
    """Serves recorded measurements of one device.

    Args:
        measurements: The records. Measurements made alongside co-runners are left out. If a key occurs twice,
            the last record is served.
        machine_code: What a compiler made of the kernels, by candidate id. Default: nothing is known of it.

    Raises:
        CostModelError: Something is no measurement, none was made alone, or they are of several devices.
    """

    def __init__(
        self, measurements: Iterable[Measurement], machine_code: Mapping[str, MachineCode] | None = None
    ) -> None:
        check_kind("machine_code", machine_code, Mapping | None, "machine code by candidate id")
        self._machine_code = machine_code or {}
        given: tuple[Measurement, ...] = check_items(
            "measurements", measurements, Measurement, "measurements"
        )
        self._recorded = {m.key: m for m in given if not m.co_runners}
        platforms = {m.platform.platform_id: m.platform for m in self._recorded.values()}
        devices = {platform.device.name: platform.device for platform in platforms.values()}
        if len(devices) != 1:
            raise CostModelError(
                "A replay must have measurements made alone on exactly one device, but got "
                f"{sorted(devices) or 'none'}. Keep the measurements of one device."
            )
        (self._device,) = devices.values()
        ordered = sorted(platforms.values(), key=lambda p: _ISOLATION_ORDER.index(p.isolation), reverse=True)
        self._platforms = {platform.sms_granted: platform for platform in ordered}

    @property
    def description(self) -> str:
        """Sentence stating that nothing is measured, and what is served instead."""
        recorded = f"{len(self._recorded)} recorded measurements of {self._device.name}"
        return f"Replay: nothing is measured; {recorded} are served."

    @property
    def budgets(self) -> tuple[int, ...]:
        """The recorded SM budgets, in ascending order."""
        return tuple(sorted(self._platforms))

    def platform(self, sms: int | None = None) -> Platform:
        """Return the recorded platform with ``sms`` granted SMs. Default: the whole device.

        Raises:
            CostModelError: If this budget was never recorded.
        """
        granted = self._device.sms if sms is None else sms
        if granted not in self._platforms:
            recorded = ", ".join(map(str, self.budgets))
            raise CostModelError(
                f"A replay can only grant SM budgets that were recorded ({recorded}), but got {granted}. "
                "Choose one of these, or measure on a device."
            )
        return self._platforms[granted]

    @property
    def repeats(self) -> bool:
        """False: only the recorded visits are available."""
        return False

    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        """Return the sources of the recorded kernels of a workload.

        Raises:
            CostModelError: If nothing of the workload was recorded.
        """
        name = self._known(workload)
        recorded = (m.candidate for m in self._recorded.values() if m.candidate.workload.name == name)
        return tuple(sorted({candidate.source for candidate in recorded}))

    def space(
        self,
        workload: Workload | str,
        platforms: Sequence[Platform],
        *,
        source: str | None = None,
    ) -> "SearchSpace":
        """Return the configs recorded on all of these platforms, in the order of records on the last one.

        Raises:
            CostModelError: If nothing of the workload was recorded, or nothing on all of the platforms.
        """
        from costmodel.search.spaces._pool import Pool

        name = self._known(workload)
        found: dict[str, Candidate] = {}
        for i, platform in enumerate(platforms):
            here = {m.candidate.candidate_id: m.candidate for m in self._first_visits(name, platform)}
            found = {key: candidate for key, candidate in here.items() if i == 0 or key in found}
        first, *_ = [source] if source else self.sources(workload)
        found = {key: candidate for key, candidate in found.items() if candidate.source == first}
        if not found:
            raise CostModelError(
                f"A replay must have kernels of {name} that were recorded on all of "
                f"{', '.join(platform.name for platform in platforms)}, but has none. Choose other SMs."
            )
        return Pool(list(found.values()), *platforms)

    def known_latencies(
        self, workload: Workload | str, *, sources: Collection[str] | None = None
    ) -> Mapping[int, Mapping[str, float]]:
        """Return recorded seconds of every working kernel, by granted SMs and then by candidate id.

        Args:
            workload: The workload, or its name.
            sources: Names of the sources whose kernels count. Default: all.

        Raises:
            CostModelError: If nothing of the workload was recorded.
        """
        name = self._known(workload)
        known = {
            sms: {
                m.candidate.candidate_id: m.latency_s
                for m in self._first_visits(name, self._platforms[sms])
                if m.outcome is Outcome.OK and (sources is None or m.candidate.source in sources)
            }
            for sms in self.budgets
        }
        return {sms: latencies for sms, latencies in known.items() if latencies}

    def machine_code(self, candidates: Sequence[Candidate]) -> list[MachineCode | None]:
        """Return what is known of each candidate, in order."""
        return [self._machine_code.get(each.candidate_id) for each in candidates]

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Return the record of each candidate, in order.

        A visit is served only if it was recorded: serving the first visit again would look like a repeat
        without noise.

        Raises:
            CostModelError: If a candidate has no record of this visit on this platform.
        """
        return [self._find(candidate, platform, visit) for candidate in candidates]

    def _known(self, workload: Workload | str) -> str:
        """The name of a workload that was recorded.

        Raises:
            CostModelError: It was not.
        """
        name = workload if isinstance(workload, str) else workload.name
        known = sorted({m.candidate.workload.name for m in self._recorded.values()})
        if name not in known:
            raise CostModelError(
                f"A replay can only tune workloads that were recorded, but got {name!r}."
                + (did_you_mean(name, known) or f" Recorded are {', '.join(known)}.")
            )
        return name

    def _first_visits(self, workload: str, platform: Platform) -> list[Measurement]:
        return [
            m
            for m in self._recorded.values()
            if m.visit == 0
            and m.platform.platform_id == platform.platform_id
            and m.candidate.workload.name == workload
        ]

    def _find(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement:
        """The one record asked for."""
        found = self._recorded.get(measurement_key(candidate, platform, visit))
        if found is None:
            raise CostModelError(
                f"A replay can only serve what was recorded, but visit {visit} of config "
                f"{candidate.config.config_id} of {candidate.workload.name} on {platform.name} never was. "
                "Choose among the recorded candidates, or measure on a device."
            )
        return found
