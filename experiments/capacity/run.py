"""Checks simulated tuning against real runs, and looks for where it saturates: see README.md here."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.files import write_json
from costmodel.report._figures import save_figure
from costmodel.service import TuneWork, load_times, simulate
from costmodel.service._simulate import Simulated, enough_builders, plot_throughput, simulate_grid
from costmodel.service._stage_times import CampaignWork, StageTimes

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options
from times import engine_s, predicted_s, recorded

HERE = Path(__file__).parent
LIVE_BATCH, LIVE_BUILDERS = 16, 16  # of experiments/live_search
LIVE_TUNES = 1, 2  # kernels in a batch, and batches in flight, of the tunes in live.json


def main() -> None:
    """Simulate, print tables, and draw."""
    args = parse()
    times = load_times("h100")
    result = {
        "live": [*live_checks()],
        "live_search": live_search_check(times),
        "goals": goals(times, args),
        "grid": grid(times, args),
    }
    if args.json:
        write_json(args.json, result)
    print(tables(result))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="where the picture goes")
    parser.add_argument("--trials", type=int, help="of a tune")
    parser.add_argument("--grid-trials", type=int, help="of a tune in the grid")
    parser.add_argument("--grid-tunes", type=int, help="tunes for each GPU in the grid")
    parser.add_argument("--grid-builders", type=int, action="append", help="builder cores; again for more")
    parser.add_argument("--grid-gpus", type=int, action="append", help="GPUs; again for more")
    return parse_options(parser, __file__, argv)


def live_checks() -> list[dict[str, Any]]:
    """What is predicted for each run of ``live.json`` from the seconds that its own stages took."""
    found = []
    for run in recorded("live.json")["runs"]:
        names = [name for name in run if name.endswith("_s") and run[name]]
        times = StageTimes(source="", **{name: tuple(run[name]) for name in names})
        is_campaign = run["kind"] == "campaign"
        jobs = (
            [CampaignWork(run["workloads"], run["kernels"])]
            if is_campaign
            else [TuneWork(run["trials"], *LIVE_TUNES)] * run["jobs"]
        )
        kernels = sum(job.kernels for job in jobs)
        seconds = predicted_s(jobs, times, run["builders"], run.get("at_once"))
        found.append(
            {name: run.get(name) for name in ("kind", "at_once", "builders")}
            | {
                "run_per_minute": 60 * kernels / run["seconds"],
                "predicted_per_minute": 60 * kernels / seconds,
            }
        )
    return found


def live_search_check(times: StageTimes) -> dict[str, float]:
    """Seconds of a batch of 16 in ``experiments/live_search``, with 16 builders, and those predicted."""
    cases = json.loads((HERE.parent / "live_search/result_fair.json").read_text())
    seconds = []
    for case in cases["cases"] if isinstance(cases, dict) else cases:
        search = case["searches"]["costmodel"]
        first_s = search["improvements"][0]["elapsed_s"]
        seconds.append((search["elapsed_s"] - first_s) / (search["measured"] / LIVE_BATCH - 1))
    # There proposals are the plug-in's, and builders of this machine.
    batches = [
        predicted_s([TuneWork(LIVE_BATCH * count, LIVE_BATCH, 1)], local(times), LIVE_BUILDERS)
        for count in (1, 8)
    ]
    return {
        "run_s": float(np.median(seconds)),
        "run_least_s": min(seconds),
        "run_most_s": max(seconds),
        "predicted_s": (batches[1] - batches[0]) / 7,
    }


def local(times: StageTimes) -> StageTimes:
    """The same with builders of one machine, whose engine takes less."""
    return msgspec.structs.replace(times, engine_s=(engine_s("LocalEngine"),))


def goals(times: StageTimes, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Four tunes on one GPU, at once and with more builders, beside one after the other; and two GPUs."""
    tunes = [TuneWork(args.trials)] * 4
    here = local(times)
    asked = {
        "4 tunes one after the other, 15 builders": (tunes, here, 15, 1, 1),
        "4 at once, 15 builders": (tunes, here, 15, 1, None),
        "4 at once, 64 builders of other machines": (tunes, times, 64, 1, None),
        "4 at once, 128 builders of other machines": (tunes, times, 128, 1, None),
        "16 one after the other, 15 builders": (tunes * 4, here, 15, 1, 1),
        "16 at once, 64 builders of other machines": (tunes * 4, times, 64, 1, None),
        "16 at once, 15 builders": (tunes * 4, here, 15, 1, None),
        "8 at once, 15 builders": (tunes * 2, here, 15, 1, None),
        "8 at once, 30 builders, two GPUs": (tunes * 2, here, 30, 2, None),
        "16 at once, 30 builders, two GPUs": (tunes * 4, here, 30, 2, None),
    }
    rows = []
    for name, (jobs, stages, builders, gpus, at_once) in asked.items():
        found = [
            simulate(jobs, stages, builders=builders, gpus=gpus, at_once=at_once, seed=seed)
            for seed in range(5)
        ]
        rows.append({"name": name, **mean(found)})
    return rows


def mean(found: list[Simulated]) -> dict[str, Any]:
    names = ("seconds", "kernels_per_hour", "builder_use", "gpu_use", "engine_use")
    limits = [one.limit for one in found]
    return {name: float(np.mean([getattr(one, name) for one in found])) for name in names} | {
        "limit": max(set(limits), key=limits.count)
    }


def grid(times: StageTimes, args: argparse.Namespace) -> list[dict[str, Any]]:
    """As many tunes for each GPU, on all numbers of builders; drawn."""
    found = []
    for gpus in args.grid_gpus:
        jobs = [TuneWork(args.grid_trials)] * (args.grid_tunes * gpus)
        found += simulate_grid(jobs, times, builders=args.grid_builders, gpus=[gpus])
        print(f"{gpus} GPUs", file=sys.stderr, flush=True)
    title = f"Simulated: {args.grid_tunes} tunes for each GPU, {args.grid_trials} kernels each"
    if args.plot:
        save_figure(plot_throughput(found, title), args.plot)
    enough = {gpus: enough_builders([one for one in found if one.gpus == gpus]) for gpus in args.grid_gpus}
    return [one.to_dict() | {"enough_builders": enough[one.gpus]} for one in found]


def tables(result: dict[str, Any]) -> str:
    live = [
        "| real run on two cores of a CPU | builders | kernels a minute, run | predicted | ratio |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {row['kind']}{', at once' if row['at_once'] == 2 else ''} | {row['builders']} "
            f"| {row['run_per_minute']:.1f} | {row['predicted_per_minute']:.1f} "
            f"| {row['predicted_per_minute'] / row['run_per_minute']:.2f} |"
            for row in result["live"]
        ),
    ]
    goals_ = [
        "",
        "| simulated | minutes | kernels an hour | builders used | GPUs used | engine used | held up by |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        *(
            f"| {row['name']} | {row['seconds'] / 60:.1f} | {row['kernels_per_hour']:,.0f} "
            f"| {row['builder_use']:.0%} | {row['gpu_use']:.0%} | {row['engine_use']:.0%} | {row['limit']} |"
            for row in result["goals"]
        ),
    ]
    best: dict[int, dict[str, Any]] = {row["gpus"]: row for row in result["grid"]}
    most = [
        "",
        "| GPUs | 95 % of the most from builders | kernels an hour with 1,000 | held up by | GPUs used |",
        "| ---: | ---: | ---: | --- | ---: |",
        *(
            f"| {gpus} | {row['enough_builders']} | {row['kernels_per_hour']:,.0f} | {row['limit']} "
            f"| {row['gpu_use']:.0%} |"
            for gpus, row in best.items()
        ),
    ]
    return "\n".join([*live, *goals_, *most, "", str(result["live_search"])])


if __name__ == "__main__":
    main()
