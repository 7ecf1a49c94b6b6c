"""``costmodel capacity``: what more builders and more GPUs would do for tuning, simulated."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import (
    MACHINES,
    OUTPUT,
    WORK,
    JsonOption,
    count_option,
    output_option,
    seed_option,
    whole_of,
)
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.errors import shorten
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.service._simulate import Simulated

_MOST = 100_000


def capacity(
    times: Annotated[
        str,
        typer.Argument(
            metavar="TIMES",
            help="JSON file with the times of builds, measurements and proposals, or the name of a shipped "
            "one: h100 or cpu.",
        ),
    ] = "h100",
    *,
    builders: Annotated[
        str,
        typer.Option(
            metavar="N,...",
            help="Numbers of builder cores: a list, or a range such as 1:1000, which doubles at each step.",
            rich_help_panel=MACHINES,
        ),
    ] = "1:1000",
    gpus: Annotated[
        str,
        typer.Option(metavar="N,...", help="Numbers of GPUs, in the same form.", rich_help_panel=MACHINES),
    ] = "1",
    jobs: Annotated[
        int,
        count_option(
            help="Number of `tune` searches that share the machines; with --campaign, number of its "
            "workloads.",
            most=_MOST,
            rich_help_panel=WORK,
        ),
    ] = 4,
    trials: Annotated[
        int, count_option(help="Number of kernels that each measures.", most=_MOST, rich_help_panel=WORK)
    ] = 128,
    batch: Annotated[
        int | None,
        count_option(
            help="Number of kernels that a search proposes at once. Default: as in `tune`.",
            show_default=False,
            rich_help_panel=WORK,
        ),
    ] = None,
    campaign: Annotated[
        bool,
        typer.Option(
            "--campaign",
            help="Simulate one campaign with --jobs workloads, instead of --jobs searches.",
            rich_help_panel=WORK,
        ),
    ] = False,
    at_once: Annotated[
        int | None,
        count_option(
            help="Number of jobs that run at once; 1 runs them one after the other.",
            show_default="all",
            rich_help_panel=WORK,
        ),
    ] = None,
    lanes: Annotated[
        int, count_option(help="Number of kernels that each GPU measures at once.", rich_help_panel=MACHINES)
    ] = 1,
    seed: Annotated[int, seed_option("Seed for drawing from the measured times.", rich_help_panel=WORK)] = 0,
    json: JsonOption = None,
    plot: Annotated[
        Path | None,
        output_option(
            metavar="FILE.png",
            help="Also draw kernels an hour over builders (PNG, PDF or SVG).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Simulate tuning with more builders and more GPUs, from measured times.

    Times are drawn from the measured ones. Builders and GPUs serve requests in order of arrival, a search
    waits for its own results before it proposes more, and the engine hands out one job after the other.

    Examples:
    - `costmodel capacity --builders 1:256 --gpus 1,2,4 --jobs 8`
    - `costmodel capacity h100 --builders 15 --jobs 4 --at-once 1`
    - `costmodel capacity times.json --campaign --plot out/capacity.png`
    """
    from costmodel.service._simulate import plot_throughput, simulate_grid
    from costmodel.service._stage_times import CampaignWork, TuneWork, load_times

    known = load_times(times)
    work = [CampaignWork(jobs, trials)] if campaign else [TuneWork(trials, batch)] * jobs
    found = simulate_grid(
        work,
        known,
        builders=_counts(builders, "--builders"),
        gpus=_counts(gpus, "--gpus"),
        lanes=lanes,
        at_once=at_once,
        seed=seed,
    )
    what = f"a campaign of {jobs} workloads" if campaign else f"{jobs} tunes"
    print_line(f"Simulated, not run: {what}, {trials} kernels each. Times: {known.source}", "yellow")
    _print(found)
    write_json(json, {"times": known.source, "found": [one.to_dict() for one in found]})
    if plot:
        from costmodel.report._figures import save_figure

        save_figure(plot_throughput(found, f"Simulated: {what}"), plot)
        print_line(f"Drawn: {plot}")


def _counts(text: str, option: str) -> list[int]:
    """The numbers of a list, or of a range in which each is twice the one before."""
    first, colon, last = text.partition(":")
    parts = [first, last] if colon else text.split(",")
    counts = [whole_of(part) for part in parts]
    is_apart = counts == sorted(counts) if colon else len(set(counts)) == len(counts)
    if not (is_apart and all(1 <= count <= _MOST for count in counts)):
        raise typer.BadParameter(
            f"It must be whole numbers from 1 to {_MOST:,}, each once, such as 1,8,64, or a range such as "
            f"1:1000, but got {shorten(text)}.",
            param_hint=f"'{option}'",
        )
    if not colon:
        return counts
    low, high = counts
    doubled = [low << i for i in range(high.bit_length()) if low << i < high]
    return [*doubled, high]


def _print(found: "list[Simulated]") -> None:
    from costmodel.service._simulate import enough_builders

    used = ("builders\nused", "GPUs\nused", "engine\nused")
    header = ("GPUs", "builders", "kernels\nan hour", "minutes", *used, "held up by")
    rows = []
    for one in found:
        uses = [f"{100 * use:.0f} %" for use in (one.builder_use, one.gpu_use, one.engine_use)]
        rate, minutes = f"{one.kernels_per_hour:,.0f}", f"{one.seconds / 60:,.1f}"
        rows.append((str(one.gpus), str(one.builders), rate, minutes, *uses, one.limit))
    print_table(TextTable("What they come to", header, rows, "rrrrrrrl"))
    for gpus, line in groupby(found, key=lambda one: one.gpus):
        points = list(line)
        if len(points) > 1:
            print_line(
                f"{gpus} GPU{'s' if gpus > 1 else ''}: {enough_builders(points)} builders reach 95 % of what "
                f"{points[-1].builders} do, which {points[-1].limit} hold up."
            )
