"""Whether TVM's own search finds better kernels than the dataset holds: see README.md here."""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any

import msgspec
import numpy as np
from stock_search import AnyRunner, Settings, search_stock

from costmodel.collector import CpuRunner, CudaRunner
from costmodel.collector.runners._base import Request
from costmodel.dataset import find_dataset
from costmodel.records import Candidate, Workload

sys.path.append(str(Path(__file__).parents[1]))
from kit.kernels import load_recorded, spread
from kit.results import say
from options import parse_options

RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}
FINALISTS = 8  # of each side, measured again side by side
VISITS = 3  # of each finalist
MOST_GAIN = 0.03  # what stock may find at best, over the dataset


@dataclass(frozen=True)
class Job:
    """A workload to compare.

    Attributes:
        workload: The workload.
        recorded: The fastest kernels that the dataset has for the whole device.
        found: The fastest of a stock search that was made before, if one was.
        kind: What measures.
        settings: Of the search.
    """

    workload: Workload
    recorded: list[Candidate]
    found: list[Candidate]
    kind: str
    settings: Settings


def main() -> None:
    """Compare workload after workload, as many at once as there are devices; go on where a run was cut."""
    args = parse()
    earlier = {row["workload"]: row for row in read_rows(args.json) if "error" not in row}
    jobs = make_jobs(args, earlier)
    if not args.again:
        jobs = [job for job in jobs if job.workload.name not in earlier]
    devices: SimpleQueue[int] = SimpleQueue()
    for position in range(args.devices):
        devices.put(position)
    with ThreadPoolExecutor(args.devices) as threads:
        for future in as_completed([threads.submit(compare_apart, job, devices) for job in jobs]):
            row = future.result()
            say(f"{row['workload']}: {row.get('error', 'done')}")
            if "error" not in row or row["workload"] not in earlier:
                earlier[row["workload"]] = earlier.get(row["workload"], {}) | row
            args.json.write_bytes(msgspec.json.format(msgspec.json.encode(list(earlier.values()))))
    print(table(list(earlier.values())))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", type=Path, required=True, metavar="FILE", help="where results go; goes on with it"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="measure what earlier searches found beside the data as it is now",
    )
    parser.add_argument("--runner", choices=RUNNERS)
    parser.add_argument("--time-limit", type=float, help="s after which searches are cut short")
    parser.add_argument("--data", type=Path, help="dataset or campaign folder (default: the shipped dataset)")
    parser.add_argument("--workload", action="append", help="name; again for more (default: 8 of the data)")
    parser.add_argument("--trials", type=int, help="of each stock search")
    parser.add_argument("--devices", type=int, help="GPUs, each of which takes a workload")
    parser.add_argument("--population", type=int, help="of stock's evolution")
    parser.add_argument("--generations", type=int, help="of stock's evolution")
    return parse_options(parser, __file__, argv)


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The results of earlier runs."""
    return json.loads(file.read_text()) if file.exists() else []


def make_jobs(args: argparse.Namespace, earlier: Mapping[str, Mapping[str, Any]]) -> list[Job]:
    """One job a workload."""
    data = load_recorded(args.data or find_dataset())
    whole = [i for i, platform in enumerate(data.platforms) if platform.sms_granted == platform.device.sms]
    rows = data.rows[data.rows["platform"].isin(whole) & np.isfinite(data.rows["latency_s"])]
    recorded = {
        name: [data.candidates[i] for i in group["candidate"].drop_duplicates()[:FINALISTS]]
        for name, group in rows.sort_values("latency_s").groupby("workload")
    }
    threads = max(1, len(os.sched_getaffinity(0)) // args.devices)
    end = time.monotonic() + args.time_limit
    jobs = []
    for name in args.workload or spread(sorted(recorded), 8):
        workload = Workload.parse(name)
        half = "cuda-tensorcore" if workload.dtype == "float16" else "cuda"
        rules = {"cuda": half, "cpu": "llvm"}[args.runner]
        settings = Settings(rules, args.trials, args.population, args.generations, threads, end)
        found = msgspec.convert(earlier.get(name, {}).get("stock", []), list[Candidate])
        jobs.append(Job(workload, recorded[name], found, args.runner, settings))
    return jobs


def compare_apart(job: Job, devices: "SimpleQueue[int]") -> dict[str, Any]:
    """Compare in a process that sees one free device: what goes wrong costs one workload."""
    row: dict[str, Any] = {"workload": job.workload.name}
    device = devices.get()
    try:
        if time.monotonic() > job.settings.end:
            return {**row, "error": "the time was over"}
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, initializer=see_device, initargs=(device,)) as process:
            return row | process.submit(compare, job).result()
    except Exception as error:  # noqa: BLE001 (the other workloads go on)
        return {**row, "error": f"{type(error).__name__}: {error}"}
    finally:
        devices.put(device)


def see_device(position: int) -> None:
    """Let this process see one of the GPUs that it may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[position] if visible else str(position)


def compare(job: Job) -> dict[str, Any]:
    """Search, then measure the fastest kernels of both sides again."""
    with RUNNERS[job.kind](build_workers=job.settings.threads) as runner:
        runner.prefetch([*job.recorded, *job.found])
        search = None if job.found else search_stock(runner, job.workload, job.kind, job.settings)
        if search and not search.trials:
            raise TimeoutError("the time was over")
        stock = search.fastest[:FINALISTS] if search else job.found
        latency_s = measure_finalists(runner, [*stock, *job.recorded])
        device = runner.device.name
    stock_s, dataset_s = (
        [latency_s[c.candidate_id] for c in side if c.candidate_id in latency_s]
        for side in (stock, job.recorded)
    )
    if not stock_s or not dataset_s:
        raise RuntimeError(f"no kernel runs of {'the dataset' if stock_s else 'the stock search'}")
    searched = (
        {
            "trials": search.trials,
            "foreign": search.foreign,
            "failed": search.failed,
            "search_seconds": search.seconds,
            "stock": msgspec.to_builtins(stock),
        }
        if search
        else {}
    )
    return {
        **searched,
        "device": device,
        "stock_s": stock_s,
        "dataset_s": dataset_s,
        "stock_to_dataset": min(stock_s) / min(dataset_s),
    }


def measure_finalists(runner: AnyRunner, finalists: Sequence[Candidate]) -> Mapping[str, float]:
    """Median over several visits of the latency of each, by id, all timed side by side; those that ran."""
    distinct = {c.candidate_id: c for c in finalists}.values()
    platform = runner.platform()
    visits: dict[str, list[float]] = {}
    for visit in range(VISITS):
        for m in runner.submit([Request(c, platform, visit) for c in distinct]).result():
            if m.latencies_s:
                visits.setdefault(m.candidate.candidate_id, []).append(m.latency_s)
    return {id_: median(seconds) for id_, seconds in visits.items()}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one row a workload, then how many of them keep what is expected."""
    lines = [
        "| workload | trials | failed | foreign | search, s | best of stock, us | best of the dataset, us "
        "| stock / dataset |",
        "| --- |" + " ---: |" * 7,
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['workload']} | {row['error']} |" + " |" * 6)
        else:
            lines.append(
                f"| {row['workload']} | {row['trials']} | {row['failed']} | {row['foreign']} "
                f"| {row['search_seconds']:.0f} | {min(row['stock_s']) * 1e6:.2f} "
                f"| {min(row['dataset_s']) * 1e6:.2f} | {row['stock_to_dataset']:.3f} |"
            )
    ratios = np.array([row["stock_to_dataset"] for row in rows if "error" not in row])
    kept = np.sum(1 / ratios - 1 <= MOST_GAIN) if ratios.size else 0
    summary = f"On {kept} of {ratios.size} workloads stock is at most {MOST_GAIN:.0%} faster"
    mean = f"; geometric mean of stock / dataset {np.exp(np.log(ratios).mean()):.3f}" if ratios.size else ""
    return "\n".join([*lines, "", summary + mean + "."])


if __name__ == "__main__":
    main()
