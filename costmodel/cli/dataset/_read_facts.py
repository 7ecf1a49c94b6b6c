"""``costmodel dataset read-facts``: what the kernels of a dataset do, from their intermediate code."""

from pathlib import Path
from typing import Annotated

import typer

from costmodel.cli._options import JsonOption, count_option
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.report._page import TextTable


def read_facts(
    dataset: Annotated[
        Path,
        typer.Argument(metavar="DATASET", help="Folder of a dataset, or the name of a shipped one."),
    ],
    family: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Kernel families of your own that are in the dataset: Python files, or their folders.",
            show_default=False,
        ),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="SM",
            help="Architecture to lower for, such as `sm_90`. Default: that of most platforms in it.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        count_option(
            help="Processes that read side by side. Default: one for each hardware thread.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Read what Triton and CUDA kernels of a dataset do; write `read_facts.parquet` beside its measurements.

    Loads, stores, products, loop turns, layouts, barriers and more are counted in the compiler's own
    intermediate code (Triton's two dialects, or PTX), without a GPU. What cannot be read gets a note.

    Examples:
    - `costmodel dataset read-facts datasets/mine --family my-kernels/softmax`
    """
    from costmodel.tuning._kernels import read_facts as read

    report = read(dataset, family or (), architecture=architecture, workers=workers)
    print_line(
        f"{report.read:,} kernels were read into {report.file}; of {report.guessed:,} some bounds, branches "
        "or addresses depend on data and are guessed."
    )
    if report.notes:
        rows = [(f"{count:,}", why) for why, count in report.notes.items()]
        print_table(TextTable("kernels that could not be read", ("kernels", "why"), rows, "rw"))
    write_json(json, report)
