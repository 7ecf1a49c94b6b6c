"""``costmodel records``: what became of measurements in a record store."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import CommandGroup, JsonOption, number_option
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.records._forget import Forgotten

app = CommandGroup()


@app.callback()
def _group() -> None:
    """Forget measurements of a record store, so that they are made again."""


@app.command()
def forget(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Record store, a `.jsonl` file.")],
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only of this workload or kind of workload; `*` stands for any letters.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only of configs with this decision. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="OUTCOME", help="Only with this outcome, such as `launch_error`.", show_default=False
        ),
    ] = None,
    passing: Annotated[
        bool,
        typer.Option("--passing", help="Only failures for want of memory or a device, such as old ones."),
    ] = False,
    older_than: Annotated[
        float | None,
        number_option(
            "from 0 to 36,500",
            lambda days: 0 <= days <= 36_500,
            metavar="DAYS",
            help="Only of this age, in days.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be forgotten; change nothing.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Forget the measurements that meet all criteria; they move to `STORE.forgotten.jsonl`.

    The next run that needs them makes them again.

    Examples:
    - `costmodel records forget timings.jsonl --kernel "triton.matmul*" --config BLOCK_M=128`
    - `costmodel records forget out/gpu/measurements.jsonl --outcome timeout --older-than 30 --dry-run`
    """
    from costmodel.records._forget import forget_records

    found = forget_records(
        store,
        kernel=kernel,
        config=dict(map(_decision, config or [])),
        outcome=outcome,
        passing=passing,
        older_than=None if older_than is None else timedelta(days=older_than),
        dry_run=dry_run,
    )
    _print_forgotten(found, dry_run)
    write_json(json, {"forgotten": len(found.measurements), "kept": found.kept, "moved_to": found.moved_to})


def _decision(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"It must be NAME=VALUE, but got {text!r}.", param_hint="--config")
    return name, value


def _print_forgotten(found: "Forgotten", dry_run: bool) -> None:
    count = len(found.measurements)
    if count:
        kinds = Counter((each.candidate.workload.kind, each.outcome.value) for each in found.measurements)
        rows = [(kind, outcome, str(number)) for (kind, outcome), number in sorted(kinds.items())]
        title = "to forget" if dry_run else "forgotten"
        print_table(TextTable(title, ("kernel", "outcome", "measurements"), rows, "wwr"))
    if dry_run:
        print_line(f"{count} measurements would be forgotten, {found.kept} would stay.")
    elif count:
        print_line(f"{count} measurements forgotten, now in {found.moved_to}; {found.kept} stay.")
    else:
        print_line(f"No measurement is so; all {found.kept} stay.")
