"""``costmodel dataset diff``: what two datasets have in common, and how far they disagree there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import JsonOption
from costmodel.cli._output import print_line, print_table, titled_table, write_json
from costmodel.report._progress import track

if TYPE_CHECKING:
    from costmodel.dataset.publish._diff import Diff


def diff(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="FIRST", help="Folder or Parquet file of a dataset, or the name of a shipped one."
        ),
    ],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Dataset to compare it with.")],
    json: JsonOption = None,
) -> None:
    """Compare two datasets: measurements that only one of them has, and measurements that differ.

    Exits with 1 if they differ, as `diff` does.

    Examples:
    - `costmodel dataset diff datasets/mine out/rebuilt`
    """
    from costmodel.dataset.publish._diff import diff_datasets
    from costmodel.dataset.table._files import dataset_hash

    found = diff_datasets(first, second, track)
    _print(found, first, second)
    write_json(
        json,
        {
            "first": {"path": first, "sha256": dataset_hash(first)},
            "second": {"path": second, "sha256": dataset_hash(second)},
            "diff": found,
        },
    )
    if not found.is_empty:
        raise typer.Exit(1)


def _print(found: "Diff", first: Path, second: Path) -> None:
    table = titled_table(f"{first} and {second}")
    table.add_column("workload")
    for name in ("first only", "second only", "equal", "changed", "second / first"):
        table.add_column(name, justify="right")
    for w in found.workloads:
        counts = (f"{count:,}" for count in (w.left, w.right, w.equal, w.changed))
        table.add_row(w.workload, *counts, f"{w.ratio:.4f}" if w.ratio == w.ratio else "-")
    print_table(table)
    if found.is_empty:
        print_line("Both hold the same.")
    if found.shift.count:
        shift = found.shift
        print_line(
            f"{shift.count:,} latencies changed: median {shift.median:.2%}, 90th percentile {shift.p90:.2%}, "
            f"largest {shift.max:.2%}."
        )
    for what, changes in (("outcome", found.outcomes), ("field", found.fields)):
        if changes:
            listed = ", ".join(f"{name} {count:,}" for name, count in changes.items())
            print_line(f"By {what}: {listed}.")
