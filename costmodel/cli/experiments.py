"""``costmodel experiments``: what was tracked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from costmodel.cli._options import CommandGroup, JsonOption
from costmodel.cli._output import print_line, print_markdown, print_table, titled_table, write_json
from costmodel.cli._tracking import ExperimentOption, Tracking, TrackingUriOption, open_tracker
from costmodel.errors import CostModelError
from costmodel.report._page import TextTable
from costmodel.report._progress import duration

if TYPE_CHECKING:
    from costmodel.tracking._base import Comparison, Difference, RunRecord
    from costmodel.tracking._mlflow import MlflowTracker


_COLOURS = {"FINISHED": "green", "RUNNING": "blue", "FAILED": "red", "KILLED": "yellow"}
# Digits of a run's id that are shown; each command takes as many as tell it from others.
SHOWN_ID = 8


def print_runs(runs: "Sequence[RunRecord]") -> None:
    """Print runs, a table an experiment, the newest first, each with those below it.

    The last column is a run's most telling metric, or what ended it.
    """
    for experiment in dict.fromkeys(run.experiment for run in runs):
        _print_experiment(experiment, [run for run in runs if run.experiment == experiment])


def print_run(run: "RunRecord", children: "Sequence[RunRecord]", files: Mapping[str, int]) -> None:
    """Print all of a run: what it is, its settings, metrics, datasets, files and the runs below it."""
    print_line(f"{run.name}, run {run.run_id} of experiment {run.experiment}", "bold")
    took = f", took {_took(run)}" if run.ended_at else ""
    print_line(f"{run.status.lower()}, started {_started(run)} UTC{took}", _COLOURS[run.status])
    if run.note:
        print_markdown(run.note)
    _print_pairs("Parameters", run.parameters)
    _print_pairs("Metrics", {name: _number(value) for name, value in run.metrics.items()})
    _print_pairs("Tags", run.tags)
    for used in run.datasets:
        counts = ", ".join(f"{name} {count}" for name, count in used.profile.items())
        _print_pairs(
            f"Dataset for {used.context}",
            {"name": used.name, "sha256": f"{used.digest}...", "source": used.source, "counts": counts},
        )
    _print_pairs("Files", {path: f"{size:,} bytes" for path, size in files.items()})
    if children:
        print_runs(children)


def print_comparison(found: "Comparison") -> None:
    """Print what differs between runs, a column each."""
    for title, differences in (
        ("Parameters that differ", found.parameters),
        ("Where they ran, what differs", found.tags),
        ("Metrics", found.metrics),
    ):
        if differences:
            print_table(_side_by_side(title, found.runs, differences))
    if not found.parameters:
        print_line("Their parameters are the same.")


def _print_experiment(experiment: str, runs: "Sequence[RunRecord]") -> None:
    table = titled_table(f"{experiment}: {len(runs)} runs" if len(runs) > 1 else f"{experiment}: 1 run")
    for name in ("run", "status", "started (UTC)", "took"):
        table.add_column(name)
    table.add_column("name", overflow="fold")
    table.add_column("result", overflow="fold")
    ids = {run.run_id for run in runs}
    for top in (run for run in runs if run.parent_id not in ids):
        _add(table, top, "")
        for child in (run for run in reversed(runs) if run.parent_id == top.run_id):
            _add(table, child, "  ")
    print_table(table)


def _add(table: Table, run: "RunRecord", indent: str) -> None:
    headline = run.tags.get("headline", "")
    value = run.metrics.get(headline)
    result = run.tags.get("ended_by", "" if value is None else f"{headline} {_number(value)}")
    table.add_row(
        run.run_id[:SHOWN_ID], _status(run), _started(run), _took(run), f"{indent}{run.name}", result
    )


def _status(run: "RunRecord") -> Text:
    return Text(run.status.lower(), style=_COLOURS[run.status])


def _started(run: "RunRecord") -> str:
    return f"{run.started_at:%Y-%m-%d %H:%M:%S}"


def _took(run: "RunRecord") -> str:
    return duration((run.ended_at - run.started_at).total_seconds()) if run.ended_at else ""


def _print_pairs(title: str, pairs: Mapping[str, str]) -> None:
    if pairs:
        print_table(TextTable(title, ("", ""), list(pairs.items()), "lw"))


def _side_by_side(title: str, runs: "Sequence[RunRecord]", differences: "Sequence[Difference]") -> Table:
    table = titled_table(title)
    table.add_column("", style="bold")
    for run in runs:
        table.add_column(f"{run.run_id[:SHOWN_ID]}\n{run.name}", justify="right", overflow="fold")
    for difference in differences:
        table.add_row(difference.name, *map(_cell, difference.values))
    return table


def _cell(value: str | float | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    """A number with four digits or more; a whole number as it is."""
    return f"{value:,.0f}" if value == round(value) else f"{value:.4g}"


app = CommandGroup()

_RUN = "Id of a run, or as much of its beginning as tells it from others."
OneExperimentOption = Annotated[
    str | None,
    typer.Option("--experiment", metavar="NAME", help="Only runs of this experiment.", show_default="all"),
]


@app.callback()
def _group() -> None:
    """List, show and compare tracked runs, or log the results of a script as a run."""


@app.command("list")
def list_(
    *, experiment: OneExperimentOption = None, tracking_uri: TrackingUriOption = None, json: JsonOption = None
) -> None:
    """List the runs, newest first, with their child runs and how they ended.

    A run whose process is gone is marked as killed.

    Examples:
    - `costmodel experiments list`
    - `costmodel experiments list --experiment evaluate --tracking-uri http://localhost:5000`
    """
    runs = _runs(open_tracker(tracking_uri), experiment)
    print_runs(runs)
    write_json(json, runs)


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help=_RUN, show_default=False)],
    *,
    tracking_uri: TrackingUriOption = None,
    json: JsonOption = None,
) -> None:
    """Show a run: settings, metrics, environment, datasets, files and child runs.

    Examples:
    - `costmodel experiments show 3f2a`
    """
    from costmodel.tracking._base import find_run

    tracker = open_tracker(tracking_uri)
    runs = _runs(tracker)
    found = find_run(runs, run)
    children = [each for each in runs if each.parent_id == found.run_id]
    files = tracker.files(found.run_id)
    print_run(found, children, files)
    write_json(json, {"run": found, "children": children, "files": files})


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help=_RUN, show_default=False)],
    *,
    tracking_uri: TrackingUriOption = None,
    json: JsonOption = None,
) -> None:
    """Show the settings in which runs differ, and their metrics, side by side.

    Examples:
    - `costmodel experiments compare 3f2a 90bc`
    """
    from costmodel.tracking._base import compare_runs, find_run

    known = _runs(open_tracker(tracking_uri))
    found = compare_runs([find_run(known, run) for run in runs])
    print_comparison(found)
    write_json(json, found)


@app.command()
def log(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with a result.json.", show_default=False)
    ],
    *,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the run.", show_default="name of the folder")
    ] = None,
    experiment: ExperimentOption = None,
    tracking_uri: TrackingUriOption = None,
) -> None:
    """Log the results of a script as a run, next to the tracked runs.

    Numbers in `result.json` become metrics, `config.toml` becomes parameters, README and pictures are kept.

    Examples:
    - `costmodel experiments log experiments/budget_curves`
    """
    from costmodel.tracking._describe import describe_folder

    items = list(describe_folder(folder))  # before a run begins: a folder without results makes none
    tracking = Tracking(True, tracking_uri, experiment or "experiments")
    with tracking.run(name or folder.resolve().name, {}) as run:
        run.log(items)


def _runs(tracker: "MlflowTracker", experiment: str | None = None) -> "list[RunRecord]":
    """The runs that are kept.

    Raises:
        CostModelError: There are none.
    """
    runs = tracker.runs(experiment)
    if not runs:
        where = f"{tracker.uri} must hold runs" + (f" of experiment {experiment}" if experiment else "")
        raise CostModelError(
            f"{where}, but there are none. Track one, as with `costmodel evaluate --track`, or name another "
            "place with --tracking-uri."
        )
    return runs
