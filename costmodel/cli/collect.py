"""``costmodel collect``: measure kernels on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._output import (
    JsonOption,
    ProgressLog,
    console,
    duration,
    progress,
    titled_table,
    write_json,
)

if TYPE_CHECKING:
    from costmodel.collect import CampaignConfig, CpuRunner, CudaRunner
    from costmodel.dataset import CardHeader
    from costmodel.records import Measurement

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="markdown")

ConfigArgument = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help="Campaign file; see configs/ for examples.", show_default=False),
]
DevicesOption = Annotated[
    int,
    typer.Option(min=1, help="Devices of one model that measure at once, the first ones of this machine."),
]


@app.callback()
def _collect() -> None:
    """Measure the kernels of a campaign, on every SM budget that it names."""


@app.command()
def plan(
    config: ConfigArgument,
    builders: Annotated[
        int | None,
        typer.Option(min=1, help="Build processes; by default those that `run` would start here."),
    ] = None,
    devices: DevicesOption = 1,
    json: JsonOption = None,
) -> None:
    """Estimate what a campaign takes, before any time is spent on it. Needs no device.

    Example: `costmodel collect plan configs/sm-budgets.toml --builders 16`
    """
    from costmodel.collect import CampaignConfig, default_builders, estimate_campaign

    campaign = CampaignConfig.load(config)
    count = builders or default_builders(devices)
    estimate = estimate_campaign(campaign, builders=count, devices=devices)
    table = titled_table(f"{config}, {count} build processes, {devices} device(s)")
    table.add_column("what")
    table.add_column("estimate", justify="right")
    for what, value in (
        ("workloads", f"{estimate.workloads:,}"),
        ("kernels", f"{estimate.kernels:,}"),
        ("measurements", f"{estimate.measurements:,}"),
        ("drawing and building", duration(estimate.build_s)),
        ("on the device", duration(estimate.device_s)),
        ("in all, as both overlap", duration(estimate.total_s)),
    ):
        table.add_row(what, value)
    console.print(table)
    write_json(json, estimate)


@app.command()
def run(
    config: ConfigArgument,
    out: Annotated[
        Path,
        typer.Option(help="Folder for the measurements. A campaign that was stopped goes on in its folder."),
    ],
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Stop cleanly after this time; the config's limit by default.",
            show_default=False,
        ),
    ] = None,
    devices: DevicesOption = 1,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Measure the candidates that the campaign in this folder drew, and draw none.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also build a dataset of all that is measured then.", show_default=False
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Measure what is missing of a campaign.

    Measurements go to `OUT/measurements.jsonl` as they are made. A killed campaign loses at most the
    measurements in flight: run the same command again and it goes on.

    Examples:
    - `costmodel collect run configs/cpu-laptop.toml --out out/cpu --dataset out/data` measures on this CPU
      for at most four minutes, and builds a dataset.
    - `costmodel collect run configs/sm-budgets.toml --out out/h100 --time-limit 600` measures on a GPU for
      ten minutes.
    - `costmodel collect run configs/sm-budgets.toml --out out/h200 --candidates out/h100` measures the same
      kernels on another one.
    """
    from costmodel.collect import Campaign, CampaignConfig, CampaignFolder
    from costmodel.dataset import build_dataset
    from costmodel.search import propose_candidates

    campaign, folder = CampaignConfig.load(config), CampaignFolder(out)
    folder.claim(campaign)
    if candidates:
        folder.copy_proposals(CampaignFolder(candidates))
    with _open_runner(campaign, folder.kernels, devices) as runner, progress() as bar:
        console.print(runner.description)
        task = bar.add_task("measuring", total=campaign.measurements)
        log = ProgressLog("measured", campaign.measurements)

        def show(measurement: "Measurement") -> None:
            bar.update(task, advance=1, description=measurement.candidate.workload.name)
            log.advance()

        draw = None if candidates else propose_candidates
        report = Campaign(campaign, runner, folder, draw).run(time_limit_s=time_limit, on_measurement=show)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    state = "Finished" if report.finished else "Stopped at the time limit; run the same command to go on"
    console.print(f"{state}: {report.measured} measured now, {report.stored} in {folder.store} ({outcomes}).")
    if dataset:
        built = build_dataset([folder.store], dataset, header=_card_header(config, runner.description))
        console.print(f"{dataset}: {built.measurements:,} measurements, sha256 {built.sha256[:16]}")
    write_json(json, {**{f: getattr(report, f) for f in report.__struct_fields__}, "store": folder.store})


@app.command()
def status(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a campaign.", show_default=False)],
    json: JsonOption = None,
) -> None:
    """Tell what is missing of a campaign. Needs no device, and a running campaign is not disturbed.

    Example: `costmodel collect status out/h100`
    """
    from costmodel.collect import CampaignFolder, campaign_status

    found = campaign_status(CampaignFolder(out))
    table = titled_table(f"{out}: {found.measured:,} of {found.expected:,} first visits")
    table.add_column("workload")
    for name in ("rounds", "kernels", "measured", "missing", "repeats", "failed"):
        table.add_column(name, justify="right")
    for w in found.workloads:
        failed = sum(w.outcomes.values()) - w.outcomes.get("ok", 0)
        missing = max(0, w.expected - w.measured)
        table.add_row(w.workload, *map(str, (w.rounds, w.kernels, w.measured, missing, w.repeats, failed)))
    console.print(table)
    write_json(json, found)


def _card_header(config: Path, measured_on: str) -> "CardHeader":
    """What a card says of a campaign whose author wrote none."""
    from costmodel.dataset import CardHeader

    return CardHeader(
        title=f"{config.stem}: kernels on parts of a device",
        summary=f"{measured_on} Latencies of TVM MetaSchedule kernels, each on every budget of a campaign.",
        method=f"Made by `costmodel collect run {config.name}`; how is in the documentation of costmodel.",
        limits="- Not described by its author.",
        licence="not given",
        citation="Not given.",
    )


def _open_runner(campaign: "CampaignConfig", kernels: Path, devices: int) -> "CudaRunner | CpuRunner":
    from costmodel.collect import CpuRunner, CudaRunner

    runner = CudaRunner if campaign.runner == "cuda" else CpuRunner
    return runner(timing=campaign.timing, kernels=kernels, devices=devices)
