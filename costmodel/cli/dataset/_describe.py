"""``costmodel dataset describe|diff|validate``: what datasets hold, and what is wrong with files."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from costmodel.cli._options import JsonOption, output_option
from costmodel.cli._output import print_line, print_table, titled_table, write_json
from costmodel.cli.dataset._arguments import (
    ColumnsOption,
    PlatformOption,
    ProblemSizeOption,
    WorkloadOption,
    read_options,
)
from costmodel.report._page import TextTable
from costmodel.report._progress import track

if TYPE_CHECKING:
    from costmodel.dataset.checks._check import Finding
    from costmodel.dataset.checks._examine import Examination
    from costmodel.dataset.publish._diff import Diff


def describe(
    dataset: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATASET",
            help="Folder or Parquet file of a dataset, the name of a shipped one, or a file that `costmodel "
            "dataset build` reads, such as a record store. Default: h100-sm-budgets.",
            show_default=False,
        ),
    ] = None,
    platform: PlatformOption = None,
    columns: ColumnsOption = None,
    workload: WorkloadOption = None,
    problem_size: ProblemSizeOption = None,
    json: JsonOption = None,
    plots: Annotated[
        Path | None,
        output_option(
            metavar="DIR", help="Also write the pictures of the card to this folder.", show_default=False
        ),
    ] = None,
) -> None:
    """Describe a dataset: counts, noise, and the cost on fewer SMs of choosing for the whole device.

    For a file that is not a dataset yet, describe the measurements that would enter one.

    Examples:
    - `costmodel dataset describe datasets/mine --plots out`
    - `costmodel dataset describe out/measurements.jsonl`
    """
    from costmodel.dataset._build import describe_file
    from costmodel.dataset.publish._card import summary_tables
    from costmodel.dataset.publish._plots import write_plots
    from costmodel.dataset.table._files import find_dataset, hash_dataset

    path = find_dataset(dataset)
    sha256 = hash_dataset(path)
    options = read_options(platform, columns, workload, problem_size)
    describer, rejected = describe_file(path, options, track=track)
    description = describer.description()
    print_line(f"{path} (sha256 {sha256[:16]})")
    if rejected:
        print_line(f"{rejected:,} records would not enter; `costmodel dataset validate` says why.")
    for table in summary_tables(description):
        if table.rows:
            left = (table.header[0], "worst on")
            print_table(replace(table, form="".join("l" if name in left else "r" for name in table.header)))
    if plots:
        write_plots(description, describer.shifts, plots)
    write_json(json, {"path": path, "sha256": sha256, "description": description})


def diff(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="FIRST", help="Folder or Parquet file of a dataset, or the name of a shipped one."
        ),
    ],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Dataset to compare it with.")],
    json: JsonOption = None,
) -> None:
    """Compare two datasets: measurements that only one of them has, and measurements that differ.

    Exits with 1 if they differ, as `diff` does.

    Examples:
    - `costmodel dataset diff datasets/mine out/rebuilt`
    """
    from costmodel.dataset.publish._diff import diff_datasets
    from costmodel.dataset.table._files import hash_dataset

    found = diff_datasets(first, second, track)
    _print(found, first, second)
    write_json(
        json,
        {
            "first": {"path": first, "sha256": hash_dataset(first)},
            "second": {"path": second, "sha256": hash_dataset(second)},
            "diff": found,
        },
    )
    if not found.is_empty:
        raise typer.Exit(1)


def _print(found: "Diff", first: Path, second: Path) -> None:
    header = ("workload", "first only", "second only", "equal", "changed", "second / first")
    rows = []
    for w in found.workloads:
        counts = (f"{count:,}" for count in (w.left, w.right, w.equal, w.changed))
        rows.append((w.workload, *counts, f"{w.ratio:.4f}" if w.ratio == w.ratio else "-"))
    print_table(TextTable(f"{first} and {second}", header, rows))
    if found.is_empty:
        print_line("Both hold the same.")
    if found.shift.count:
        shift = found.shift
        print_line(
            f"{shift.count:,} latencies changed: median {shift.median:.2%}, 90th percentile {shift.p90:.2%}, "
            f"largest {shift.max:.2%}."
        )
    for what, changes in (("outcome", found.outcomes), ("field", found.fields)):
        if changes:
            listed = ", ".join(f"{name} {count:,}" for name, count in changes.items())
            print_line(f"By {what}: {listed}.")


_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}


def validate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Files that `costmodel dataset build` reads; they are checked together.",
        ),
    ],
    platform: PlatformOption = None,
    columns: ColumnsOption = None,
    workload: WorkloadOption = None,
    problem_size: ProblemSizeOption = None,
    json: JsonOption = None,
    quarantine: Annotated[
        Path | None,
        output_option(
            help="Also write each rejected entry with its reason: one JSON object per line, or a table if "
            "the file ends in .parquet.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Find errors in measurements from many sources, without any configuration.

    Wrong units, failures written as huge numbers, partial spaces, suites that disagree, conflicting records,
    impossible values, entries that are not read as they are written.

    Exits with 1 if there is an error: a wrong value that would enter a dataset and mislead a model. Exits
    with 2 if no measurement could enter a dataset.

    Examples:
    - `costmodel dataset validate out/*.jsonl caches/*.json.gz`
    - `costmodel dataset validate caches/*.json.gz --json findings.json --quarantine rejects.jsonl`
    """
    from costmodel.dataset.checks._check import Severity
    from costmodel.dataset.checks._examine import check_not_empty, examine, write_rejects

    examination = examine(files, read_options(platform, columns, workload, problem_size), track=track)
    _print_examination(examination)
    write_json(json, {"files": examination.files, "findings": examination.findings})
    if quarantine:
        write_rejects(examination.rejects, quarantine)
    check_not_empty(examination)
    if any(finding.severity is Severity.ERROR for finding in examination.findings):
        raise typer.Exit(1)


def _print_examination(examination: "Examination") -> None:
    """Two tables; what all paths begin with stands in the title of the first, and in no cell."""
    folders = {file.path.parent for file in examination.files}
    root = Path(os.path.commonpath(folders)) if len({path.is_absolute() for path in folders}) == 1 else Path()
    prefix = f"{root}{os.sep}" if root.name else ""
    rows = []
    for file in examination.files:
        cells = (f"{file.records:,}", f"{file.ok:,}", f"{file.rejected:,}")
        rows.append((str(file.path).removeprefix(prefix), ", ".join(file.devices), *cells))
    title = f"Files under {root}" if prefix else "Files"
    print_table(TextTable(title, ("file", "device", "records", "ok", "rejected"), rows, "llrrr"))
    if examination.findings:
        print_table(_finding_table(examination.findings, prefix))
    else:
        print_line("Nothing is wrong with them.")


def _finding_table(findings: Iterable["Finding"], prefix: str) -> Table:
    table = titled_table("Findings")
    for name in ("severity", "concerns", "count", "message"):
        is_text = name in ("concerns", "message")
        table.add_column(
            name, justify="right" if name == "count" else "left", overflow="fold" if is_text else "ellipsis"
        )
    for finding in findings:
        concerns, message = (text.replace(prefix, "") for text in (finding.concerns, finding.message))
        severity = Text(finding.severity, style=_COLOURS[finding.severity])
        table.add_row(severity, concerns, f"{finding.count:,}", message)
    return table
