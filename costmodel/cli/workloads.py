"""``costmodel workloads``: the catalogue of workloads from networks, and how it is made."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from costmodel.cli._options import JsonOption
from costmodel.cli._output import print_table, titled_table, write_json

if TYPE_CHECKING:
    from costmodel.workloads import CatalogueEntry, Extraction

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="markdown")

Dtype = Literal["float32", "float16"]


@app.callback()
def _group() -> None:
    """List the workloads of well-known networks, or extract them from these."""


@app.command("list")
def list_workloads(
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only those of one network, such as `resnet50-n8`, or of all `resnet50`.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        Dtype | None, typer.Option(help="Only those of this element type.", show_default=False)
    ] = None,
    json: JsonOption = None,
) -> None:
    """List the workloads of well-known networks, with how often each network launches them.

    Examples:
    - `costmodel workloads list --network bert_base --dtype float16`
    """
    from costmodel.workloads import catalogue

    entries = catalogue(network, dtype)
    _print_catalogue(entries)
    write_json(json, [entry.to_dict() for entry in entries])


@app.command()
def extract(
    networks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NETWORK", help="Networks; all that there are if not given.", show_default=False
        ),
    ] = None,
    dtype: Annotated[
        Dtype | None, typer.Option(help="Element type; both if not given.", show_default=False)
    ] = None,
    json: JsonOption = None,
) -> None:
    """Build networks with TVM Relax, fuse them and say which workloads they consist of.

    The catalogue that ships with costmodel is the JSON of a run without arguments.

    Examples:
    - `costmodel workloads extract resnet50-n1 --dtype float16`
    """
    from costmodel.workloads import extract_networks

    found = extract_networks(networks or (), dtype)
    for extraction in found:
        _print_extraction(extraction)
    write_json(json, found)


def _print_catalogue(entries: "list[CatalogueEntry]") -> None:
    table = titled_table(f"{len(entries)} workloads")
    for name, justify in (("workload", "left"), ("MFLOP", "right"), ("MB", "right"), ("launches", "left")):
        is_text = name == "launches"
        table.add_column(name, justify=justify, overflow="fold" if is_text else "ellipsis")  # type: ignore[arg-type]
    for entry in entries:
        launches = ", ".join(f"{count} in {network}" for network, count in entry.networks.items())
        flops, moved = entry.workload.flops, entry.workload.min_bytes
        table.add_row(entry.workload.name, f"{flops / 1e6:,.1f}", f"{moved / 1e6:,.1f}", launches)
    print_table(table)


def _print_extraction(extraction: "Extraction") -> None:
    table = titled_table(f"{extraction.network}, {extraction.dtype}")
    table.add_column("launches", justify="right")
    table.add_column("kernel")
    for name, count in extraction.workloads.items():
        table.add_row(str(count), name)
    for name, count in extraction.left_out.items():
        table.add_row(str(count), f"{name} (no workload)")
    if extraction.left_out:
        table.caption = (
            "No workload: the plug-in for TVM leaves these to TVM's evolution, and ranks what that lowers by "
            "its launches."
        )
        table.caption_justify = "left"
    print_table(table)
