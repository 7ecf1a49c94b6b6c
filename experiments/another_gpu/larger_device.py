"""The whole chain: a model that knows an H100 as a device of 64 SMs, asked for larger ones."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from judged import Judged, within
from msgspec import structs

from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset.splits._make import drop_final_report
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.records import Measurement, Platform, hypothetical
from costmodel.tuning import train

KNOWN_SMS = 64


FOLDS = 4


def judge(name: str, learner: str) -> Iterator[dict[str, Any]]:
    """A row for each number of SMs, those of the known device first, over workloads that were held out."""
    data = drop_final_report(load_dataset(name))
    small = _small(data)
    device = small.platforms[0].device
    tables: dict[int, list[Judged]] = {}
    workloads = list(data.workloads)
    for fold in range(FOLDS):
        out = workloads[fold::FOLDS]
        model = train(small, learner, hold_out=out)
        for sms in sorted({KNOWN_SMS, *(p.sms_granted for p in data.platforms if p.sms_granted > KNOWN_SMS)}):
            made = device if sms == KNOWN_SMS else hypothetical(device, sms=sms)
            for workload in out:
                found = model.predict(_kernels(data, workload), device=made).set_index("candidate_id")
                tables.setdefault(sms, []).append(_judged(data, workload, sms, found))
    for sms, parts in tables.items():
        yield {"dataset": name, "learner": learner, "sms": sms, **Judged.joined(parts).summary()}


def _small(data: Dataset) -> Dataset:
    """What was measured on few SMs, as if the device had no more."""
    return dataset_from_measurements(
        [_on_small(each) for each in data.to_measurements() if _is_small(each.platform)]
    )


def _is_small(platform: Platform) -> bool:
    return platform.sms_granted <= KNOWN_SMS and platform.isolation == "green_context"


def _on_small(measurement: Measurement) -> Measurement:
    platform = measurement.platform
    device = structs.replace(platform.device, sms=KNOWN_SMS)
    whole = "whole" if platform.sms_granted == KNOWN_SMS else platform.isolation
    return structs.replace(measurement, platform=structs.replace(platform, device=device, isolation=whole))


def _kernels(data: Dataset, workload: str) -> list[Any]:
    return [each for each in data.candidates if each.workload.name == workload]


def _judged(data: Dataset, workload: str, sms: int, found: Any) -> Judged:
    rows = data.rows[(data.rows["workload"] == workload) & (data.rows["sms_granted"] == sms)]
    ids = [data.candidates[i].candidate_id for i in rows["candidate"]]
    table = found.loc[ids]
    measured = rows["latency_s"].to_numpy()
    error = np.where(np.isfinite(measured), np.log(measured / table["latency_s"].to_numpy()), np.nan)
    ends: Sequence[np.ndarray] = [
        np.log(table[name] / table["latency_s"]).to_numpy() for name in ("low_s", "high_s")
    ]
    return Judged(error, within(error, *ends))
