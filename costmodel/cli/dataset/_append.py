"""``costmodel dataset append``: a campaign is added to a dataset in parts."""

from pathlib import Path
from typing import Annotated

import typer

from costmodel.cli._options import JsonOption
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


def append(
    dataset: Annotated[
        Path,
        typer.Argument(metavar="DATASET", help="Folder of a dataset that was built with --partition-by."),
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="CAMPAIGN", help="What to append: files as for `dataset build`.")
    ],
    platform: PlatformOption = None,
    columns: ColumnsOption = None,
    workload: WorkloadOption = None,
    problem_size: ProblemSizeOption = None,
    lower_traces: LowerOption = "needed",
    json: JsonOption = None,
) -> None:
    """Append a campaign to a partitioned dataset. Rewrites nothing but the card.

    A measurement that the dataset has enters once. What contradicts the dataset does not enter: it goes to
    `rejects-N.jsonl` with the reason. A command that is killed leaves the dataset as it was, or appended to.

    Examples:
    - `costmodel dataset append datasets/mine out/second/measurements.jsonl`
    """
    from costmodel.dataset import append_dataset

    options = read_options(platform, columns, workload, problem_size, lower_traces=lower_traces)
    report = append_dataset(dataset, files, options=options, track=track)
    print_report(report)
    write_json(json, report)
