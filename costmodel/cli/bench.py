"""``costmodel bench``: a benchmark of cost models under SM budgets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import CommandGroup, JsonOption, count_option, output_option
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.benchmark._run import BenchRun

app = CommandGroup()
_SALT = "costmodel-bench-1"
SaltOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Salt of the split; another one holds out other kernels.")
]
TrackOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="`rank`, `latency`, `budget`, `device`, `few` or `harm`. Repeatable.",
        show_default="all",
    ),
]


@app.callback()
def _group() -> None:
    """Compare cost models on questions that none has seen, write these as files, and check submissions."""


@app.command()
def run(
    track: TrackOption = None,
    entry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="An entry, a registered learner, a file of predictions or of a trained model. Repeatable.",
            show_default="all that come with the benchmark",
        ),
    ] = None,
    salt: SaltOption = _SALT,
    seeds: Annotated[
        int | None,
        count_option(help="Most runs of entries that draw at random.", show_default="as many as each says"),
    ] = None,
    json: JsonOption = None,
    out: Annotated[
        Path | None,
        output_option(
            metavar="FILE.md", help="Also write the tables to this file in Markdown.", show_default=False
        ),
    ] = None,
) -> None:
    """Let entries answer the questions, and judge them by what was measured.

    No entry sees an answer. The same data, entries, salt and versions give the same bytes of --json.

    Examples:
    - `costmodel bench run --track rank`
    - `costmodel bench run --track rank --entry xgboost --entry predictions.parquet`
    - `costmodel bench run --json sheet.json --out table.md`
    """
    from costmodel.benchmark._run import run_benchmark
    from costmodel.files import write_whole

    found = run_benchmark(track or (), entry or (), salt=salt, seeds=seeds)
    for table in found.sheet.tables():
        print_table(table)
    _print_seconds(found)
    if json:
        found.sheet.write(json)
    if out:
        write_whole(out, found.sheet.to_markdown().encode())
        print_line(f"Written: {out}")


@app.command()
def tasks(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into.")],
    track: TrackOption = None,
    salt: SaltOption = _SALT,
    json: JsonOption = None,
) -> None:
    """Write the questions as files, for models in any language; there is no answer in them.

    Each question has known.parquet, to learn from, and asked.parquet, to predict.

    Examples:
    - `costmodel bench tasks out/tasks --track rank`
    """
    from costmodel.benchmark._submission import write_tasks

    written = write_tasks(folder, track or (), salt)
    for path in written:
        print_line(f"Written: {path}")
    write_json(json, {"written": written})


@app.command()
def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Predictions (.parquet or .csv), or a trained model.")
    ],
    salt: SaltOption = _SALT,
    json: JsonOption = None,
) -> None:
    """Check a submission, and refuse one that leaks.

    Ids must be exactly those that are asked, numbers finite; predictions must not be the answers, and a model
    must not have learned from a workload that is asked.

    Examples:
    - `costmodel bench verify predictions.parquet`
    """
    from costmodel.benchmark._submission import verify as verify_submission

    found = verify_submission(file, salt)
    print_line(f"Accepted: {found.name} answers {', '.join(found.questions)}.")
    print_line(f"Whole tracks: {', '.join(found.tracks) or 'none'}.")
    write_json(json, found)


@app.command()
def seal(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Folder, Parquet file or name.")],
    published: Annotated[
        str | None,
        typer.Option(
            "--published", metavar="HASH", help="Refuse a dataset of another hash.", show_default=False
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Print the hash of a dataset's rows, to publish it before the data.

    Examples:
    - `costmodel bench seal datasets/mine`
    """
    from costmodel.benchmark._submission import seal as seal_dataset

    found = seal_dataset(dataset, published)
    print_line(found)
    write_json(json, {"dataset": dataset, "sha256": found})


@app.command()
def table(
    sheet: Annotated[Path, typer.Argument(metavar="SHEET", help="What `bench run --json` wrote.")],
    out: Annotated[
        Path | None,
        output_option(metavar="FILE.md", help="Also write it to this file in Markdown.", show_default=False),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Print the tables of a score sheet.

    Examples:
    - `costmodel bench table experiments/benchmark/sheet.json`
    """
    from costmodel.benchmark._sheet import ScoreSheet
    from costmodel.files import write_whole

    read = ScoreSheet.read(sheet)
    for each in read.tables():
        print_table(each)
    if out:
        write_whole(out, read.to_markdown().encode())
        print_line(f"Written: {out}")
    if json:
        read.write(json)


def _print_seconds(found: "BenchRun") -> None:
    rows = [(name, f"{seconds:.1f}") for name, seconds in found.seconds.items()]
    print_table(TextTable("Seconds to learn and to answer", ("entry", "seconds"), rows))
