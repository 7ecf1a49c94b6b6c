"""``costmodel dataset export``: a dataset as files of other programs."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import JsonOption, output_option
from costmodel.cli._output import print_line, write_json
from costmodel.cli.dataset._arguments import DatasetPath
from costmodel.report._progress import track

if TYPE_CHECKING:
    from costmodel.dataset._export_files import ExportReport


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
