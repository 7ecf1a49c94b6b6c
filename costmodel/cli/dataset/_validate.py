"""``costmodel dataset validate``: what is wrong with files of measurements."""

import os
from collections.abc import Iterable
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
from costmodel.report._progress import track

if TYPE_CHECKING:
    from costmodel.dataset.checks._check import Finding
    from costmodel.dataset.checks._examine import Examination

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
    _print(examination)
    write_json(json, {"files": examination.files, "findings": examination.findings})
    if quarantine:
        write_rejects(examination.rejects, quarantine)
    check_not_empty(examination)
    if any(finding.severity is Severity.ERROR for finding in examination.findings):
        raise typer.Exit(1)


def _print(examination: "Examination") -> None:
    """Two tables; what all paths begin with stands in the title of the first, and in no cell."""
    folders = {file.path.parent for file in examination.files}
    root = Path(os.path.commonpath(folders)) if len({path.is_absolute() for path in folders}) == 1 else Path()
    prefix = f"{root}{os.sep}" if root.name else ""
    counts = titled_table(f"Files under {root}" if prefix else "Files")
    for name in ("file", "device", "records", "ok", "rejected"):
        counts.add_column(name, justify="left" if name in ("file", "device") else "right")
    for file in examination.files:
        cells = (f"{file.records:,}", f"{file.ok:,}", f"{file.rejected:,}")
        counts.add_row(str(file.path).removeprefix(prefix), ", ".join(file.devices), *cells)
    print_table(counts)
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
