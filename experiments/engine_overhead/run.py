"""What an engine adds to the time of a job: see README.md here."""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import psutil
from distributed import LocalCluster
from joblib import Parallel, delayed

from costmodel.collector import LocalEngine
from costmodel.files import write_json
from costmodel.service import DaskEngine, RayEngine

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

# A call that does nothing, and one that gives back what it got.
NOTHING = (divmod, 7, 2)
Job = tuple[Any, ...]
Submit = Callable[..., "Future[Any]"]
RunAll = Callable[[list[Job]], list[Any]]


def main() -> None:
    """Time the same jobs on each, and print a table."""
    args = parse()
    print(f"load {os.getloadavg()[0]:.1f} before", flush=True)
    small = [NOTHING] * args.jobs
    large = [(bytes.__add__, bytes(args.large_bytes), b"")] * args.large_jobs
    rows = []
    for name in args.only or OPENED:
        with OPENED[name](args.workers) as run_all:
            run_all(small[: 10 * args.workers])  # processes start
            row = {"engine": name}
            for column, jobs in (("ms_a_job", small), ("ms_a_large_job", large)):
                row[column] = together_ms(run_all, jobs, args.repeats)
            row["ms_alone"] = alone_ms(run_all, args.large_jobs)
            row["cpu_ms_a_job"] = processor_ms(run_all, small)
        rows.append(row)
        print(row, flush=True)
    print(table(rows))
    if args.json:
        write_json(args.json, rows)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=tuple(OPENED), help="engines to time; all unless named")
    parser.add_argument("--workers", type=int, help="processes that run jobs")
    parser.add_argument("--jobs", type=int, help="jobs that do nothing, submitted at once")
    parser.add_argument("--large-jobs", type=int, help="jobs with large arguments, and jobs one by one")
    parser.add_argument("--large-bytes", type=int, help="bytes that such a job takes and returns")
    parser.add_argument("--repeats", type=int, help="times that all is done; the median counts")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parse_options(parser, __file__, argv)


def together_ms(run_all: RunAll, jobs: list[Job], repeats: int) -> float:
    """Milliseconds a job, all submitted at once: the median of some repeats."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        run_all(jobs)
        taken.append(time.perf_counter() - start)
    return round(1e3 * statistics.median(taken) / len(jobs), 3)


def alone_ms(run_all: RunAll, count: int) -> float:
    """Median milliseconds from handing over a job until its result is there, with no other job."""
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        run_all([NOTHING])
        taken.append(time.perf_counter() - start)
    return round(1e3 * statistics.median(taken), 3)


def processor_ms(run_all: RunAll, jobs: list[Job]) -> float:
    """Milliseconds of processor time a job, of this process and of those that it started."""
    before = processor_s()
    run_all(jobs)
    return round(1e3 * (processor_s() - before) / len(jobs), 3)


def processor_s() -> float:
    this = psutil.Process()
    times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return sum(taken.user + taken.system for taken in times)


def submitting(submit: Submit) -> RunAll:
    """Submits jobs one after the other, and waits for all."""
    return lambda jobs: [future.result() for future in [submit(*job) for job in jobs]]


@contextmanager
def local(workers: int) -> Iterator[RunAll]:
    with LocalEngine(workers) as engine:
        yield submitting(engine.submit)


@contextmanager
def on_dask(workers: int) -> Iterator[RunAll]:
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        LocalCluster(n_workers=1, threads_per_worker=workers, dashboard_address=":0") as cluster,
        DaskEngine(cluster) as engine,
    ):
        yield submitting(engine.submit)


@contextmanager
def bare_dask(workers: int) -> Iterator[RunAll]:
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        cluster.get_client() as client,
    ):
        yield lambda jobs: client.gather([client.submit(*job, pure=False) for job in jobs])


@contextmanager
def on_ray(workers: int) -> Iterator[RunAll]:
    with RayEngine(num_cpus=workers) as engine:
        yield submitting(engine.submit)


@contextmanager
def bare_ray(workers: int) -> Iterator[RunAll]:
    import ray

    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    task = ray.remote(call)
    try:
        yield lambda jobs: ray.get([task.remote(*job) for job in jobs])
    finally:
        ray.shutdown()


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@contextmanager
def concurrent_futures(workers: int) -> Iterator[RunAll]:
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield submitting(pool.submit)


@contextmanager
def joblib_loky(workers: int) -> Iterator[RunAll]:
    with Parallel(workers) as parallel:
        yield lambda jobs: parallel(delayed(function)(*arguments) for function, *arguments in jobs)


OPENED = {
    "LocalEngine": local,
    "DaskEngine": on_dask,
    "Dask itself": bare_dask,
    "RayEngine": on_ray,
    "Ray itself": bare_ray,
    "concurrent.futures": concurrent_futures,
    "joblib (loky)": joblib_loky,
}


def table(rows: list[dict[str, Any]]) -> str:
    names = ("", "a job, ms", "a job of 100 kB, ms", "a job alone, ms", "processor time of a job, ms")
    head = f"| {' | '.join(names)} |\n| --- | ---: | ---: | ---: | ---: |\n"
    return head + "\n".join(
        f"| {row['engine']} | {row['ms_a_job']:.2f} | {row['ms_a_large_job']:.2f} | {row['ms_alone']:.2f} "
        f"| {row['cpu_ms_a_job']:.2f} |"
        for row in rows
    )


if __name__ == "__main__":
    main()
