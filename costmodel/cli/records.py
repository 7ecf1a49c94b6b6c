"""``costmodel records``: carry measurements from store to store, and forget some."""

from collections import Counter
from collections.abc import Mapping
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
_KernelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Only of this workload or kind of workload; `*` stands for any letters.",
        show_default=False,
    ),
]
_STORE_HELP = "Record store: a `.jsonl` or `.db` file, or the URL of a database."


@app.callback()
def _group() -> None:
    """Carry measurements from one record store to another, or forget some, so that they are made again."""


@app.command()
def forget(
    store: Annotated[str, typer.Argument(metavar="STORE", help=_STORE_HELP)],
    kernel: _KernelOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only of configs with this decision. Repeatable.",
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

    In a database they stay, as forgotten records.

    The next run that needs them makes them again.

    Examples:
    - `costmodel records forget timings.jsonl --kernel "triton.matmul*" --config BLOCK_M=128`
    - `costmodel records forget out/gpu/measurements.jsonl --outcome timeout --older-than 30 --dry-run`
    """
    from costmodel.records._forget import forget_records

    found = forget_records(
        store,
        kernel=kernel,
        config=_named(config, "--config"),
        outcome=outcome,
        passing=passing,
        older_than=None if older_than is None else timedelta(days=older_than),
        dry_run=dry_run,
    )
    _print_forgotten(found, dry_run)
    write_json(json, {"forgotten": len(found.measurements), "kept": found.kept, "moved_to": found.moved_to})


@app.command("export")
def export_(
    store: Annotated[str, typer.Argument(metavar="STORE", help=_STORE_HELP)],
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="New `.jsonl` file to write.")],
    *,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only of devices with this in their name.", show_default=False),
    ] = None,
    kernel: _KernelOption = None,
    software: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VERSION", help="Only made with this version. Repeatable.", show_default=False
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Write the measurements of a store that meet all criteria to a file that an image can carry.

    Examples:
    - `costmodel records export timings.jsonl h100.jsonl --device H100 --software driver=580.159`
    - `costmodel records export postgresql://host/tuning all.jsonl`
    """
    from costmodel.records._bundle import describe_place, export_bundle

    found = export_bundle(
        store, bundle, device=device, kernel=kernel, software=_named(software, "--software")
    )
    places = Counter(describe_place(each.platform) for each in found)
    _print_places(f"{bundle}, measurements: {len(found)}", places)
    write_json(json, {"measurements": len(found), "places": places})


@app.command("import")
def import_(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="What `export` wrote, or another store.")],
    store: Annotated[str, typer.Argument(metavar="STORE", help=_STORE_HELP)],
    json: JsonOption = None,
) -> None:
    """Add the measurements of a file to a store; those that it has already are not added twice.

    Timings count where device, driver and compiler are those that they were made with.

    Examples:
    - `costmodel records import h100.jsonl ~/.cache/costmodel/triton.jsonl`
    - `costmodel records import h100.jsonl postgresql://host/tuning`
    """
    from costmodel.records._bundle import import_bundle

    found = import_bundle(bundle, store)
    _print_places(f"{store}, new: {found.added}, known: {found.known}", found.places)
    write_json(json, found._asdict())


def _print_places(title: str, places: Mapping[str, int]) -> None:
    rows = [(place, str(number)) for place, number in sorted(places.items())]
    print_table(TextTable(title, ("measured on", "measurements"), rows, "wr"))


def _named(texts: list[str] | None, option: str) -> dict[str, str]:
    """Values by name, of an option that is given as NAME=VALUE."""
    named: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"It must be NAME=VALUE, but got {text!r}.", param_hint=option)
        named[name] = value
    return named


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
