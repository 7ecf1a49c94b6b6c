"""Fake measurements of fake kernels on devices of any name, and the dataset that they make."""

from collections.abc import Iterable, Mapping

from fake_records import WORKLOADS, fake_measurement
from msgspec.structs import replace

from costmodel.dataset import Dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.records import Measurement, Outcome

Key = tuple[str, str, int, int]  # device, workload, tile, SMs


def measured_on(
    device: str,
    workload: str = WORKLOADS[0],
    tile: int = 1,
    sms: int = 8,
    *,
    latency_s: float | None = 1e-3,
    whole_sms: int = 132,
    architecture: str = "sm_90",
) -> Measurement:
    """One measurement of this latency, a failure if that is None."""
    one = fake_measurement(
        workload, tile, sms, outcome=Outcome.LAUNCH_ERROR if latency_s is None else Outcome.OK
    )
    fake = replace(one.platform.device, name=device, sms=whole_sms, architecture=architecture)
    isolation = "whole" if sms == whole_sms else "green_context"
    platform = replace(one.platform, device=fake, isolation=isolation)
    return replace(one, platform=platform, latencies_s=() if latency_s is None else (latency_s,))


def dataset_of(latencies: Mapping[Key, float | None]) -> Dataset:
    """The dataset of these latencies, in their order."""
    return dataset_from_measurements(measured_on(*key, latency_s=value) for key, value in latencies.items())


def contents(dataset: Dataset, rows: Iterable[int]) -> set[Key]:
    """What the rows at these positions are."""
    keys = set()
    for row in dataset.rows.iloc[list(rows)].itertuples():
        tile = dataset.candidates[row.candidate].config.decisions["tile"]
        keys.add((row.device, row.workload, tile, row.sms_granted))
    return keys
