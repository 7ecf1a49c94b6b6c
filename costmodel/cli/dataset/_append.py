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
from costmodel.report._progress import track


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
    from costmodel.dataset._append import append_dataset

    options = read_options(platform, columns, workload, problem_size, lower_traces=lower_traces)
    report = append_dataset(dataset, files, options=options, track=track)
    print_report(report)
    write_json(json, report)
