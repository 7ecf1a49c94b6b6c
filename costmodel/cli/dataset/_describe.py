"""``costmodel dataset describe``: what a dataset holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table

from costmodel.cli._options import DatasetArgument, JsonOption, output_option
from costmodel.cli._output import print_line, print_table, titled_table, write_json
from costmodel.progress import track

if TYPE_CHECKING:
    from costmodel.dataset import TextTable


def describe(
    dataset: DatasetArgument = None,
    json: JsonOption = None,
    plots: Annotated[
        Path | None,
        output_option(metavar="DIR", help="Also write the pictures of the card there.", show_default=False),
    ] = None,
) -> None:
    """Describe a dataset: counts, noise, and what a choice made for the whole device costs on fewer SMs.

    Examples:
    - `costmodel dataset describe datasets/mine --plots out`
    """
    from costmodel.dataset import Describer, dataset_hash, find_dataset, summary_tables, write_plots

    path = find_dataset(dataset)
    sha256 = dataset_hash(path)
    describer = Describer.of(path, track)
    description = describer.description()
    print_line(f"{path} (sha256 {sha256[:16]})")
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
