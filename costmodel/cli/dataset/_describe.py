"""``costmodel dataset describe``: what a dataset holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

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
    from costmodel.report._table import TextTable


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
    from costmodel.dataset.publish._plots import write_plots
    from costmodel.dataset.publish._summary import summary_tables
    from costmodel.dataset.table._files import dataset_hash
    from costmodel.dataset.table._locate import find_dataset

    path = find_dataset(dataset)
    sha256 = dataset_hash(path)
    options = read_options(platform, columns, workload, problem_size)
    describer, rejected = describe_file(path, options, track=track)
    description = describer.description()
    print_line(f"{path} (sha256 {sha256[:16]})")
    if rejected:
        print_line(f"{rejected:,} records would not enter; `costmodel dataset validate` says why.")
    for table in summary_tables(description):
        if table.rows:
            print_table(_rich_table(table))
    if plots:
        write_plots(description, describer.shifts, plots)
    write_json(json, {"path": path, "sha256": sha256, "description": description})


def _rich_table(table: "TextTable") -> Table:
    """The table for the terminal; names stand to the left, numbers to the right."""
    rich_table = titled_table(table.title)
    for name in table.header:
        rich_table.add_column(name, justify="left" if name in (table.header[0], "worst on") else "right")
    for row in table.rows:
        rich_table.add_row(*row)
    return rich_table
