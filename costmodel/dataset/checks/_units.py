"""Latencies in a wrong unit: a power of 1,000 off from what the device, or another source, allows.

Notations:
    bound: seconds that a workload takes at least, at peak arithmetic or at peak bandwidth of the granted SMs
        (roofline model, Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785).
    source: a file and a device in it. Parts of one device have one clock, and two threads of a busy CPU may
        well be 200 times slower than one.
    scale: of a source, the median over configs of log10(latency / median latency of all sources).
"""

import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset.checks._check import MOST_EXAMPLES, Finding, Severity, WorkloadRecords, pick_examples
from costmodel.dataset.sources._source import FileContents
from costmodel.dataset.table._columns import number_combinations
from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._peak_rates import peak_rates
from costmodel.records._platform import Device, Platform
from costmodel.records._workload import Workload

# Bound / best latency is .025 to 1.35 in the 2,496 tasks of the two datasets of this project (beyond 1 where
# the data stay in the cache). A factor of 1,000 makes that 25 to 1,350, or .000025 to .00135: these
# thresholds lie in the middle of the gaps.
_HIGHEST_SHARE = 6.0
_LOWEST_SHARE = 0.006
# Below, launching takes longer than the kernel. The shortest bound behind the figures above is 0.076 us.
_SHORTEST_BOUND_S = 5e-8
# Sorted by scale, neighbouring sources of one workload differ by at most 2.6 (five GPUs of two vendors; 8 to
# 132 SMs of two GPUs: 2.0). The middle between that and 1,000.
_WIDEST_GAP = 50.0
_LEAST_SHARED = 5
# Launches of an empty kernel in a CUDA graph follow each other after .68 us at least (sm-budgets, 231,203
# measurements); its shortest kernel takes 1.66 us.
_SHORTEST_LAUNCH_S = 5e-7
# In 15 public caches an entry's ``benchmark_time`` is .98 to 1.37 times the sum of its repeats. A wrong unit
# makes that 1,000; this lies in the middle.
_LARGEST_OVERHEAD = 37.0


def unit_findings(held: WorkloadRecords) -> Iterator[Finding]:
    """Yield files of which a workload is a power of 1,000 off from others."""
    on_cpu = np.array([each.device.kind == "cpu" for each in held.records.platforms], dtype=np.bool_)
    for _, alike in held.working.groupby(on_cpu[held.working["place"]]):
        yield from _apart_from_others(held.workload.name, alike)


def launch_findings(held: WorkloadRecords) -> Iterator[Finding]:
    """Tasks of a GPU that take less time than a launch, where no bound of their workload is known."""
    if held.workload.flops:
        return
    fast = held.working[held.working["latency_s"] < _SHORTEST_LAUNCH_S]
    for (file, device), rows in fast.groupby(["file", "device"]):
        if held.records.platforms[rows["place"].iloc[0]].device.kind == "cpu":
            continue
        yield Finding(
            kind="unit",
            severity=Severity.ERROR,
            concerns=f"{file}: {held.workload.name} on {device}",
            count=len(rows),
            message=f"A kernel of a GPU must take the {_SHORTEST_LAUNCH_S:g} s of a launch at least, but "
            f"{len(rows):,} take less, down to {rows['latency_s'].min():.3g} s: find out which unit they "
            "were written in; where seconds were read as milliseconds, multiply these by 1,000.",
            examples=tuple(held.decisions(rows.head(MOST_EXAMPLES))),
        )


def duration_findings(sources: Iterable[FileContents]) -> Iterator[Finding]:
    """Yield files whose entries took far longer, or shorter, to measure than their repeats together."""
    for source in sources:
        if not (1 / _LARGEST_OVERHEAD <= source.overhead <= _LARGEST_OVERHEAD or math.isnan(source.overhead)):
            yield Finding(
                kind="unit",
                severity=Severity.ERROR,
                concerns=str(source.path),
                count=len(source.measurements),
                message="Measuring must take about as long as its repeats together, but entries say that it "
                f"took {source.overhead:.3g} times as long (median): latencies must be in the format's unit, "
                f"{_advice(max(source.overhead, 1 / source.overhead), source.overhead > 1)}.",
            )


def peak_shares(held: WorkloadRecords) -> pd.DataFrame:
    """One row for each file and platform of a workload whose bound is known.

    Columns: ``file``, ``device``, ``platform``, ``workload``, ``latency_s`` (the best) and ``share`` (bound /
    best latency).
    """
    working = held.working
    best = working.loc[working.groupby(["file", "platform"])["latency_s"].idxmin()]
    bounds = np.array(
        [_bound_s(held.workload, held.records.platforms[at]) for at in best["place"]], dtype=np.float64
    )
    names = {name: best[name].astype(str) for name in ("file", "device", "platform")}
    judged = pd.DataFrame({**names, "workload": held.workload.name, "latency_s": best["latency_s"]})
    judged["share"] = bounds / best["latency_s"].to_numpy()
    return judged[bounds >= _SHORTEST_BOUND_S]


def peak_findings(judged: pd.DataFrame) -> Iterator[Finding]:
    """Tasks that are faster than the device can be, and files whose tasks are all far slower.

    Args:
        judged: As by ``peak_shares``.
    """
    for (file, device), tasks in judged.groupby(["file", "device"], sort=True):
        fast = tasks[tasks["share"] > _HIGHEST_SHARE]
        if len(fast):
            yield _beyond(str(file), str(device), fast, len(tasks))
        elif (tasks["share"] < _LOWEST_SHARE).all():
            yield _beyond(str(file), str(device), tasks, len(tasks))


def _beyond(file: str, device: str, tasks: pd.DataFrame, judged: int) -> Finding:
    share = float(tasks["share"].median())
    return Finding(
        kind="unit",
        severity=Severity.ERROR,
        concerns=f"{file}: {device}",
        count=len(tasks),
        message=f"The best kernel of a task must reach {_LOWEST_SHARE:g} to {_HIGHEST_SHARE:g} of the peak "
        f"of its SMs, but in {len(tasks):,} of {judged:,} tasks it reaches {share:.2g} (median): latencies "
        f"must be in seconds, {_advice(max(share, 1 / share), share > 1)}.",
        examples=pick_examples(
            [f"{row.workload} on {row.platform}: {row.latency_s:.3g} s" for row in tasks.itertuples()]
        ),
    )


def _apart_from_others(workload: str, rows: pd.DataFrame) -> Iterator[Finding]:
    """Sources on the smaller side of the widest gap between the scales of sources, where that is too wide."""
    scales = _scales(rows)
    gaps = np.diff(scales.to_numpy())
    if not gaps.size or gaps.max() < math.log10(_WIDEST_GAP):
        return
    low, high = np.split(scales.index.to_numpy(), [gaps.argmax() + 1])
    few, many = (low, high) if len(low) < len(high) else (high, low)
    too_fast, times = few is low, float(10 ** gaps.max())
    others = ", ".join(dict.fromkeys(file for file, _ in many))
    for file in dict.fromkeys(file for file, _ in few):
        devices = [device for name, device in few if name == file]
        yield Finding(
            kind="unit",
            severity=Severity.ERROR,
            concerns=f"{file}: {workload}",
            count=int(((rows["file"] == file) & rows["device"].isin(devices)).sum()),
            message=f"Sources of one workload must be within {_WIDEST_GAP:g} times of each other on the same "
            f"configs, but this is {times:.3g} times {'below' if too_fast else 'above'} {others}: find out "
            f"which have a wrong unit (of a table: `unit` in its column map). If the others are right, "
            f"{_advice(times, too_fast)}.",
            examples=pick_examples(devices),
        )


def _scales(rows: pd.DataFrame) -> "pd.Series[float]":
    """Return the scale of each source that shares enough configs, from low to high."""
    sources = rows.groupby(["file", "device"])
    names = sources.size().index
    if len(names) < 2:
        return pd.Series(dtype=np.float64)
    candidate = pd.factorize(rows["candidate"])[0]
    cell = candidate * len(names) + sources.ngroup().to_numpy()
    logs = pd.Series(np.log10(rows["latency_s"].to_numpy()), cell)
    if not logs.index.is_unique:
        logs = logs.groupby(level=0, sort=False).median()
    matrix = np.full((candidate.max() + 1, len(names)), np.nan)
    matrix.flat[logs.index] = logs.to_numpy()
    shared = matrix[(~np.isnan(matrix)).sum(axis=1) >= 2]
    enough = (~np.isnan(shared)).sum(axis=0) >= _LEAST_SHARED
    offsets = (shared - np.nanmedian(shared, axis=1, keepdims=True))[:, enough]
    return pd.Series(np.nanmedian(offsets, axis=0), names[enough], dtype=np.float64).sort_values()


def _bound_s(workload: Workload, platform: Platform) -> float:
    """The bound of a task in seconds; 0 where the workload's work or the device's peak is not known."""
    device = _with_peaks(platform.device) if workload.flops else platform.device
    sms = platform.sms_granted or device.sms
    peaks_known = device.bandwidth_gb_s and device.clock_mhz and device.fp32_lanes_per_sm > 1
    if not (workload.flops and peaks_known and 1 <= sms <= device.sms):
        return 0.0
    peaks = peak_rates(device, sms)
    tflops = max(peaks.fp32_tflops, peaks.tensor_tflops if workload.dtype == "float16" else 0.0)
    return max(workload.flops / (1e12 * tflops), workload.min_bytes / (1e9 * peaks.bandwidth_gb_s))


@cache
def _with_peaks(device: Device) -> Device:
    """Return the device with its peaks, from the table of devices where the record does not say."""
    if device.bandwidth_gb_s:
        return device
    try:
        return find_device(device.name)
    except CostModelError:
        return device


def _advice(times: float, too_fast: bool) -> str:
    """Return what to do, in words; the factor is rounded to a power of 1,000."""
    power = round(math.log10(times) / 3)
    return f"{'multiply' if too_fast else 'divide'} these by {1000**power:,}" if power else "check these"


# In 2,511 tasks of public caches and of this project's datasets the slowest config is alone with its latency,
# and values that three configs or more share, as coarse timers give, are at most 3.4 times the median. Slow
# kernels alone cannot tell: they reach 32 times the median in public caches, 4,877 times on this project's.
_LEAST_EQUAL = 3
_FAR = 10.0
_LEAST_CONFIGS = 10


def failure_findings(held: WorkloadRecords) -> Iterator[Finding]:
    """Yield values in place of failures of a workload, by file and device."""
    for (file, device), rows in _suspicious(held.working).groupby(["file", "device"]):
        equal = [_stand_ins(task) for _, task in rows.groupby("platform")]
        stand_ins = pd.concat(equal)
        if len(stand_ins):
            values = ", ".join(f"{value:g} s" for value in sorted(set(stand_ins["latency_s"]))[-3:])
            yield Finding(
                kind="failure value",
                severity=Severity.ERROR,
                concerns=f"{file}: {held.workload.name} on {device}",
                count=len(stand_ins),
                message=f"A failure must be an outcome, but {len(stand_ins):,} records share exactly "
                f"{values}, the largest or far from all others: give them the outcome that they had, "
                "and no latency.",
                examples=tuple(held.decisions(stand_ins.head(MOST_EXAMPLES))),
            )


def _suspicious(working: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of tasks of which enough rows share a latency that ``_is_far``."""
    names = ("file", "device", "platform")
    task = number_combinations([np.asarray(working[name].cat.codes, np.int64) for name in names])
    latency = working["latency_s"]
    of_task = latency.groupby(task)
    far = _is_far(latency, of_task.max().to_numpy()[task], of_task.median().to_numpy()[task])
    alike = number_combinations([task[far], pd.factorize(latency[far])[0]])
    shared = np.bincount(alike)[alike] >= _LEAST_EQUAL
    suspicious: pd.DataFrame = working[np.isin(task, task[far][shared])]
    return suspicious


def _is_far(latency: Any, highest: Any, median: Any) -> Any:
    """Tell whether a latency is the largest of its task or far above the median."""
    return (latency == highest) | (latency >= _FAR * median)


def _stand_ins(task: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose latency is shared, and the largest of its task or far above the median."""
    latency = task["latency_s"]
    far = task[_is_far(latency, latency.max(), latency.median())]
    configs_of = far.groupby("latency_s")["candidate"].transform("nunique")
    enough = task["candidate"].nunique() >= _LEAST_CONFIGS
    found: pd.DataFrame = far[(configs_of >= _LEAST_EQUAL) & enough]
    return found
