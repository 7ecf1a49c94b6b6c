"""``costmodel dataset build|merge|append``: datasets from records, files of other programs and datasets."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import JsonOption, output_option
from costmodel.cli._output import write_json
from costmodel.cli.dataset._arguments import (
    ColumnsOption,
    LowerOption,
    PlatformOption,
    ProblemSizeOption,
    WorkloadOption,
    read_options,
)
from costmodel.cli.dataset._report import print_report
from costmodel.progress import track

if TYPE_CHECKING:
    from costmodel.dataset import Partition


class PartitionBy(StrEnum):
    """Names of ``costmodel.dataset.PARTITIONS``, without importing it for the help."""

    DEVICE = "device"
    WORKLOAD = "workload"


OutOption = Annotated[Path, output_option(metavar="DIR", help="Folder to write.")]
CardOption = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="TOML with the texts title, summary, method, limits, licence and citation."
    ),
]


PartitionOption = Annotated[
    PartitionBy | None,
    typer.Option(
        metavar="WHAT",
        help="Give each device, or each workload, a folder of its own, as Hive has them: `dataset append` "
        "can add to it, and what needs one of them reads no other.",
        show_default=False,
    ),
]


def build(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Record stores, as `costmodel collect` writes them, datasets, cache files of Kernel Tuner, "
            "T4 files, JSON databases of MetaSchedule, logs of auto_scheduler, and tables in CSV or Parquet.",
        ),
    ],
    out: OutOption,
    card: CardOption,
    platform: PlatformOption = None,
    columns: ColumnsOption = None,
    workload: WorkloadOption = None,
    problem_size: ProblemSizeOption = None,
    lower_traces: LowerOption = "needed",
    partition_by: PartitionOption = None,
    json: JsonOption = None,
) -> None:
    """Build a dataset: checked measurements in Parquet with their card, pictures and checksums.

    The same records give the same bytes. Records that cannot enter go to `rejects.jsonl` with the reason.

    Examples:
    - `costmodel dataset build out/*.jsonl --out datasets/mine --card card.toml`
    - `costmodel dataset build caches/*.json.gz --out datasets/convolution --card card.toml`
    - `costmodel dataset build database_tuning_record.json --platform h100.toml --out mine --card card.toml`
    - `costmodel dataset build runs.csv --columns map.toml --out mine --card card.toml`
    - `costmodel dataset build out/*.jsonl --out datasets/mine --card card.toml --partition-by device`

    A file for `--columns`, where a text or a number is a constant and a table with `column` is a column:

        workload = "suite.gemm"
        dims = { m = "M", n = "N" }
        device = { column = "gpu", values = { "3090" = "RTX 3090" } }
        isolation = "whole"
        outcome = { column = "status", values = { "0" = "ok", "1" = "timeout" } }
        [parameters]
        block = "block_size_x"
        order = { column = "layout", type = "text" }
        tile = { column = "tile", type = "factors", separator = "x" }
        [latency]
        columns = ["run_1", "run_2"]
        unit = "ms"
    """
    from costmodel.dataset import build_dataset, read_card_header

    options = read_options(platform, columns, workload, problem_size, lower_traces=lower_traces)
    report = build_dataset(
        files,
        out,
        header=read_card_header(card),
        options=options,
        partition_by=_by(partition_by),
        track=track,
    )
    print_report(report)
    write_json(json, report)


def merge(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET", help="Folders or parquet files of datasets, or names of those that ship."
        ),
    ],
    out: OutOption,
    card: CardOption,
    partition_by: PartitionOption = None,
    json: JsonOption = None,
) -> None:
    """Merge datasets into one, with a card of its own.

    A measurement that several have enters once; where they contradict each other the earliest stays, and the
    others go to `rejects.jsonl` with the reason.

    Examples:
    - `costmodel dataset merge datasets/h100 datasets/h200 --out datasets/both --card card.toml`
    """
    from costmodel.dataset import merge_datasets, read_card_header

    report = merge_datasets(
        datasets, out, header=read_card_header(card), partition_by=_by(partition_by), track=track
    )
    print_report(report)
    write_json(json, report)


def _by(partition: PartitionBy | None) -> "Partition | None":
    return None if partition is None else partition.value
