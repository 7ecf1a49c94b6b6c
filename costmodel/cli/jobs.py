"""``costmodel jobs``: many tuning jobs, whose state is in a database."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from costmodel.cli._options import (
    CommandGroup,
    JsonOption,
    budgets_of,
    complete_workload,
    count_option,
    number_check,
    number_option,
    output_option,
)
from costmodel.cli._output import print_line, print_table, resumable, write_json
from costmodel.reading import exists
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.service._job import JobFile
    from costmodel.service._status import JobStatus
    from costmodel.service._store import JobStore
    from costmodel.service._work import Slice

app = CommandGroup()

StoreOption = Annotated[
    str,
    typer.Option(
        metavar="FILE_OR_URL",
        help="Database of jobs and their studies: a file that ends in .db for SQLite, or a URL such "
        "as postgresql://host/name.",
    ),
]
IdArgument = Annotated[
    int,
    typer.Argument(
        metavar="ID",
        help="Id of a job.",
        callback=number_check("a whole number from 1 to 1,000,000,000", lambda id_: 1 <= id_ <= 10**9),
        show_default=False,
    ),
]
_STORE, _PRIORITY = "out/jobs.db", 100
_BARS = "▁▂▃▄▅▆▇█"


@app.callback()
def _jobs() -> None:
    """Queue tuning jobs in a database, and run them with any number of worker processes."""


@app.command()
def submit(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB.toml|WORKLOAD",
            help="A job file, or one or more workloads, which become the tasks of one job.",
            show_default=False,
            autocompletion=complete_workload,
        ),
    ],
    *,
    store: StoreOption = _STORE,
    sms: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N...]",
            help="Number of SMs available to the kernels (threads on a CPU). Each number is a task of each "
            "workload. Default: the whole device.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="GPU to tune for, such as h100. Repeatable; each is a task of each workload.",
            show_default="whatever a worker has",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        count_option(help="Number of candidates to measure per task, on average.", show_default="16"),
    ] = None,
    runner: Annotated[
        Literal["replay", "cpu", "cuda"] | None,
        typer.Option(help="Where measurements come from.", show_default="replay"),
    ] = None,
    rule: Annotated[
        Literal["round-robin", "gradient", "expected-gain"] | None,
        typer.Option(
            metavar="RULE",
            help="Rule that chooses the task to measure next: round-robin, gradient or expected-gain.",
            show_default="round-robin",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the job.", show_default="a description of its tasks"),
    ] = None,
    submitter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who submits the job.", show_default="this user"),
    ] = None,
    priority: Annotated[
        int, count_option(help="Priority of the job; jobs of higher priority run first.", least=0, most=1000)
    ] = _PRIORITY,
    json: JsonOption = None,
) -> None:
    """Queue a job: kernels to tune, a network, or a campaign.

    Options override the job file.

    Examples:
    - `costmodel jobs submit matmul-m16-n1024-k1024 --sms 16,32` finds a kernel for 16 SMs, and one for 32.
    - `costmodel jobs submit net.toml --runner cuda --device h100 --device h200` finds kernels for both.
    - `costmodel jobs submit network.toml --priority 5 --store postgresql://host/jobs`
    """
    from msgspec.structs import replace

    from costmodel.records._device_table import is_device, read_devices

    given = {
        "sms": budgets_of(sms) or None,
        "devices": tuple(device or ()) or None,
        "trials": trials,
        "runner": runner,
        "rule": rule,
        "name": name,
    }
    wanted = replace(_asked(targets), **{key: value for key, value in given.items() if value is not None})
    job, opened = wanted.job(), _opened(store)
    id_ = opened.submit(job, submitter=submitter, priority=priority)
    measured = f", {job.total} candidates to measure" if job.total else ""
    print_line(f"Job {id_}: {job.name}, tasks: {len(job.tasks)}{measured}.")
    print_line(f"To do it: costmodel jobs work --store {store}")
    for gpu in dict.fromkeys(filter(None, job.devices)) if job.runner == "cuda" else ():
        if not any(is_device(gpu, each.device.name) for each in read_devices()):
            print_line(f"Note: no known GPU is called {gpu}. Its tasks wait for a worker whose GPU is.")
    write_json(json, {"id": id_, "job": job})


@app.command("list")
def list_(*, store: StoreOption = _STORE, json: JsonOption = None) -> None:
    """List the jobs, newest first.

    Examples:
    - `costmodel jobs list`
    """
    jobs = _opened(store, create=False).list()
    header = ("id", "state", "submitter", "job", "priority", "tasks done", "trials", "latency us")
    rows = []
    for job in jobs:
        done = sum(task.state == "done" for task in job.tasks)
        cells = (job.priority, f"{done}/{len(job.tasks)}", _trials(job), _microseconds(job.latency_s))
        rows.append((str(job.id), job.state, job.submitter, job.name, *map(str, cells)))
    print_table(TextTable(f"{store}, jobs: {len(jobs)}", header, rows, "rllwrrrr"))
    write_json(json, jobs)


@app.command()
def show(id_: IdArgument, *, store: StoreOption = _STORE, json: JsonOption = None) -> None:
    """Show a job: its tasks, their workers, and the results.

    Examples:
    - `costmodel jobs show 3`
    - `costmodel jobs show 3 --json out/job.json` writes the kernels found.
    """
    job = _opened(store, create=False).show(id_)
    header = ("task", "weight", "state", "trials", "best us", "leases", "deaths", "worker")
    rows = []
    for task in job.tasks:
        best = _microseconds(task.best_s[-1] if task.best_s else None)
        counts = (f"{task.weight:g}", task.state, task.trials, best, task.leases, task.deaths)
        rows.append((task.name, *map(str, counts), task.worker or ""))
    title = f"Job {job.id}, {job.name}: {job.state}, {job.rule} on {job.runner}"
    print_table(TextTable(title, header, rows, "wrrrrrrl"))
    for task in job.tasks:
        said = task.error or (task.answer.sentences[0] if task.answer else "")
        if said:
            print_line(f"{task.name}: {said}")
    write_json(json, job)


@app.command()
def cancel(id_: IdArgument, *, store: StoreOption = _STORE) -> None:
    """Cancel a job. Its workers stop after the measurement in flight.

    Examples:
    - `costmodel jobs cancel 3`
    """
    _opened(store, create=False).cancel(id_)
    print_line(f"Job {id_} is cancelled; what was measured is kept.")


@app.command()
def work(
    *,
    store: StoreOption = _STORE,
    runner: Annotated[
        Literal["replay", "cpu", "cuda"] | None,
        typer.Option(help="Take only jobs for this runner.", show_default="any"),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Exit when no task is left, instead of waiting for more jobs.")
    ] = False,
    records: Annotated[
        Path,
        output_option(
            metavar="DIR", help="Folder for measurements on a device and for the kernels built for it."
        ),
    ] = Path("out/jobs"),
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where to build the kernels that a device measures: unix:///tmp/builders.sock is what "
            "`costmodel jobs builders` started on this machine, tls://host:8786 is a Dask scheduler, "
            "local://16 is 16 processes on this machine.",
            show_default="processes on this machine",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Take only tasks for this device, such as h100, and those that name none.",
            show_default="the GPU here, once it was opened",
        ),
    ] = None,
    lanes: Annotated[
        bool,
        typer.Option(
            "--lanes",
            help="Measure on part of the GPU in parallel with other workers, instead of taking turns.",
        ),
    ] = False,
    quota: Annotated[
        float | None,
        number_option(
            "more than 0 and at most 1,000,000",
            lambda hours: 0 < hours <= 1e6,
            metavar="HOURS",
            help="Take no job of a submitter who had so many hours of workers in the last day.",
            show_default="no limit",
        ),
    ] = None,
    campaigns: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder in which campaigns may write.", show_default="anywhere"),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Run the tasks of jobs, one after the other. Several workers may share a store.

    A killed worker loses the measurement in flight. Another worker, or the same command, continues.

    Examples:
    - `costmodel jobs work --once` runs all tasks and exits.
    - `costmodel jobs work --runner cuda --store postgresql://host/jobs` measures for others on this GPU.
    - `costmodel jobs work --runner cuda --engine tls://scheduler:8786` has other machines build the kernels.
    """
    from costmodel.service._work import work as do

    done: list[Slice] = []

    def told(part: "Slice") -> None:
        done.append(part)
        _print(part)

    with resumable():
        do(
            _opened(store, quota_s=None if quota is None else 3600 * quota),
            runner=runner,
            once=once,
            records=records,
            engine=engine,
            device=device,
            lanes=lanes,
            campaigns=campaigns,
            on_slice=told,
        )
    print_line(f"No task is left to take; slices done: {len(done)}.")
    write_json(json, done)


@app.command()
def builders(
    *,
    at: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address that workers name as their engine.", show_default=False
        ),
    ],
    count: Annotated[
        int | None,
        count_option(help="Number of builder processes.", show_default="hardware threads"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="FILE_OR_URL", help="Database of jobs, which is told how busy the builders are."
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Kernel source whose compiler is imported beforehand. Repeatable.",
            show_default="all",
        ),
    ] = None,
) -> None:
    """Build kernels for all workers of this machine, in processes that they share, until interrupted.

    A worker with builders of its own leaves them idle while it proposes and measures, and starts them anew.
    One that is started with --engine and the address of these has its kernels built by them.

    Examples:
    - `costmodel jobs builders --at unix:///tmp/builders.sock --count 12 --store out/jobs.db`
    """
    from costmodel.kernels._sources import SOURCES
    from costmodel.service._building import serve_builders

    with resumable():
        opened = None if store is None else _opened(store)
        serve_builders(at, count, opened, print_line, source or SOURCES)


@app.command()
def top(
    *,
    store: StoreOption = _STORE,
    seconds: Annotated[int, count_option(help="Time to look back, in seconds.", most=3600)] = 60,
    json: JsonOption = None,
) -> None:
    """Show how busy builders, devices and workers were of late, and what waits for them.

    Examples:
    - `costmodel jobs top --seconds 600`
    """
    used = _opened(store, create=False).usage(seconds)
    header = ("stage", "on", "places", "waiting", "done an hour", "busy", f"last {seconds} s")
    rows = [
        (
            use.stage,
            use.place,
            str(use.places),
            str(use.waiting),
            f"{3600 * use.done / seconds:,.0f}",
            f"{100 * use.share:.0f} %",
            "".join(" " if share is None else _BARS[min(7, int(8 * share))] for share in use.busy),
        )
        for use in used
    ]
    print_table(TextTable(f"{store}, stages: {len(used)}", header, rows, "lwrrrrl"))
    write_json(json, used)


@app.command()
def metrics(
    *,
    store: StoreOption = _STORE,
    port: Annotated[int, count_option(help="Port to listen on.", most=65_535)] = 9100,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Serve the state of jobs, tasks and workers as Prometheus metrics, until interrupted.

    Examples:
    - `costmodel jobs metrics --port 9100` serves http://127.0.0.1:9100/metrics.
    """
    from costmodel.service._metrics import serve_metrics

    _, thread = serve_metrics(_opened(store), port=port, host=host)
    print_line(f"Metrics: http://{host}:{port}/metrics")
    thread.join()


def _opened(store: str, *, create: bool = True, quota_s: float | None = None) -> "JobStore":
    from costmodel.service._store import JobStore

    return JobStore(store, create=create, quota_s=quota_s)


def _asked(targets: list[str]) -> "JobFile":
    """The job file, or one of these workloads."""
    from costmodel.service._job import JobFile

    if Path(targets[0]).suffix != ".toml":
        if files := [each for each in targets if exists(each)]:
            raise typer.BadParameter(f"A job file must end in .toml, but got {files[0]}.")
        return JobFile(workloads=tuple(targets))
    if len(targets) > 1:
        raise typer.BadParameter(f"It must be one job file or workloads, but got {' '.join(targets)}.")
    return JobFile.load(Path(targets[0]))


def _print(part: "Slice") -> None:
    if part.progress is None:
        print_line(f"Job {part.job}, {part.name}: not done. {part.reason}")
        return
    print_line(f"Job {part.job}, {part.name}: {part.progress.answer.sentences[0]}")


def _trials(job: "JobStatus") -> str:
    return f"{job.trials}/{job.total}" if job.total else str(job.trials)


def _microseconds(seconds: float | None) -> Any:
    return "" if seconds is None else f"{1e6 * seconds:.4g}"
