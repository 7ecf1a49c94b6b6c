"""What a simulation makes of the stage times of the first phase with the fewest GPUs: see README.md here."""

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from msgspec.structs import replace

from costmodel.files import write_json
from costmodel.search._search import batches_in_flight
from costmodel.service import TuneWork, simulate
from costmodel.service._stage_times import StageTimes

TASKS = 40  # for each GPU
FORMER = TuneWork(24, batch=6, batches=2)  # of runs that do not say theirs
GPUS = (1, 2, 4)
BUILDS = Path(__file__).parents[1] / "capacity" / "builds.json"


def main() -> None:
    """Add to the results what is simulated from the means of that phase."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="results of run.py")
    parser.add_argument("--jobs", type=int, nargs="+", help="also with so many jobs at once on one GPU")
    parser.add_argument("--spread", action="store_true", help="builds as unlike as those of ../capacity")
    args = parser.parse_args()
    result = json.loads(args.json.read_text())
    phases = result["phases"]
    first = min(phases, key=lambda phase: phase["gpus"])
    work = FORMER
    if trials := result.get("trials"):
        work = TuneWork(trials, *batches_in_flight(1 + first["builders"], trials))
    times = times_of(first, work.batch or 1)
    if args.spread:
        times = replace(times, build_s=as_unlike(times.build_s[0]))
    result["simulated"] = [row(work, times, first, gpus) for gpus in GPUS]
    result["jobs_at_once"] = [row(work, times, {**first, "workers": jobs}, 1) for jobs in args.jobs or ()]
    for jobs, found in zip(args.jobs or (), result["jobs_at_once"], strict=True):
        found["jobs"] = jobs
        print(f"{jobs} at once: simulated {found['an_hour']:,}, builders {found['builders_busy']:.0%} busy")
    write_json(args.json, result)
    one = result["simulated"][0]["an_hour"]
    for found in result["simulated"]:
        times_one, there = found["an_hour"] / one, [p for p in phases if p["gpus"] == found["gpus"]]
        really = mean(phase["valid_an_hour"] for phase in there) if there else 0
        print(
            f"{found['gpus']} GPUs: simulated {found['an_hour']:,}, {times_one:.2f} times one; {really:,.0f}"
        )


def as_unlike(mean_s: float) -> tuple[float, ...]:
    """Seconds with this mean, as unlike each other as builds whose times were noted one by one."""
    noted = json.loads(BUILDS.read_text())["build_s"]
    return tuple(mean_s * each / mean(noted) for each in noted)


def times_of(phase: dict[str, Any], batch: int) -> StageTimes:
    """Means of the stages; all that is known of a phase, in which jobs propose so many kernels at once."""
    seconds, busy = phase["window_s"], phase["busy"]
    builds = next(use["done"] for use in phase["usage"] if use["stage"] == "build")
    batches = phase["measured"] / batch
    return StageTimes(
        source="experiments/fleet",
        build_s=(busy["build"] * phase["builders"] * seconds / builds,),
        measure_s=(busy["device"] * phase["gpus"] * seconds / phase["measured"],),
        propose_s=((busy["task"] - busy["measure"]) * phase["workers"] * seconds / batches,),
    )


def row(work: TuneWork, times: StageTimes, phase: dict[str, Any], gpus: int) -> dict[str, Any]:
    """The same jobs on so many GPUs."""
    found = simulate(
        [work] * (TASKS * gpus),
        times,
        builders=phase["builders"] * gpus,
        gpus=gpus,
        at_once=phase["workers"] * gpus,
    )
    return {
        "gpus": gpus,
        "an_hour": round(found.kernels_per_hour),
        "builders_busy": round(found.builder_use, 3),
        "gpus_busy": round(found.gpu_use, 3),
    }


if __name__ == "__main__":
    main()
