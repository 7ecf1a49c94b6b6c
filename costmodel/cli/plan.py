"""``costmodel plan``: what a recorded model takes, and would take if."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import JsonOption, SweepOption, count_option, number_option, output_option
from costmodel.cli._output import print_line, print_table, titled_table, write_json
from costmodel.cli._sweep_table import print_sweep

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from costmodel.planner import Plan

# How quantities of a summary are shown: label, factor, format.
_SHOWN = {
    "makespan_s": ("makespan, us", 1e6, "{:,.1f}"),
    "device_busy_s": ("device busy, us", 1e6, "{:,.1f}"),
    "device_busy_share": ("device busy, %", 100, "{:.1f}"),
    "kernels": ("kernels", 1, "{:,.0f}"),
    "launches": ("launches", 1, "{:,.0f}"),
    "streams": ("streams", 1, "{:,.0f}"),
    "critical_path_kernels_share": ("critical path: kernels and copies, %", 100, "{:.1f}"),
    "critical_path_host_share": ("critical path: host, %", 100, "{:.1f}"),
    "critical_path_gaps_share": ("critical path: gaps, %", 100, "{:.1f}"),
}


def plan(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE.json",
            help="Trace of PyTorch's profiler (export_chrome_trace; .json or .json.gz), or a kernel graph in "
            "JSON of your own.",
            show_default=False,
        ),
    ],
    *,
    what_if: Annotated[
        str,
        typer.Option(
            metavar="WHAT,...",
            help="Transforms, one after the other: scale:PATTERN=FACTOR, replace:PATTERN=SECONDS, "
            "fuse[:PATTERN], graphs[=GAP] (CUDA graphs), half[=FACTOR], optimizer[=FACTOR], "
            "streams[:SLOWDOWN]=K, sms[:RECORDED]=N, device:RECORDED=DEVICE (or =sms:N+bandwidth:GB_S).",
            show_default=False,
        ),
    ] = "",
    within: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Only what ran in an annotation of the trace, such as 'ProfilerStep*'.",
            show_default=False,
        ),
    ] = "",
    measured: Annotated[
        float | None,
        number_option(
            "above 0 and at most 1,000,000,000",
            lambda seconds: 0 < seconds <= 1e9,
            metavar="SECONDS",
            help="What the same takes without the profiler, by the host's clock: the profiler's own time "
            "is taken out.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="GPU that it was recorded on, see `costmodel devices list`; for --sweep.",
            show_default=False,
        ),
    ] = "",
    sweep: SweepOption = None,
    top: Annotated[int, count_option(help="Rows of the critical path that are shown.")] = 10,
    json: JsonOption = None,
    perfetto: Annotated[
        Path | None,
        output_option(help="Also write the timeline as JSON for ui.perfetto.dev.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        output_option(
            metavar="FILE.png",
            help="Also draw threads and streams over time, or latency over what is swept (PNG, PDF or SVG).",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output_option(metavar="FILE.html", help="Also write all of it as one page.", show_default=False),
    ] = None,
) -> None:
    """Show what a recorded model takes, and what it would take if kernels or launches were others.

    The trace becomes a graph of what waits for what, which is replayed as it is and after the transforms.
    What is wrong in the trace is counted, and not believed.

    Examples:
    - `costmodel plan trace.json.gz`
    - `costmodel plan trace.json.gz --within 'ProfilerStep*' --measured 1.83e-3 --what-if half,graphs`
    - `costmodel plan trace.json --what-if graphs,scale:gemm=0.5 --plot out/lanes.png`
    - `costmodel plan graph.json --what-if streams=4,sms:132=66 --perfetto after.json --report plan.html`
    - `costmodel plan trace.json.gz --what-if 'device:H100 SXM=H200'`
    - `costmodel plan graph.json --device 'H100 SXM' --sweep sms=64:256:16 --plot out/sms.png`
    """
    from costmodel.planner import plan as run_plan

    if sweep or device:
        if perfetto or report or not (sweep and device):
            raise typer.BadParameter(
                "--sweep and --device must be together, without --perfetto and --report."
            )
        _sweep(trace, device, sweep, what_if, within=within, measured=measured, json=json, plot=plot)
        return
    found = run_plan(trace, what_if, within=within, measured_s=measured)
    _print(found, top)
    write_json(json, found.to_dict())
    if perfetto:
        found.save_perfetto(perfetto)
        print_line(f"Written: {perfetto}")
    if plot:
        from costmodel.figures import save_figure

        save_figure(found.plot(), plot)
        print_line(f"Drawn: {plot}")
    if report:
        found.save_report(report)
        print_line(f"Written: {report}")


def _sweep(
    trace: Path,
    device: str,
    sweeps: list[str],
    what_if: str,
    *,
    within: str,
    measured: float | None,
    json: Path | None,
    plot: Path | None,
) -> None:
    from costmodel.planner import sweep_plan

    found = sweep_plan(trace, device, sweeps, what_if, within=within, measured_s=measured)
    for sentence in found.plan.inspection.sentences():
        print_line(sentence, "yellow")
    recorded = f"recorded {found.plan.before.makespan_s * 1e6:,.1f} us"
    title = f"{found.plan.name} on {found.device.name}, changed: {recorded}"
    print_sweep(title, found.table, found.names, "between")
    for sentence in found.assumptions:
        print_line(f"Assumed: {sentence}")
    write_json(json, found.to_dict())
    if plot:
        from costmodel.figures import save_figure

        save_figure(found.plot(), plot)
        print_line(f"Drawn: {plot}")


def _print(found: "Plan", top: int) -> None:
    for sentence in found.inspection.sentences():
        print_line(sentence, "yellow")
    print_table(_summary(found))
    for sentence in found.assumptions:
        print_line(f"Assumed: {sentence}")
    print_table(_critical_path(found.critical_path.by_name().head(top), found.is_changed))
    if found.is_changed:
        print_line(f"{found.speedup:.2f}x as fast as before{_between(found)}.", "bold")


def _between(found: "Plan") -> str:
    if found.ends_s is None:
        return ""
    most, least = (found.before.makespan_s / seconds for seconds in found.ends_s)
    return f", between {least:.2f}x and {most:.2f}x"


def _summary(found: "Plan") -> "Table":
    table = titled_table(f"{found.name}: {len(found.before.graph):,} tasks")
    table.add_column("")
    columns = ["before", "after"] if found.is_changed else ["before"]
    for column in columns:
        table.add_column(column if found.is_changed else "replayed", justify="right")
    values = found.summary().to_dict()
    for name, (label, factor, form) in _SHOWN.items():
        table.add_row(label, *(form.format(values[column][name] * factor) for column in columns))
    return table


def _critical_path(rows: "pd.DataFrame", is_changed: bool) -> "Table":
    table = titled_table(f"Critical path {'after' if is_changed else ''}".strip() + ", longest first")
    table.add_column("name", overflow="fold")
    table.add_column("kind")
    for name in ("tasks", "us", "%"):
        table.add_column(name, justify="right")
    for row in rows.to_dict(orient="records"):
        us, share = row["seconds"] * 1e6, 100 * row["share"]
        table.add_row(row["name"], row["kind"], f"{row['tasks']:,}", f"{us:,.1f}", f"{share:.1f}")
    return table
