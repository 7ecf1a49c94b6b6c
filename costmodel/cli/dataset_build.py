"""``costmodel dataset build|merge``: a dataset from record stores, files of other programs and datasets."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._output import JsonOption, console, track, write_json
from costmodel.cli._read_options import ColumnsOption, PlatformOption, WorkloadOption, read_options

if TYPE_CHECKING:
    from costmodel.dataset import BuildReport, ReadOptions

OutOption = Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")]
CardOption = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="TOML with the texts title, summary, method, limits, licence and citation."
    ),
]


def build(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Record stores, as `costmodel collect` writes them, datasets, cache files of Kernel Tuner, "
            "T4 files, JSON databases of MetaSchedule, and tables in CSV or Parquet.",
        ),
    ],
    out: OutOption,
    card: CardOption,
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
    _build(files, out, card, read_options(platform, columns, workload), json)


def merge(
    datasets: Annotated[
        list[Path], typer.Argument(metavar="DATASET", help="Dataset folders or their parquet files.")
    ],
    out: OutOption,
    card: CardOption,
    json: JsonOption = None,
) -> None:
    """Merge datasets into one, with a card of its own.

    A measurement that several have enters once; where they contradict each other the earliest stays, and the
    others go to `rejects.jsonl` with the reason.

    Examples:
    - `costmodel dataset merge datasets/h100 datasets/h200 --out datasets/both --card card.toml`
    """
    from costmodel.dataset import check_dataset

    for dataset in datasets:
        check_dataset(dataset)
    _build(datasets, out, card, None, json)


def _build(
    files: Sequence[Path], out: Path, card: Path, options: "ReadOptions | None", json: Path | None
) -> None:
    from costmodel.dataset import build_dataset, read_card_header

    report = build_dataset(files, out, header=read_card_header(card), options=options, track=track)
    _print_report(report)
    write_json(json, report)


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
