"""``costmodel plan``: what a model takes, and would take if."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import (
    MODEL,
    OUTPUT,
    TRACE,
    WHAT_IF,
    JsonOption,
    SweepOption,
    count_option,
    number_option,
    output_option,
)
from costmodel.cli._output import print_line, print_table, titled_table, write_json
from costmodel.cli.model import print_sweep
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from costmodel.planner._compare import ComparedRecordings
    from costmodel.planner._latencies import Latencies
    from costmodel.planner._plan import Plan, SweptPlan
    from costmodel.planner._rank import Ranking

# Names of kernels in C++ have hundreds of characters: they are broken to lines of at least so many.
_NAME_WIDTH = 40


def plan(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE|FOLDER|FILE.py:NAME",
            help="Trace of PyTorch's profiler (export_chrome_trace; .json or .json.gz), of JAX, Nsight "
            "Systems or ROCm's profilers, a folder with a trace of each rank, a kernel graph in JSON of your "
            "own, a program of torch.export, which needs no recording (model.py:program, which is run), or a "
            "Relax module: program.py:module, or module.json of tvm.ir.save_json.",
            show_default=False,
        ),
    ],
    *,
    what_if: Annotated[
        str,
        typer.Option(
            metavar="WHAT,...",
            help="Changes to apply, one after the other: scale:PATTERN=FACTOR, replace:PATTERN=SECONDS, "
            "fuse[:PATTERN], graphs[=GAP] (CUDA graphs), half[:weights][=FACTOR], optimizer[=FACTOR], "
            "streams[:SLOWDOWN]=K, sms[:RECORDED]=N, tuned[:PATTERN] (the best known kernels), "
            "unfuse[:PATTERN], channels=N (of collectives), device[:RECORDED]=DEVICE (or "
            "=sms:N+bandwidth:GB_S).",
            show_default=False,
            rich_help_panel=WHAT_IF,
        ),
    ] = "",
    within: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Use only what ran within this annotation of the trace, such as 'ProfilerStep*', or "
            "'step#3' for the third 'step'.",
            show_default=False,
            rich_help_panel=TRACE,
        ),
    ] = "",
    measured: Annotated[
        float | None,
        number_option(
            "above 0 and at most 1,000,000,000",
            lambda seconds: 0 < seconds <= 1e9,
            metavar="SECONDS",
            help="Duration of the same work without the profiler, by the host's clock, in seconds. The "
            "profiler's "
            "overhead is then removed.",
            show_default=False,
            rich_help_panel=TRACE,
        ),
    ] = None,
    sms: Annotated[
        int | None,
        count_option(
            help="Number of SMs available to the kernels of a program or module. Default: the whole device.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = None,
    learn_from: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Dataset with the latencies of recorded workloads; a model trained on it predicts the "
            "others.",
            show_default="sm-budgets",
            rich_help_panel=MODEL,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Trained model for workloads that were not recorded. Default: train one.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Device of the dataset, such as H100; of a program of torch.export any NVIDIA GPU. Default: "
            "the first of the dataset by name; H200.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = None,
    rank: Annotated[
        bool,
        typer.Option(
            "--rank",
            help="Rank the kernels to tune next by what the whole model would gain.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    out: Annotated[
        Path | None,
        output_option(
            metavar="JOBS.toml",
            help="Also write the kernels to tune next as a job for `costmodel jobs submit`.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    recorded_on: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="GPU that the trace was recorded on, for --sweep, if the trace does not say it; see "
            "`costmodel devices list`.",
            show_default=False,
            rich_help_panel=TRACE,
        ),
    ] = "",
    sweep: SweepOption = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="AFTER.json",
            help="Compare with another recording of the same work: what takes more or less time, and why.",
            show_default=False,
            rich_help_panel=TRACE,
        ),
    ] = None,
    operators: Annotated[
        bool,
        typer.Option(
            "--operators",
            help="Show time, FLOP/s, GB/s and the share of the roofline by operator.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    top: Annotated[int, count_option(help="Number of table rows to show.", rich_help_panel=OUTPUT)] = 10,
    json: JsonOption = None,
    perfetto: Annotated[
        Path | None,
        output_option(
            help="Also write the timeline as JSON for ui.perfetto.dev.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        output_option(
            metavar="FILE.png",
            help="Also plot threads and streams over time or, with --sweep, latency over the swept property "
            "(PNG, PDF or SVG).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output_option(
            metavar="FILE.html",
            help="Also write the whole result as one HTML page.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Show how long a model takes, estimate the effect of changes, and rank the kernels to tune next.

    The trace becomes a dependency graph, which is replayed unchanged and after the changes of --what-if.
    Errors in the trace are counted and ignored. A kernel of a Relax module takes the recorded latency of the
    best kernel of its workload, or the latency that a model predicts.

    Examples:
    - `costmodel plan trace.json.gz`
    - `costmodel plan trace.json.gz --within 'ProfilerStep*' --measured 1.83e-3 --what-if half,graphs`
    - `costmodel plan trace.json --what-if graphs,scale:gemm=0.5 --plot out/lanes.png`
    - `costmodel plan graph.json --what-if streams=4,sms:132=66 --perfetto after.json --report plan.html`
    - `costmodel plan model.py:program --device H200 --sms 32 --what-if fuse`
    - `costmodel plan model.py:module --device H200 --what-if sms=32 --rank --out out/jobs.toml`
    - `costmodel plan trace.json.gz --what-if device=H200`
    - `costmodel plan graph.json --recorded-on 'H100 SXM' --sweep sms=64:256:16 --plot out/sms.png`
    - `costmodel plan before.json --against after.json --plot out/causes.png`
    """
    from costmodel.planner._operators import OPERATOR_COLUMNS, shown_operators
    from costmodel.planner._plan import plan as run_plan
    from costmodel.planner._plan import sweep_plan
    from costmodel.planner.graphs._exported import DEFAULT_DEVICE, LibraryLatencies, find_exported
    from costmodel.planner.graphs._json_graph import is_module_place

    if against:
        others = (what_if, measured, sms, learn_from, model, device, rank, out, sweep, recorded_on)
        if any((*others, operators, perfetto, report)):
            raise typer.BadParameter("--against goes with --within, --top, --json and --plot alone.")
        _show_comparison(trace, against, within, top, json, plot)
        return
    latencies: Latencies | None
    if find_exported(trace) is None:
        latencies = _opened(
            learn_from, model, device, is_needed=rank or out is not None or is_module_place(trace)
        )
    elif any((learn_from, model, within, measured, rank, out, recorded_on)):
        raise typer.BadParameter(
            "A program of torch.export goes without --learn-from, --model, --within, --measured, "
            "--recorded-on, --rank and --out."
        )
    else:
        latencies = LibraryLatencies(device or DEFAULT_DEVICE)
    if sweep or recorded_on:
        if perfetto or report or rank or out or not sweep:
            raise typer.BadParameter(
                "--recorded-on goes with --sweep, and both without --perfetto, --report, --rank and --out."
            )
        swept = sweep_plan(
            trace,
            recorded_on,
            sweep,
            what_if,
            within=within,
            measured_s=measured,
            sms=sms,
            latencies=latencies,
        )
        _show_sweep(swept, json, plot)
        return
    found = run_plan(trace, what_if, within=within, measured_s=measured, sms=sms, latencies=latencies)
    ranking = found.rank(latencies) if latencies and (rank or out) else None
    # Files first: who reads what is printed may stop before its end.
    if json:
        write_json(json, found.to_dict() | ({"rank": ranking.to_dict()} if ranking else {}))
    written = list(_write(found, perfetto, plot, report))
    if ranking and out:
        ranking.save_job(out)
        written.append(f"Written: {out}. To submit it: costmodel jobs submit {out}")
    _print(found, top)
    if operators:
        rows = shown_operators(found.operators.head(top))
        print_table(TextTable("Operators, longest first", OPERATOR_COLUMNS, rows, "wlrrrrrr"))
    if ranking:
        _print_ranking(ranking, top)
    for line in written:
        print_line(line)


def _write(found: "Plan", perfetto: Path | None, plot: Path | None, report: Path | None) -> Iterator[str]:
    """Write what was asked for, and say so."""
    if perfetto:
        found.save_perfetto(perfetto)
        yield f"Written: {perfetto}"
    if plot:
        _draw(found, plot)
        yield f"Drawn: {plot}"
    if report:
        found.save_report(report)
        yield f"Written: {report}"


def _draw(found: "Plan | SweptPlan | ComparedRecordings", plot: Path) -> None:
    from costmodel.report._figures import save_figure

    save_figure(found.plot(), plot)


def _show_comparison(
    before: str, after: Path, within: str, top: int, json: Path | None, plot: Path | None
) -> None:
    from costmodel.planner._compare import CAUSES, compare_recordings

    found = compare_recordings(before, after, within=within)
    write_json(json, found.to_dict())
    if plot:
        _draw(found, plot)
    print_line(found.verdict(), "bold")
    parts = [(cause, f"{1e6 * seconds:+,.1f}") for cause, seconds in found.causes.items()]
    print_table(TextTable("What changed, us", ("cause", "us"), parts, "wr"))
    for cause, meaning in CAUSES.items():
        if found.causes[cause]:
            print_line(f"{cause}: {meaning}.")
    columns = ("kernels_before", "kernels_after")
    seconds = ("before_s", "after_s", "change_s")
    rows = [
        (
            row["group"],
            *(f"{row[name]:,}" for name in columns),
            *(f"{1e6 * row[name]:,.1f}" for name in seconds),
            max(CAUSES, key=lambda cause: abs(row[f"{cause}_s"])) if row["change_s"] else "",
        )
        for row in found.table.head(top).to_dict(orient="records")
    ]
    heads = ("operator", "kernels", "after", "us", "after", "change", "most by")
    print_table(TextTable("Operators, largest change first", heads, rows, "wrrrrrl"))
    if plot:
        print_line(f"Drawn: {plot}")


def _show_sweep(found: "SweptPlan", json: Path | None, plot: Path | None) -> None:
    write_json(json, found.to_dict())
    if plot:
        _draw(found, plot)
    for sentence in found.plan.inspection.sentences():
        print_line(sentence, "yellow")
    recorded = f"recorded {found.plan.before.makespan_s * 1e6:,.1f} us"
    title = f"{found.plan.name} on {found.device.name}, changed: {recorded}"
    print_sweep(title, found.table, found.names, "between")
    for sentence in found.assumptions:
        print_line(f"Assumed on the last device: {sentence}")
    if plot:
        print_line(f"Drawn: {plot}")


def _opened(
    learn_from: str | None, model: Path | None, device: str | None, *, is_needed: bool
) -> "Latencies | None":
    """What kernels of workloads take; None where nothing was asked that needs it."""
    from costmodel.planner._latencies import open_latencies

    asked = is_needed or any(each is not None for each in (learn_from, model, device))
    return open_latencies(learn_from, model=model, device=device) if asked else None


def _print_ranking(ranking: "Ranking", top: int) -> None:
    counted = ("SMs", "calls", "now us", "best us", "of the path %", "gain us", "gain %")
    rows = []
    for row in ranking.table.head(top).to_dict(orient="records"):
        numbers = (row["sms"], row["calls"], *(f"{1e6 * row[name]:,.1f}" for name in ("now_s", "best_s")))
        gains = (f"{1e6 * row['gain_s']:,.1f}", f"{100 * row['gain_share']:.1f}")
        share = f"{100 * row['critical_share']:.1f}"
        rows.append((row["workload"], *map(str, (*numbers, share, *gains)), row["origin"]))
    title = "What to tune next, by what the whole gains"
    print_table(TextTable(title, ("workload", *counted, "best is"), rows, "wrrrrrrrl"))
    print_line(
        f"{ranking.known_share:.0%} of the time of kernels is of these. With all of them "
        f"{1e6 * ranking.together_s:,.1f} us instead of {1e6 * ranking.makespan_s:,.1f} us."
    )
    for command in ranking.commands()[:1]:
        print_line(f"To begin: {command}")


def _print(found: "Plan", top: int) -> None:
    from costmodel.planner._ranks import RANK_COLUMNS, shown_ranks

    for sentence in found.inspection.sentences():
        print_line(sentence, "yellow")
    columns = ("", "before", "after") if found.is_changed else ("", "replayed")
    print_table(TextTable(f"{found.name}: {len(found.before.graph):,} tasks", columns, found.shown()))
    if len(found.ranks):
        print_table(TextTable("Ranks", RANK_COLUMNS, shown_ranks(found.ranks), "lrrrrr"))
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


def _critical_path(rows: "pd.DataFrame", is_changed: bool) -> "Table":
    table = titled_table(f"Critical path {'after' if is_changed else ''}".strip() + ", longest first")
    longest = int(rows["name"].str.len().max()) if len(rows) else 0
    table.add_column("name", overflow="fold", min_width=min(longest, _NAME_WIDTH))
    table.add_column("kind")
    ranks = ("rank",) if "rank" in rows else ()
    for name in (*ranks, "tasks", "us", "%"):
        table.add_column(name, justify="right")
    for row in rows.to_dict(orient="records"):
        us, share = row["seconds"] * 1e6, 100 * row["share"]
        shown = (*(str(row[each]) for each in ranks), f"{row['tasks']:,}", f"{us:,.1f}", f"{share:.1f}")
        table.add_row(row["name"], row["kind"], *shown)
    return table
