"""``costmodel dataset build|merge|append|export``: datasets from files, and files from datasets."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import JsonOption, output_option
from costmodel.cli._output import print_line, write_json
from costmodel.cli.dataset._arguments import (
    ColumnsOption,
    DatasetPath,
    LowerOption,
    PlatformOption,
    ProblemSizeOption,
    WorkloadOption,
    print_report,
    read_options,
)
from costmodel.report._progress import track

if TYPE_CHECKING:
    from costmodel.dataset._export import ExportReport
    from costmodel.dataset.table._files import Partition


class PartitionBy(StrEnum):
    """Names of ``costmodel.dataset.PARTITIONS``, without importing it for the help."""

    DEVICE = "device"
    WORKLOAD = "workload"


OutOption = Annotated[Path, output_option(metavar="DIR", help="Folder of the dataset to write.")]
CardOption = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="TOML file with the texts of the card: title, summary, method, limits, licence and citation.",
    ),
]


PartitionOption = Annotated[
    PartitionBy | None,
    typer.Option(
        metavar="WHAT",
        help="Write one folder per device or per workload (Hive layout). `dataset append` can add to such a "
        "dataset, and a command that needs one of them reads no other.",
        show_default=False,
    ),
]


ForceOption = Annotated[bool, typer.Option("--force", help="Replace a dataset that is in the folder.")]


def build(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Record stores of `costmodel collect`, datasets, Kernel Tuner cache files, T4 files, "
            "MetaSchedule JSON databases, auto_scheduler logs, and CSV or Parquet tables.",
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
    force: ForceOption = False,
    json: JsonOption = None,
) -> None:
    """Build a dataset: checked measurements in Parquet, with a card, pictures and checksums.

    The same records give the same bytes. Rejected records go to `rejects.jsonl` with the reason.

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
    from costmodel.dataset._build import build_dataset
    from costmodel.dataset.publish._card import read_card_header

    options = read_options(platform, columns, workload, problem_size, lower_traces=lower_traces)
    report = build_dataset(
        files,
        out,
        header=read_card_header(card),
        options=options,
        partition_by=_by(partition_by),
        force=force,
        track=track,
    )
    print_report(report)
    write_json(json, report)


def merge(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET", help="Folders or Parquet files of datasets, or names of shipped ones."
        ),
    ],
    out: OutOption,
    card: CardOption,
    partition_by: PartitionOption = None,
    force: ForceOption = False,
    json: JsonOption = None,
) -> None:
    """Merge datasets into one, with a card of its own.

    A measurement that several datasets share is kept once. Where they contradict each other, the earliest is
    kept, and the others go to `rejects.jsonl` with the reason.

    Examples:
    - `costmodel dataset merge datasets/h100 datasets/h200 --out datasets/both --card card.toml`
    """
    from costmodel.dataset._build import merge_datasets
    from costmodel.dataset.publish._card import read_card_header

    report = merge_datasets(
        datasets,
        out,
        header=read_card_header(card),
        partition_by=_by(partition_by),
        force=force,
        track=track,
    )
    print_report(report)
    write_json(json, report)


def _by(partition: PartitionBy | None) -> "Partition | None":
    return None if partition is None else partition.value


def append(
    dataset: Annotated[
        Path,
        typer.Argument(metavar="DATASET", help="Folder of a dataset built with --partition-by."),
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="CAMPAIGN", help="Files to append, as for `dataset build`.")
    ],
    platform: PlatformOption = None,
    columns: ColumnsOption = None,
    workload: WorkloadOption = None,
    problem_size: ProblemSizeOption = None,
    lower_traces: LowerOption = "needed",
    json: JsonOption = None,
) -> None:
    """Append a campaign to a partitioned dataset. Existing files stay as they are, except for the card.

    A measurement that the dataset already has is not added again. Measurements that contradict the dataset
    go to `rejects-N.jsonl` with the reason. A killed command leaves the dataset unchanged or fully appended.

    Examples:
    - `costmodel dataset append datasets/mine out/second/measurements.jsonl`
    """
    from costmodel.dataset._build import append_dataset

    options = read_options(platform, columns, workload, problem_size, lower_traces=lower_traces)
    report = append_dataset(dataset, files, options=options, track=track)
    print_report(report)
    write_json(json, report)


class ExportFormat(StrEnum):
    """Names of ``costmodel.dataset.EXPORT_FORMATS``, without importing it for the help."""

    RECORDS = "records"
    PARQUET = "parquet"
    KERNEL_TUNER = "kernel-tuner"
    T4 = "t4"
    METASCHEDULE = "metaschedule"


def export(
    dataset: DatasetPath,
    format_name: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format to write: records, parquet, kernel-tuner, t4 or metaschedule.",
        ),
    ],
    out: Annotated[
        Path,
        output_option(
            metavar="PATH", help="New file for `records` and `parquet`, folder for the other formats."
        ),
    ],
    workload: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Export only this workload. Default: all.", show_default=False),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Export only this device. Default: all.", show_default=False),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Export a dataset, or part of it, to file formats of other programs.

    - `records`: JSON lines of costmodel, to resume measuring or to merge. Nothing is lost.
    - `parquet`: the table alone, one row a measurement. Nothing is lost.
    - `kernel-tuner`: cache files, one for each workload on each platform; an entry shows the first
      measurement of its config, and time-outs and wrong results as `RuntimeFailedConfig`. Nothing is lost:
      each entry carries costmodel's records in the field `costmodel`, which `costmodel dataset build` reads.
    - `t4`: result files of the auto-tuning community, one for each workload on each platform. Nothing is
      lost, in the same way.
    - `metaschedule`: one JSON database of TVM for each platform. Kernels of other spaces, repeats, and what
      was measured next to co-runners are left out. Lost are: which failure it was and its message, cache
      policy, kernel hash and resources, the device's states, board, attempts, runs per repeat and time.
      Needs TVM.

    Examples:
    - `costmodel dataset export datasets/mine --format t4 --out out/t4`
    - `costmodel dataset export datasets/mine --format metaschedule --out out/db --workload softmax-m512-n512`
    """
    from costmodel.dataset._export import export_dataset

    report = export_dataset(dataset, out, format_name.value, workload=workload, device=device, track=track)
    _print_report(report)
    write_json(json, report)


def _print_report(report: "ExportReport") -> None:
    print_line(f"{report.measurements:,} measurements in {len(report.files):,} files")
    for reason, count in report.left_out.items():
        print_line(f"  {count:,} left out: {reason}")
    if report.lost:
        print_line(f"  lost: {report.lost}")
