"""``costmodel dataset``: build a dataset from record stores and foreign files, describe one, export one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from costmodel.cli._output import DatasetArgument, JsonOption, console, titled_table, write_json
from costmodel.cli.dataset_diff import diff
from costmodel.cli.dataset_export import export
from costmodel.cli.dataset_split import split

if TYPE_CHECKING:
    from costmodel.dataset import BuildReport, TextTable

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="markdown")
app.command()(diff)
app.command()(split)

PlatformOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML that says where files were measured that do not say it: `device`, `sms`, `isolation` "
        "and [software]. A FILE with `FILE.platform.toml` beside it has its own.",
        show_default=False,
    ),
]
ColumnsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML that says which column of a table is what.", show_default=False),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="What a T4 file measured, or a workload to look for in a MetaSchedule database (needs TVM).",
        show_default=False,
    ),
]


@app.callback()
def _group() -> None:
    """Build a dataset from record stores and files of other programs; describe, split, compare, export it."""


@app.command()
def build(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Record stores, as `costmodel collect` writes them, datasets, cache files of Kernel Tuner, "
            "T4 files, JSON databases of MetaSchedule, and tables in CSV or Parquet.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    card: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="TOML with the texts title, summary, method, limits, licence and citation."
        ),
    ],
    platform: PlatformOption = None,
    columns: ColumnsOption = None,
    workload: WorkloadOption = None,
    json: JsonOption = None,
) -> None:
    """Build a dataset: one checked parquet file with its card, pictures and checksums.

    The same records give the same bytes. Records that cannot enter go to `rejects.jsonl` with the reason.

    Examples:
    - `costmodel dataset build out/*.jsonl --out datasets/mine --card card.toml`
    - `costmodel dataset build caches/*.json.gz --out datasets/convolution --card card.toml`
    - `costmodel dataset build database_tuning_record.json --platform h100.toml --out mine --card card.toml`
    - `costmodel dataset build runs.csv --columns map.toml --out mine --card card.toml`

    A file for `--columns`, where a text or a number is a constant and a table with `column` is a column:

        workload = "suite.gemm-x4096-y4096"
        device = { column = "gpu", values = { "3090" = "RTX 3090" } }
        isolation = "whole"
        outcome = { column = "status", values = { "yes" = "ok", "no" = "compile_error" } }
        [parameters]
        block = "block_size_x"
        order = { column = "layout", type = "text" }
        tile = { column = "tile", type = "factors", separator = "x" }
        [latency]
        columns = ["run_1", "run_2"]
        unit = "ms"
    """
    from costmodel.dataset import ReadOptions, build_dataset, read_card_header
    from costmodel.records import Workload

    options = ReadOptions(platform, columns, tuple(map(Workload.parse, workload or ())))
    report = build_dataset(files, out, header=read_card_header(card), options=options)
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


app.command()(export)


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
    for note in report.notes:
        console.print(f"  {note}", soft_wrap=True, highlight=False, markup=False)
