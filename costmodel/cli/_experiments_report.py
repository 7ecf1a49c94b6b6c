"""What ``costmodel experiments`` prints."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from costmodel.cli._output import print_line, print_markdown, print_table, titled_table
from costmodel.report._progress import duration

if TYPE_CHECKING:
    from costmodel.tracking._base import RunRecord
    from costmodel.tracking._read import Comparison, Difference

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
    if not pairs:
        return
    table = titled_table(title)
    table.show_header = False
    table.add_column("", style="bold")
    table.add_column("", overflow="fold")
    for name, value in pairs.items():
        table.add_row(name, value)
    print_table(table)


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
