"""Cost and progress of a campaign; neither needs the device."""

from collections import Counter
from pathlib import Path

import msgspec

from costmodel.arguments import check_path
from costmodel.collector.campaign._config import CampaignConfig, find_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.collector.runners._device_runner import default_builders
from costmodel.reading import exists
from costmodel.records._measurement import Measurement
from costmodel.records._platform import TargetKind
from costmodel.records._store import read_records
from costmodel.records._workload import Workload


class Estimate(msgspec.Struct, frozen=True):
    """What a campaign will take, on a machine that does nothing else.

    Attributes:
        builders: Build processes.
        devices: Devices that measure at once.
        workloads: How many.
        kernels: Kernels that are drawn and built, where the spaces have as many.
        measurements: Measurements, A/A repeats included.
        build_s: Seconds to draw and build them.
        device_s: Seconds on the devices.
        total_s: Seconds in all: building and measuring overlap.
    """

    builders: int
    devices: int
    workloads: int
    kernels: int
    measurements: int
    build_s: float
    device_s: float
    total_s: float


class _Rates(msgspec.Struct, frozen=True):
    """Seconds that parts of a campaign take.

    Attributes:
        draw_s: Core-seconds to draw a kernel.
        build_s: Core-seconds to build it.
        measure_s: Seconds on a device beside the repeats themselves: loading, checking, graphs, sensors.
        longer: Mean length of a repeat over the length that it aims at: slow kernels take longer.
    """

    draw_s: float
    build_s: float
    measure_s: float
    longer: float


# Of 2,000 kernels drawn and built on two cores, random ones (24 of 108) taking longer; of 102,458
# measurements on two H200, 8.4 ms each; and of a campaign on two cores of a CPU (configs/cpu-laptop.toml).
_RATES: dict[TargetKind, _Rates] = {
    "cuda": _Rates(draw_s=1.4, build_s=1.5, measure_s=0.0044, longer=2.0),
    "cpu": _Rates(draw_s=0.5, build_s=0.7, measure_s=0.02, longer=1.5),
}


def estimate_campaign(
    campaign: CampaignConfig | Path | str, *, builders: int | None = None, devices: int = 1
) -> Estimate:
    """Estimate the cost of a campaign from those of earlier campaigns.

    Args:
        campaign: A campaign, the path of its file, or the name of a shipped one.
        builders: Number of build processes, each on its own core. Default: the number that a run would start
            on this machine.
        devices: Number of devices that measure at once.

    Raises:
        CostModelError: If the campaign is invalid.
    """
    config = find_campaign(campaign)
    builders = builders or default_builders(devices)
    rates, timing = _RATES[config.runner], config.timing
    kernels = len(config.workloads) * config.kernels_per_workload
    build_s = kernels * (rates.draw_s + rates.build_s) / builders
    # One repeat's time more goes into warming up.
    each_s = rates.measure_s + (timing.repeats + 1) * timing.repeat_s * rates.longer
    device_s = config.measurements * each_s / devices / config.partitions
    return Estimate(
        builders=builders,
        devices=devices,
        workloads=len(config.workloads),
        kernels=kernels,
        measurements=config.measurements,
        build_s=build_s,
        device_s=device_s,
        total_s=max(build_s, device_s),
    )


class WorkloadStatus(msgspec.Struct, frozen=True):
    """How far a campaign is with one workload.

    Attributes:
        workload: Its name.
        rounds: Rounds drawn.
        kernels: Kernels drawn.
        measured: First visits made.
        expected: First visits in all; of rounds that are not drawn yet, as many as the config asks for.
        repeats: A/A repeats made.
        outcomes: Measurements by outcome.
    """

    workload: str
    rounds: int
    kernels: int
    measured: int
    expected: int
    repeats: int
    outcomes: dict[str, int]

    @property
    def missing(self) -> int:
        """First visits that are still to be made."""
        return max(0, self.expected - self.measured)

    @property
    def failed(self) -> int:
        """Measurements that failed."""
        return sum(self.outcomes.values()) - self.outcomes.get("ok", 0)


class CampaignStatus(msgspec.Struct, frozen=True):
    """How far a campaign is.

    Attributes:
        workloads: Each workload.
        measured: First visits made.
        expected: First visits in all.
        measurements: Records in the store, repeats included.
    """

    workloads: tuple[WorkloadStatus, ...]
    measured: int
    expected: int
    measurements: int


def campaign_status(out: CampaignFolder | Path | str) -> CampaignStatus:
    """Return the progress of the campaign in a folder, also while it runs.

    Raises:
        CostModelError: If the folder belongs to no campaign, or its store is damaged.
    """
    folder = out if isinstance(out, CampaignFolder) else CampaignFolder(check_path("out", out))
    config = folder.config()
    parsed = config.parsed_workloads
    by_workload: dict[str, list[Measurement]] = {workload.name: [] for workload in parsed}
    if exists(folder.store):
        for measurement in read_records(folder.store):
            by_workload.setdefault(measurement.candidate.workload.name, []).append(measurement)
    workloads = tuple(_workload_status(folder, config, w, by_workload[w.name]) for w in parsed)
    return CampaignStatus(
        workloads,
        sum(status.measured for status in workloads),
        sum(status.expected for status in workloads),
        sum(map(len, by_workload.values())),
    )


def _workload_status(
    folder: CampaignFolder, config: CampaignConfig, workload: Workload, known: list[Measurement]
) -> WorkloadStatus:
    rounds = folder.rounds(workload, config)
    drawn = [kernels for kernels in rounds if kernels is not None]
    # A finalist's second measurement, made alone, is none that was expected.
    first = len({(m.candidate.candidate_id, m.platform.platform_id) for m in known if m.visit == 0})
    return WorkloadStatus(
        workload.name,
        len(drawn),
        sum(map(len, drawn)),
        first,
        round(config.kernels.expected(rounds) * config.platforms_per_kernel),
        sum(m.visit > 0 for m in known),
        dict(Counter(m.outcome.value for m in known).most_common()),
    )
