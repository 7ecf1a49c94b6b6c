"""``costmodel tune``: find the kernel to run for the SMs that it will have."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._complete import complete_learner, complete_workload
from costmodel.cli._interrupt import resumable, watch_output
from costmodel.cli._options import JsonOption, count_option, dims_of, output_option, seed_option
from costmodel.cli._output import print_line, print_table, titled_table, write_json
from costmodel.cli._tracking import (
    ExperimentOption,
    Tracking,
    TrackingUriOption,
    TrackOption,
    TrialLog,
    options_of,
)
from costmodel.cli._tune_options import budgets_of, names_of, numbers_of, service_watch_of, share_of

if TYPE_CHECKING:
    from costmodel.tuning import TuneResult


class RunnerName(StrEnum):
    """What measures."""

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
            "Triton kernel with declared parameters, see `costmodel kernels`, or a TensorIR program: "
            "program.py:name, which is run, or program.json of tvm.ir.save_json.",
            show_default=False,
            autocompletion=complete_workload,
        ),
    ],
    *,
    dims: Annotated[
        str | None,
        typer.Option(
            metavar="D=N[,D=N...]",
            help="Sizes of such a kernel's dims, such as m=1024,n=1024; its description's if not given.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Where kernels come from: metaschedule, cuda, triton, library (what PyTorch runs), or all, "
            "which are compared. If not given, the first of these that makes the workload; in a replay all "
            "that were recorded.",
            show_default=False,
        ),
    ] = None,
    sms: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N...]",
            help="SMs that the kernel will have, threads on a CPU; the whole device if not given. Several, "
            "such as 16,32,132, for one kernel that is good on all of them.",
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="What one kernel for several SM budgets is chosen by, of its latency over the best at each: "
            "worst-regret (if not given), mean (geometric) or weighted (see --weights).",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="W,W...", help="Weight of each SM budget in the objective weighted.", show_default=False
        ),
    ] = None,
    portfolio: Annotated[
        int | None,
        count_option(
            metavar="K",
            help="Choose at most K kernels, and the ranges of SMs in which each should run. Without --sms "
            "for all SM budgets that were recorded, or some that the device grants.",
            show_default=False,
        ),
    ] = None,
    free_sms: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Find the fewest SMs that cost at most so much more than the whole device, such as 4%.",
            show_default=False,
        ),
    ] = None,
    runner: Annotated[RunnerName, typer.Option(help="What measures.")] = RunnerName.REPLAY,
    trials: Annotated[int, count_option(help="Candidates to measure, of each source.")] = 16,
    learn_from: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="History: a dataset, the name of one that ships, or `nothing`. If not given, what is "
            "replayed; for a GPU what ships of such kernels; for a CPU nothing.",
            show_default=False,
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="On a device, measure the fastest kernels of this workload in a dataset before any others; "
            "those of the history if not given.",
            show_default=False,
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Dataset to replay in place of a device, as a new GPU; the one that ships if not given.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Device to replay, or a part of its name, where the records hold several; the first by "
            "name if not given.",
            show_default=False,
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure beside a running service, on SMs that it leaves: the file to which it appends a "
            "line a request that begins with its latency in seconds. The search pauses where p99 rises too "
            "far.",
            show_default=False,
        ),
    ] = None,
    may_lose: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="By how much the p99 of such a service may rise; 5% if not given.",
            show_default=False,
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learner to train on the history.",
            autocompletion=complete_learner,
            show_default="kernel-ridge; stack but for MetaSchedule; source-mixture for another suite; "
            "known-elsewhere where these kernels were measured on other SMs or devices",
        ),
    ] = None,
    keep_twins_apart: Annotated[
        bool,
        typer.Option(
            "--keep-twins-apart",
            help="In a replay, learn this workload from near-twins of the device too. On a device that is "
            "always so.",
        ),
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Trained model to use instead of a history.", show_default=False),
    ] = None,
    screened: Annotated[
        int,
        count_option(
            help="Configs to draw and screen at a time, without building any: a second for 50,000, so that "
            "there is no need for a small random pool. A replay screens all that it holds.",
        ),
    ] = 50_000,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="FILE_OR_URL",
            help="Keep the search here and go on with it where it stopped; several processes may share it. A "
            "file that ends in .log or .journal, or in .db for SQLite, or a URL such as "
            "postgresql://host/name.",
            show_default=False,
        ),
    ] = None,
    stop_gain: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Stop when the next measurement is expected to gain less than this, such as 1%.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, seed_option("Seed of all random choices.")] = 0,
    plot: Annotated[
        Path | None,
        output_option(
            metavar="FILE.png",
            help="Picture of latency over SM budgets: .png, .svg or .pdf. A replay draws "
            "out/tune-*.png if not given; a device, which measures more for it, draws only if given.",
            show_default=False,
        ),
    ] = None,
    dispatch: Annotated[
        Path | None,
        output_option(
            help="Write the chosen kernels as a dispatch table (JSON): which to run for the SMs that are "
            "granted.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output_option(
            help="Write one HTML page: the answer, pictures of latency over SMs, progress and predictions.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
    track: TrackOption = False,
    tracking_uri: TrackingUriOption = None,
    experiment: ExperimentOption = None,
) -> None:
    """Find the kernel to run for the SMs that it will have, measuring only a shortlist.

    A model that learned from other kernels and other devices ranks all candidates, and each measurement
    sharpens it. On a device it learns from everything in the history. A replay leaves out this workload, and
    others of its shape, on this device and, where the history has it too, on its near-twins: they all but
    tell what is to be found.

    Examples:
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32` replays recorded measurements: no GPU is needed.
    - `costmodel tune matmul-m64-n2304-k768 --sms 32 --runner cuda --plot out/tune.png` measures on this GPU.
    - `costmodel tune matmul-m64-n2304-k768 --sms 32 --runner cuda --source all` compares with the library.
    - `costmodel tune path/to/kernel --dims m=1024,n=1024 --sms 32 --runner cuda` tunes a kernel of your own.
    - `costmodel tune matmul-m64-n64-k64 --sms 1 --runner cpu --study out/cpu.db` tunes for one CPU thread.
    - `costmodel tune matmul-m16-n1024-k1024 --sms 16,32,132` finds one kernel that is good on all three.
    - `costmodel tune matmul-m16-n1024-k1024 --portfolio 3 --dispatch out/dispatch.json` finds three for all.
    - `costmodel tune matmul-m16-n1024-k1024 --free-sms 4%` finds how many SMs can be left to others.
    - `costmodel tune KERNEL --runner cuda --sms 16 --beside latencies.log` leaves a running service its p99.
    - `costmodel tune KERNEL --learn-from HISTORY --replay NEW` tunes on recorded kernels of a new device.
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32 --track` logs every trial while it is measured.
    """
    from costmodel.dataset import dataset_used, load_dataset
    from costmodel.tuning import NOTHING, TuneRequest, describe_page, describe_search, page_of
    from costmodel.tuning import tune as search

    request = TuneRequest(
        workload,
        budgets_of(sms),
        objective,
        numbers_of("--weights", weights),
        portfolio,
        share_of("--free-sms", free_sms),
        trials,
        share_of("--stop-gain", stop_gain),
    )
    with Tracking.of(context).run(request.title, options_of(context)) as run:
        history = learn_from or replay
        if model is None and history != NOTHING and (history or runner is RunnerName.REPLAY):
            run.log(dataset_used(load_dataset(each), "training") for each in (history,))
        log = TrialLog(run)
        with resumable() if study else _hint_at_studies():
            result = search(
                workload,
                dims=dims_of(dims),
                source=names_of(source),
                sms=request.sms,
                trials=trials,
                learn_from=learn_from,
                start_from=start_from,
                replay=replay,
                runner=runner.value,
                device=device,
                model=model,
                learner=learner,
                keep_twins_apart=keep_twins_apart,
                objective=objective,
                weights=request.weights,
                portfolio=portfolio,
                free_sms=request.free_sms,
                screened=screened,
                study=study,
                stop_gain=request.stop_gain,
                seed=seed,
                measure_curves=bool(plot or report) and not beside,
                beside=service_watch_of(beside, may_lose),
                on_trial=log.add,
            )
            _print(result)
            write_json(json, result.to_dict())
            if plot or runner is RunnerName.REPLAY:
                picture = plot or _default_picture(result)
                watch_output(context, picture)
                result.plot(picture)
                print_line(f"Picture: {picture}")
            if dispatch:
                result.save_dispatch_table(dispatch)
                print_line(f"Dispatch table: {dispatch}")
            if report:
                result.save_report(report)
                print_line(f"Report: {report}")
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


def _default_picture(result: "TuneResult") -> Path:
    """Where a replay draws."""
    sms = result.search.sms
    budgets = f"{sms[0]}sms" if len(sms) == 1 else f"{len(sms)}budgets"
    return Path("out") / f"tune-{result.workload.name}-{budgets}.png"


def _print(result: "TuneResult") -> None:
    """Print what measured, the trials, the chosen kernels, and the answer with where it came from."""
    print_line(result.search.provenance.runner)
    for table in result.tables:
        shown = titled_table("")
        for name in table.header:
            shown.add_column(name, justify="left" if name == "grid x block" else "right")
        for row in table.rows:
            shown.add_row(*row)
        print_table(shown)
    for sentence in result.answer:
        print_line(sentence)
