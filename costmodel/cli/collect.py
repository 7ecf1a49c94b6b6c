"""``costmodel collect``: measure kernels on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from costmodel.cli._output import JsonOption, console, progress, write_json


def collect(
    config: Annotated[
        Path, typer.Argument(help="Campaign file; see configs/ for examples.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(help="Folder for the measurements. A campaign that was stopped goes on in its folder."),
    ],
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop cleanly after this time.", show_default=False),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Measure the kernels of a campaign, on every SM budget that it names.

    Measurements go to `OUT/measurements.jsonl` one by one. A killed campaign loses at most the measurement in
    flight: run the same command again and it goes on.

    Examples:
    - `costmodel collect configs/cpu-quick.toml --out out/cpu` measures on the CPU, without a GPU.
    - `costmodel collect configs/h100-sm-budgets.toml --out out/h100 --time-limit 600` measures on an H100 for
      ten minutes.
    """
    from costmodel.collect import Campaign, CampaignConfig, CpuRunner, CudaRunner

    plan = CampaignConfig.load(config)
    with (CudaRunner if plan.runner == "cuda" else CpuRunner)(timing=plan.timing) as runner:
        console.print(runner.description)
        campaign = Campaign(plan, runner, out)
        with progress() as bar:
            task = bar.add_task("measuring", total=campaign.total)
            report = campaign.run(
                time_limit_s=time_limit if time_limit is not None else float("inf"),
                on_measurement=lambda m: bar.update(
                    task, advance=m.visit == 0, description=m.candidate.workload.name
                ),
            )
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    state = "Finished" if report.finished else "Stopped at the time limit; run the same command to go on"
    console.print(
        f"{state}: {report.measured} measured now, {report.stored} in {campaign.store_path} ({outcomes})."
    )
    write_json(
        json, {**{f: getattr(report, f) for f in report.__struct_fields__}, "store": campaign.store_path}
    )
