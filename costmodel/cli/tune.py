"""``costmodel tune``: find the kernel to run for the SMs that it will have."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import (
    MEASUREMENTS,
    MODEL,
    OUTPUT,
    SEARCH,
    WHAT_TO_TUNE,
    JsonOption,
    budgets_of,
    complete_learner,
    complete_workload,
    count_option,
    dims_of,
    names_of,
    numbers_of,
    output_option,
    place_of,
    seed_option,
    service_watch_of,
    share_of,
)
from costmodel.cli._output import print_line, print_table, resumable, watch_output, write_json
from costmodel.cli._programs import TimeLimitOption, is_program, rank_kernels, time_kernels
from costmodel.cli._tracking import (
    ExperimentOption,
    Tracking,
    TrackingUriOption,
    TrackOption,
    TrialLog,
    options_of,
)
from costmodel.errors import CostModelError
from costmodel.kernels.triton._source import TIME_LIMIT_S

if TYPE_CHECKING:
    from costmodel.collector.runners._service_watch import ServiceReport
    from costmodel.tuning._result import TuneResult


_UNTIMED = "Nothing was timed: this is read. On a machine with a GPU, --runner cuda times the first of them."


class RunnerName(StrEnum):
    """Where measurements come from."""

    REPLAY = "replay"
    CUDA = "cuda"
    CPU = "cpu"


def tune(
    context: typer.Context,
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="Name of a workload, such as matmul-m128-n768-k3072, the folder of a CUDA or "
            "Triton kernel with declared parameters, see `costmodel kernels`, a program that launches Triton "
            "kernels, which is run, or a TensorIR program: "
            "program.py:name, which is run, or program.json of tvm.ir.save_json.",
            show_default=False,
            autocompletion=complete_workload,
        ),
    ],
    *,
    sms: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N...]",
            help="Number of SMs available to the kernel (threads on a CPU). Several, such as "
            "16,32,132, choose one kernel that is good at all of them. Default: the whole device.",
            rich_help_panel=WHAT_TO_TUNE,
            show_default=False,
        ),
    ] = None,
    portfolio: Annotated[
        int | None,
        count_option(
            metavar="K",
            help="Choose at most K kernels, and the range of SMs in which each should run. Without "
            "--sms, they cover all recorded SM budgets or, on a device, some that it grants.",
            rich_help_panel=WHAT_TO_TUNE,
            show_default=False,
        ),
    ] = None,
    free_sms: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Find the fewest SMs whose latency is at most this much above that of the whole "
            "device, such as 4%.",
            rich_help_panel=WHAT_TO_TUNE,
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="How to choose one kernel for several SM budgets, from its latency over the best at "
            "each: worst-regret, mean (geometric) or weighted (see --weights). Default: "
            "worst-regret.",
            rich_help_panel=WHAT_TO_TUNE,
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="W,W...",
            help="Weight of each SM budget for --objective weighted.",
            rich_help_panel=WHAT_TO_TUNE,
            show_default=False,
        ),
    ] = None,
    dims: Annotated[
        str | None,
        typer.Option(
            metavar="D=N[,D=N...]",
            help="Sizes of the dimensions of a CUDA or Triton kernel, such as m=1024,n=1024. Default: "
            "those of its description.",
            rich_help_panel=WHAT_TO_TUNE,
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Where kernels come from: sources of `costmodel kernels list`, such as metaschedule or "
            "library (what PyTorch runs), or all. Several are compared. Default: the first that makes the "
            "workload; in a replay, all recorded sources.",
            rich_help_panel=WHAT_TO_TUNE,
            show_default=False,
        ),
    ] = None,
    runner: Annotated[
        RunnerName,
        typer.Option(
            help="Where measurements come from: recorded data, this GPU or this CPU.",
            rich_help_panel=MEASUREMENTS,
        ),
    ] = RunnerName.REPLAY,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Dataset to replay in place of a device, as if it were a new GPU. Default: the "
            "shipped dataset.",
            rich_help_panel=MEASUREMENTS,
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Device to replay, such as H100, if the dataset holds several. Default: the first by name.",
            rich_help_panel=MEASUREMENTS,
            show_default=False,
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure next to a running service, on the SMs that it leaves free. The service "
            "appends one line per request to this file, which begins with its latency in seconds. "
            "The search pauses while p99 rises too far.",
            rich_help_panel=MEASUREMENTS,
            show_default=False,
        ),
    ] = None,
    may_lose: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="How much the p99 latency of the service may rise, with --beside. Default: 5%.",
            rich_help_panel=MEASUREMENTS,
            show_default=False,
        ),
    ] = None,
    learn_from: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="History to learn from: a dataset, the name of a shipped one, or `nothing`. Default: "
            "the replayed dataset; on a GPU, what ships for kernels of this kind; on a CPU, "
            "nothing.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="On a device, measure the fastest kernels of this workload in this dataset before any "
            "others. Default: the history.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learner to train on the history.",
            rich_help_panel=MODEL,
            autocompletion=complete_learner,
            show_default="kernel-ridge for MetaSchedule kernels, else stack; "
            "stack-above-analytic if speed depends on data; source-mixture if the history is another suite; "
            "known-elsewhere if it holds these kernels on other SMs or devices",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Trained model to use instead of a history.",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None,
    keep_twins_apart: Annotated[
        bool,
        typer.Option(
            "--keep-twins-apart",
            help="In a replay, also learn this workload from near-twins of the device. On a device "
            "this is always so.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    trials: Annotated[
        int, count_option(help="Number of candidates to measure, for each source.", rich_help_panel=SEARCH)
    ] = 16,
    screened: Annotated[
        int,
        count_option(
            help="Number of configs to draw and score at a time, without building any; 50,000 take "
            "about a second. A replay scores all that it holds.",
            rich_help_panel=SEARCH,
        ),
    ] = 50_000,
    compiled_per_trial: Annotated[
        int | None,
        count_option(
            metavar="N",
            help="Number of TVM kernels to compile for each that is measured on a GPU; a model that reads "
            "their machine code chooses which are measured. Default: as many as the build processes make of "
            "all trials at once, 4 at most; 1 compiles only what is measured.",
            rich_help_panel=SEARCH,
            show_default=False,
        ),
    ] = None,
    stop_gain: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Stop when the next measurement is expected to gain less than this share, such as 1%.",
            rich_help_panel=SEARCH,
            show_default=False,
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="FILE_OR_URL",
            help="Keep the search here and resume it where it stopped; several processes may share it. "
            "A file that ends in .log or .journal, in .db for SQLite, or a URL such as "
            "postgresql://host/name.",
            rich_help_panel=SEARCH,
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, seed_option("Seed of all random choices.", rich_help_panel=SEARCH)] = 0,
    time_limit: TimeLimitOption = TIME_LIMIT_S,
    plot: Annotated[
        Path | None,
        output_option(
            metavar="FILE.png",
            help="Draw latency over SM budgets (.png, .svg or .pdf). Default: a replay draws "
            "out/tune-*.png; a device, which needs extra measurements for it, draws nothing.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    dispatch: Annotated[
        Path | None,
        output_option(
            help="Write the chosen kernels to this file as a dispatch table (JSON): which kernel to "
            "run for how many granted SMs.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output_option(
            help="Write an HTML page to this file: the answer, and figures of latency over SMs, "
            "progress and predictions.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
    track: TrackOption = False,
    tracking_uri: TrackingUriOption = None,
    experiment: ExperimentOption = None,
) -> None:
    """Find the fastest kernel for a given number of SMs, measuring only a shortlist of candidates.

    A model trained on other kernels and devices ranks all candidates, and each measurement refines it. On a
    device it learns from the whole history. A replay leaves out this workload, and others of its shape, on
    this device and, if the history holds it there too, on near-twins of the device: they would give the
    answer away.

    Examples:
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32` replays recorded measurements: no GPU is needed.
    - `costmodel tune matmul-m64-n2304-k768 --sms 32 --runner cuda --plot out/tune.png` measures on this GPU.
    - `costmodel tune matmul-m64-n2304-k768 --sms 32 --runner cuda --source all` compares with the library.
    - `costmodel tune path/to/kernel --dims m=1024,n=1024 --sms 32 --runner cuda` tunes a kernel of your own.
    - `costmodel tune my_kernel.py --runner cuda` times configs of the Triton kernels that a program launches.
    - `costmodel tune matmul-m64-n64-k64 --sms 1 --runner cpu --study out/cpu.db` tunes for one CPU thread.
    - `costmodel tune matmul-m16-n1024-k1024 --sms 16,32,132` finds one kernel for all three.
    - `costmodel tune matmul-m16-n1024-k1024 --portfolio 3 --dispatch out/dispatch.json` finds up to three.
    - `costmodel tune matmul-m16-n1024-k1024 --free-sms 4%` finds how many SMs can be left free.
    - `costmodel tune KERNEL --runner cuda --sms 16 --beside latencies.log` protects a service's p99.
    - `costmodel tune KERNEL --learn-from HISTORY --replay NEW` replays kernels of a new device.
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32 --track` logs every trial while it is measured.
    """
    from costmodel.dataset.publish._describe import describe_used_dataset
    from costmodel.dataset.table._read import load_dataset
    from costmodel.tuning._describe import describe_page, describe_search
    from costmodel.tuning._knowledge import NOTHING
    from costmodel.tuning._page import page_of
    from costmodel.tuning._request import Goal, Prior, SearchSettings
    from costmodel.tuning._tune import tune as search

    of_place = "runner" if runner is RunnerName.CUDA else "device"
    if is_program(context, workload, "workload", "sms", "trials", of_place, "time_limit", "json"):
        if runner is RunnerName.CUDA:
            time_kernels(Path(workload), budgets_of(sms), trials, time_limit, json)
        else:
            rank_kernels(Path(workload), device, budgets_of(sms), time_limit, json, hint=_UNTIMED)
        return
    goal = Goal(
        budgets_of(sms),
        objective,
        numbers_of("--weights", weights),
        portfolio,
        share_of("--free-sms", free_sms),
    )
    settings = SearchSettings(
        screened=screened,
        compiled_per_trial=compiled_per_trial,
        stop_gain=share_of("--stop-gain", stop_gain),
        study=study,
        seed=seed,
        measure_curves=bool(plot or report) and not beside,
    )
    fared: list[ServiceReport] = []
    place = place_of(runner.value, replay, device, service_watch_of(beside, may_lose), fared.append)
    with Tracking.of(context).run(f"{workload} {goal.title}", options_of(context)) as run:
        history = learn_from or replay
        if model is None and history != NOTHING and (history or runner is RunnerName.REPLAY):
            run.log(describe_used_dataset(load_dataset(each), "training") for each in (history,))
        log = TrialLog(run)
        with resumable() if study else _hint_at_studies():
            result = search(
                workload,
                sms=goal,
                trials=trials,
                sources=names_of(source),
                dims=dims_of(dims),
                on=place,
                prior=Prior(model, learn_from, start_from, learner, keep_twins_apart),
                search=settings,
                on_trial=log.add,
            )
            _print(result)
            write_json(json, {**result.to_dict(), "service": fared[0] if fared else None})
            for write, file, what in (
                (result.plot, plot, "Picture"),
                (result.save_dispatch_table, dispatch, "Dispatch table"),
                (result.save_report, report, "Report"),
            ):
                if file:
                    write(file)
                    print_line(f"{what}: {file}")
            if runner is RunnerName.REPLAY and not plot:
                _draw(context, result)
        run.log(describe_search(result, log.told))
        run.log(describe_page(page_of(result)))


@contextmanager
def _hint_at_studies() -> Iterator[None]:
    """Tell whom interrupts a search that is not kept how to keep it."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note("With --study FILE, the same command goes on where it stopped.")
        raise


def _draw(context: typer.Context, result: "TuneResult") -> None:
    """Draw a replay though nobody asked for it; where that cannot be written, it is said and no error."""
    sms = result.search.sms
    budgets = f"{sms[0]}sms" if len(sms) == 1 else f"{len(sms)}budgets"
    picture = Path("out") / f"tune-{result.workload.name}-{budgets}.png"
    watch_output(context, picture)
    try:
        result.plot(picture)
    except CostModelError as error:
        print_line(f"No picture: {error}")
    else:
        print_line(f"Picture: {picture}")


def _print(result: "TuneResult") -> None:
    """Print what measured, the trials, the chosen kernels, and the answer with where it came from."""
    print_line(result.search.provenance.runner)
    for table in result.tables:
        print_table(replace(table, title=""))
    for sentence in result.answer:
        print_line(sentence)
