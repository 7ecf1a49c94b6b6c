"""``costmodel experiments``: what was tracked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._experiments_report import print_comparison, print_run, print_runs
from costmodel.cli._help import CommandGroup
from costmodel.cli._options import JsonOption
from costmodel.cli._output import write_json
from costmodel.cli._tracking import ExperimentOption, Tracking, TrackingUriOption, open_tracker
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.tracking._base import RunRecord
    from costmodel.tracking._mlflow import MlflowTracker

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
    from costmodel.tracking._read import find_run

    tracker = open_tracker(tracking_uri)
    runs = _runs(tracker)
    found = find_run(runs, run)
    children = [each for each in runs if each.parent_id == found.run_id]
    files = tracker.files(found.run_id)
    print_run(found, children, files)
    write_json(json, {"run": found, "children": children, "files": files})


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN...", help=_RUN, show_default=False)],
    *,
    tracking_uri: TrackingUriOption = None,
    json: JsonOption = None,
) -> None:
    """Show the settings in which runs differ, and their metrics, side by side.

    Examples:
    - `costmodel experiments compare 3f2a 90bc`
    """
    from costmodel.tracking._read import compare_runs, find_run

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
