"""``costmodel tune``: find the kernel to run for the SMs that it will have."""

from pathlib import Path
from typing import Annotated

import typer

from costmodel.cli._output import DEFAULT_LEARNER, JsonOption, console
from costmodel.cli._tracking import (
    ExperimentOption,
    Tracking,
    TrackingUriOption,
    TrackOption,
    options_of,
)
from costmodel.cli._tune_budgets import tune_for_several
from costmodel.cli._tune_one import tune_for_one
from costmodel.cli._tune_request import Outputs, TuneRequest, budgets_of, numbers_of, share_of
from costmodel.cli._tune_setup import RunnerName, load_transfer_model, open_runner, train_model


def tune(
    context: typer.Context,
    workload: Annotated[
        str, typer.Argument(help="Name of a workload, such as matmul-m128-n768-k3072.", show_default=False)
    ],
    *,
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
            metavar="worst-regret|mean|weighted",
            help="What one kernel for several SM budgets is chosen by: its latency over the best at each, "
            "the worst or the geometric mean, worst-regret if not given.",
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
        typer.Option(
            metavar="K",
            min=1,
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
    trials: Annotated[int, typer.Option(min=1, help="Candidates to measure.")] = 16,
    dataset: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Dataset to learn from, and to replay. If not given, the one that ships; for a CPU none.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Device to replay, or a part of its name, where the dataset holds several; the first by "
            "name if not given.",
            show_default=False,
        ),
    ] = None,
    learner: Annotated[str, typer.Option(help="Learner to train on the dataset.")] = DEFAULT_LEARNER,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Trained model to use instead of a learner.", show_default=False),
    ] = None,
    screened: Annotated[
        int,
        typer.Option(
            min=1,
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
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PNG of latency over SM budgets. A replay draws out/tune-WORKLOAD-SMS.png if not given; a "
            "device measures more for it, so it draws only if given.",
            show_default=False,
        ),
    ] = None,
    dispatch: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the kernels for several SM budgets as a dispatch table (JSON): which to run for the "
            "SMs that are granted.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
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

    A model that learned from other workloads ranks all candidates, and each measurement sharpens it. From the
    dataset it learns of every workload but the one that is tuned.

    Examples:
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32` replays recorded measurements: no GPU is needed.
    - `costmodel tune matmul-m64-n2304-k768 --sms 32 --runner cuda --plot out/tune.png` measures on this GPU.
    - `costmodel tune matmul-m64-n64-k64 --sms 1 --runner cpu --study out/cpu.db` tunes for one CPU thread.
    - `costmodel tune matmul-m16-n1024-k1024 --sms 16,32,132` finds one kernel that is good on all three.
    - `costmodel tune matmul-m16-n1024-k1024 --portfolio 3 --dispatch out/dispatch.json` finds three for all.
    - `costmodel tune matmul-m16-n1024-k1024 --free-sms 4%` finds how many SMs can be left to others.
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32 --track` logs every trial while it is measured.
    """
    from costmodel.dataset import dataset_used, find_dataset, load_dataset

    request = TuneRequest(
        workload=workload,
        sms=budgets_of(sms),
        objective=objective,
        weights=numbers_of("--weights", weights),
        portfolio=portfolio,
        free_sms=share_of("--free-sms", free_sms),
        trials=trials,
        screened=screened,
        study=study,
        stop_gain=share_of("--stop-gain", stop_gain),
        seed=seed,
        outputs=Outputs(plot=plot, dispatch=dispatch, report=report, json=json),
    )
    request.check()
    source = None if runner is RunnerName.CPU and not dataset else find_dataset(dataset)
    with Tracking.of(context).run(request.title, options_of(context, dataset=source)) as run:
        run.log(dataset_used(path, "training") for path in [source] if path)
        data = load_dataset(source) if source else None
        with open_runner(runner, workload, data, device) as opened:
            console.print(opened.description, soft_wrap=True, highlight=False)
            if model:
                left_out = workload if runner is RunnerName.REPLAY else None
                fitted, knowledge = load_transfer_model(model, left_out)
            elif source and data:
                fitted, knowledge = train_model(data, source, workload, learner, seed)
            else:
                fitted, knowledge = None, {"model": "scratch", "trained_on": "nothing"}
            tune_for = tune_for_several if request.is_for_several else tune_for_one
            tune_for(opened, fitted, knowledge, request, run)
