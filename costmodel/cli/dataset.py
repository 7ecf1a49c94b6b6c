"""``costmodel dataset``: build a dataset from record stores and foreign files, check these, describe one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from costmodel.cli._output import DatasetArgument, JsonOption, console, titled_table, write_json
from costmodel.cli.dataset_validate import validate

if TYPE_CHECKING:
    from costmodel.dataset import BuildReport, TextTable

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="markdown")
app.command()(validate)


@app.callback()
def _group() -> None:
    """Build a dataset from record stores and cache files of Kernel Tuner, check these, or describe one."""


@app.command()
def build(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Record stores, as `costmodel collect` writes them, and cache files of Kernel Tuner.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    card: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="TOML with the texts title, summary, method, limits, licence and citation."
        ),
    ],
    json: JsonOption = None,
) -> None:
    """Build a dataset: one checked parquet file with its card, pictures and checksums.

    The same records give the same bytes. Records that cannot enter go to `rejects.jsonl` with the reason.

    Examples:
    - `costmodel dataset build out/*.jsonl --out datasets/mine --card card.toml`
    - `costmodel dataset build caches/*.json.gz --out datasets/convolution --card card.toml`
    """
    from costmodel.dataset import build_dataset, read_card_header

    report = build_dataset(files, out, header=read_card_header(card))
    _print_report(report)
    write_json(json, report)


@app.command()
def describe(
    dataset: DatasetArgument = None,
    json: JsonOption = None,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write the pictures of the card there.", show_default=False),
    ] = None,
) -> None:
    """Describe a dataset: counts, noise, and what a choice made for the whole device costs on fewer SMs.

    Examples:
    - `costmodel dataset describe datasets/mine --plots out`
    """
    from costmodel import dataset as room

    path = dataset or room.shipped_dataset()
    loaded = room.load_dataset(path)
    description = room.describe(loaded)
    sha256 = room.dataset_hash(path)
    console.print(f"{path} (sha256 {sha256[:16]})", soft_wrap=True, highlight=False)
    for table in room.summary_tables(description):
        console.print(_rich_table(table))
    if plots:
        room.write_plots(loaded, description, plots)
    write_json(json, {"path": path, "sha256": sha256, "description": description})


def _rich_table(table: "TextTable") -> Table:
    """The table for the terminal. Where that is narrow, names fold and numbers stay whole."""
    rich_table = titled_table(table.title)
    for name, cells in zip(table.header, zip(*table.rows, strict=True), strict=True):
        is_name = name in (table.header[0], "worst on")
        words = [] if is_name else [*cells, *name.split()]
        rich_table.add_column(
            name,
            justify="left" if is_name else "right",
            overflow="fold",
            min_width=max(map(len, words), default=12),
        )
    for row in table.rows:
        rich_table.add_row(*row)
    return rich_table


def _print_report(report: "BuildReport") -> None:
    console.print(
        f"{report.path}: {report.measurements:,} of {report.records:,} records, {report.duplicates:,} "
        f"dropped as duplicates, {sum(report.rejects.values()):,} rejected; sha256 {report.sha256[:16]}",
        soft_wrap=True,
        highlight=False,
    )
    for reason, count in report.rejects.items():
        console.print(f"  {count:,} rejected: {reason}", soft_wrap=True, highlight=False, markup=False)
    for finding in report.findings:
        text = f"  {finding.severity}: {finding.concerns}: {finding.message}"
        console.print(text, soft_wrap=True, highlight=False, markup=False)
