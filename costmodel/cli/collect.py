"""``costmodel collect``: measure kernels on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from costmodel.cli._options import CommandGroup, JsonOption, count_option, number_option, output_option
from costmodel.cli._output import print_line, print_table, resumable, write_json
from costmodel.report._page import TextTable
from costmodel.report._progress import duration

app = CommandGroup()

ConfigArgument = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="Campaign file, or the name of a shipped campaign, such as `cpu-quick`.",
        show_default=False,
    ),
]
DevicesOption = Annotated[
    int,
    count_option(
        help="Number of devices that measure in parallel: the first ones of this machine, all of one model."
    ),
]


@app.callback()
def _collect() -> None:
    """Measure the kernels of a campaign at each of its SM budgets."""


@app.command()
def plan(
    config: ConfigArgument,
    builders: Annotated[
        int | None,
        count_option(
            help="Number of build processes. Default: as many as `run` would start here.", show_default=False
        ),
    ] = None,
    devices: DevicesOption = 1,
    json: JsonOption = None,
) -> None:
    """Estimate how long a campaign takes, before you run it. Needs no device.

    Examples:
    - `costmodel collect plan configs/sm-budgets.toml --builders 16`
    """
    from costmodel.collector.campaign._progress import estimate_campaign

    estimate = estimate_campaign(config, builders=builders, devices=devices)
    rows = (
        ("workloads", f"{estimate.workloads:,}"),
        ("kernels", f"{estimate.kernels:,}"),
        ("measurements", f"{estimate.measurements:,}"),
        ("drawing and building", duration(estimate.build_s)),
        ("on the device", duration(estimate.device_s)),
        ("in all, as both overlap", duration(estimate.total_s)),
    )
    title = f"{config}, build processes: {estimate.builders}, devices: {estimate.devices}"
    print_table(TextTable(title, ("what", "estimate"), rows))
    write_json(json, estimate)


@app.command()
def run(
    config: ConfigArgument,
    out: Annotated[
        Path,
        output_option(
            metavar="DIR",
            help="Folder for the measurements. To resume a stopped campaign, give its folder.",
        ),
    ],
    time_limit: Annotated[
        float | None,
        number_option(
            "at least 0 and at most 1,000,000,000",
            lambda seconds: 0 <= seconds <= 1e9,
            metavar="SECONDS",
            help="Stop cleanly after this time. Default: the campaign's limit.",
            show_default=False,
        ),
    ] = None,
    devices: DevicesOption = 1,
    candidates: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Measure the kernels of this dataset, or of the campaign in this folder, instead of "
            "drawing some.",
            show_default=False,
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Measure the kernels of this dataset first, instead of a random first round.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        output_option(
            metavar="DIR",
            help="Also build a dataset in this folder from all measurements of the campaign.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Run a campaign, or resume it: measure what it still lacks.

    Measurements go to `OUT/measurements.jsonl` as they are made. A killed campaign loses at most the
    measurements in flight: run the same command again to resume it.

    Examples:
    - `costmodel collect run configs/cpu-laptop.toml --out out/cpu --dataset out/data` measures on this CPU
      for at most four minutes, and builds a dataset.
    - `costmodel collect run configs/sm-budgets.toml --out out/h100 --time-limit 600` measures on a GPU for
      ten minutes.
    - `costmodel collect run configs/sm-budgets.toml --out out/h200 --candidates sm-budgets` measures the
      kernels of a published dataset on another GPU.
    """
    from costmodel.tuning._collect import collect

    with resumable():
        result = collect(
            config,
            out,
            time_limit_s=time_limit,
            devices=devices,
            candidates=candidates,
            start_from=start_from,
        )
        print_line(result.measured_on)
        print_line(result.sentence)
        if dataset:
            built = result.dataset(dataset)
            print_line(f"{dataset}: {len(built.measurements):,} measurements, sha256 {built.sha256[:16]}")
    write_json(json, result.to_dict())


@app.command()
def propose(
    config: ConfigArgument,
    out: Annotated[
        Path,
        output_option(metavar="DIR", help="Folder of the campaign; `run` continues in it."),
    ],
    model: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Model trained on other workloads, see `costmodel train`.",
            show_default=False,
        ),
    ],
    compiled: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Model of compiled kernels: four are compiled for each that it chooses.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Device that will measure. Default: the device that the model learned from, if there is "
            "only one.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        count_option(help="Number of processes. Default: one per hardware thread.", show_default=False),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Choose the kernels of a campaign in advance, with a model of other workloads. Needs no device.

    The first round is random. Later rounds hold the kernels that the model expects to be fast. The device
    then waits only for builds.

    Examples:
    - `costmodel collect propose wide-sm-budgets --out out/wide --model out/h100.costmodel`
      chooses 24 kernels of each of 500 workloads, which `collect run` with this file and folder measures.
    """
    from costmodel.tuning._propose import propose as choose

    with resumable():
        found = choose(config, out, model, compiled=compiled, device=device, workers=workers)
        chosen = sum(found.kernels.values())
        print_line(f"{chosen:,} kernels of {len(found.kernels):,} workloads are in {found.folder}.")
        for workload, reason in found.failed.items():
            print_line(f"None of {workload} could be chosen: {reason}")
    write_json(json, found)


@app.command()
def status(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a campaign.", show_default=False)],
    json: JsonOption = None,
) -> None:
    """Show what a campaign still lacks. Needs no device, and does not disturb a running campaign.

    Examples:
    - `costmodel collect status out/h100`
    """
    from costmodel.collector.campaign._progress import campaign_status

    found = campaign_status(out)
    counted = ("rounds", "kernels", "measured", "missing", "repeats", "failed")
    rows = [(each.workload, *(str(getattr(each, name)) for name in counted)) for each in found.workloads]
    title = f"{out}: {found.measured:,} of {found.expected:,} first visits"
    print_table(TextTable(title, ("workload", *counted), rows))
    write_json(json, found)
