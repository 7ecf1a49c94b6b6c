"""Makes the times that ship with ``costmodel.service`` from what was recorded: see README.md here."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from costmodel.files import write_whole
from costmodel.service import simulate
from costmodel.service._stage_times import CampaignWork, StageTimes

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "costmodel/service/times"
# The run of experiments/pipeline_throughput that was recorded on an H100 machine with 16 hardware threads.
PIPELINE, PIPELINE_BUILDERS = (CampaignWork(4, 32, 8), 15)
# experiments/co_run: how many times as fast a workload's kernels are measured on parallel partitions.
CO_RUN_SPEEDUP = {2: 1.21, 4: 0.98}
# A visit that begins within it belongs to the same job of the device.
SAME_JOB_S = 2e-3


def main() -> None:
    """Write ``h100.json`` and ``cpu.json``."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, times in (("cpu", cpu_times()), ("h100", h100_times())):
        write_whole(SHIPPED / f"{name}.json", msgspec.json.encode(times) + b"\n")


def cpu_times() -> StageTimes:
    runs = recorded("live.json")["runs"]
    tunes = [run for run in runs if run["kind"] == "tunes"]
    return StageTimes(
        source="Kernels for a CPU, built and measured on a busy two-core virtual machine "
        "(experiments/capacity/live.json); the engine's are those of LocalEngine.",
        build_s=joined(run["build_s"] for run in runs),
        measure_s=joined(run["measure_s"] for run in runs),
        propose_s=joined(run["propose_s"] for run in tunes),
        start_s=joined(run["start_s"] for run in tunes),
        engine_s=(engine_s("LocalEngine"),),
    )


def h100_times() -> StageTimes:
    """Those of an H100, its builders' seconds such that the recorded run takes as long as it took."""
    shape_s, proposals = recorded("builds.json")["build_s"], recorded("proposals.json")
    measure_s = single_measurements_s(HERE.parents[1] / "datasets/sm-budgets/measurements.parquet")
    factor = slower_there(shape_s, measure_s)
    return StageTimes(
        source=f"An H100 with builders of its 16-thread machine. Builds: processor seconds of 128 kernels on "
        f"another machine, times {factor:.2f} so that they take the 16.3 s of the recorded run "
        "(experiments/pipeline_throughput). Measurements: gaps between A/A repeats of sm-budgets. Proposals: "
        "processor seconds on another machine. Engine: DaskEngine (experiments/engine_overhead).",
        build_s=rounded(factor * each for each in shape_s),
        measure_s=measure_s,
        propose_s=rounded(proposals["propose_s"]),
        start_s=rounded(proposals["start_s"]),
        engine_s=(engine_s("DaskEngine"),),
        lane_slowdown={lanes: round(max(1.0, lanes / by), 3) for lanes, by in CO_RUN_SPEEDUP.items()},
    )


def slower_there(build_s: list[float], measure_s: tuple[float, ...]) -> float:
    """By how much builds must be longer for the recorded run to take as long as it did; by bisection."""
    recorded_s = json.loads((HERE.parent / "pipeline_throughput/result.json").read_text())["pipelines"]
    wanted_s = recorded_s["ours, workers running"]["seconds"]
    low, high = 1.0, 20.0
    while high - low > 0.01:
        middle = (low + high) / 2
        times = StageTimes(source="", build_s=tuple(middle * s for s in build_s), measure_s=measure_s)
        if predicted_s([PIPELINE], times, PIPELINE_BUILDERS) < wanted_s:
            low = middle
        else:
            high = middle
    return low


def predicted_s(jobs: list[Any], times: StageTimes, builders: int, at_once: int | None = None) -> float:
    """Mean seconds of jobs over twenty seeds."""
    return float(
        np.mean(
            [simulate(jobs, times, builders=builders, at_once=at_once, seed=s).seconds for s in range(20)]
        )
    )


def single_measurements_s(dataset: Path) -> tuple[float, ...]:
    """Seconds that the H100 took for one kernel on one number of SMs, all told.

    A campaign makes its A/A repeats when all is built, one kernel after the other: the time from one to the
    next is that of a measurement, from loading the kernel to the last repeat.
    """
    rows = pd.read_parquet(dataset, columns=["device", "board", "measured_at", "visit"])
    is_known = rows["device"].map(lambda device: "H100" in device["name"]) & (rows["board"] != "")
    rows = rows[is_known].assign(at=pd.to_datetime(rows["measured_at"], format="ISO8601"))
    rows = rows.sort_values("at", kind="stable")
    gaps_s = rows["at"].diff().dt.total_seconds()
    jobs = rows.assign(job=(~(gaps_s <= SAME_JOB_S)).cumsum()).groupby("job")
    found = jobs.agg(at=("at", "min"), count=("at", "size"), visit=("visit", "min"))
    found["seconds"] = found["at"].diff().dt.total_seconds()
    is_repeat = (found["visit"] == 1) & (found["visit"].shift() == 1) & (found["count"] == 1)
    return rounded(found.loc[is_repeat, "seconds"])


def engine_s(name: str) -> float:
    rows = json.loads((HERE.parent / "engine_overhead/result.json").read_text())
    return float(next(row["ms_a_job"] for row in rows if row["engine"] == name)) / 1e3


def recorded(name: str) -> Any:
    return json.loads((HERE / name).read_text())


def joined(parts: Iterable[list[float]]) -> tuple[float, ...]:
    return rounded(each for part in parts for each in part)


def rounded(seconds: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(float(each), 4) for each in seconds)


if __name__ == "__main__":
    main()
