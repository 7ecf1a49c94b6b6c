"""Arguments that several commands of ``costmodel dataset`` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import OTHER_DATASETS, whole_of
from costmodel.cli._output import print_line
from costmodel.errors import CostModelError, shorten

if TYPE_CHECKING:
    from costmodel.dataset._build import BuildReport
    from costmodel.dataset.sources._base import ReadOptions


DatasetPath = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET",
        help="Folder or Parquet file of a dataset, or the name of a shipped one: h100-sm-budgets, "
        f"{OTHER_DATASETS}.",
    ),
]
PlatformOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with the platform of files that do not name it: `device`, `sms`, `isolation` and "
        "[software]. A FILE with `FILE.platform.toml` next to it uses that instead.",
        show_default=False,
    ),
]
ColumnsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="TOML file that maps the columns of a table.", show_default=False),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Workload of a T4 file, or a workload to look for in a MetaSchedule database (needs TVM).",
        show_default=False,
    ),
]
LowerOption = Annotated[
    str,
    typer.Option(
        metavar="WHICH",
        help="Which traces of a MetaSchedule database TVM lowers to find what their kernels launch, "
        "about 30 ms "
        "each: needed (those of foreign and CPU kernels, which have features from nowhere else), "
        "all or none.",
    ),
]
ProblemSizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="Problem sizes, x first, for Kernel Tuner caches that do not contain them.",
        show_default=False,
    ),
]


def read_options(
    platform: Path | None,
    columns: Path | None,
    workload: list[str] | None,
    problem_size: str | None,
    *,
    lower_traces: str = "needed",
) -> "ReadOptions":
    """What files of other programs do not say.

    Raises:
        CostModelError: A value is none of those that there are.
    """
    from costmodel.dataset.sources._base import LOWER_TRACES, ReadOptions
    from costmodel.records._workload import Workload

    workloads = tuple(map(Workload.parse, workload or ()))
    sizes = _sizes(problem_size) if problem_size else ()
    for which in LOWER_TRACES:
        if which == lower_traces:
            return ReadOptions(platform, columns, workloads, sizes, which)
    raise CostModelError(f"--lower-traces must be {', '.join(LOWER_TRACES)}, but got {lower_traces!r}.")


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(map(whole_of, text.split(",")))
    if len(sizes) > 3 or min(sizes) < 1:
        raise CostModelError(
            "--problem-size must be one to three sizes from 1 with commas between them, but got "
            f"{shorten(text)!r}."
        )
    return sizes


def print_report(report: "BuildReport") -> None:
    """Print what became of the records, and what to know of them."""
    print_line(
        f"{report.path}: {report.measurements:,} of {report.records:,} records, {report.duplicates:,} "
        f"dropped as duplicates, {sum(report.rejects.values()):,} rejected; sha256 {report.sha256[:16]}",
    )
    for reason, count in report.rejects.items():
        print_line(f"  {count:,} rejected: {reason}")
    for finding in report.findings:
        print_line(f"  {finding.severity}: {finding.concerns}: {finding.message}")
