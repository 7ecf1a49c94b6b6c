"""``costmodel workloads``: the catalogue of workloads from networks, how it is made, and others like them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from costmodel.cli._options import CommandGroup, JsonOption, count_option, seed_option
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.workloads._catalogue import CatalogueEntry, Extraction

app = CommandGroup()

Dtype = Literal["float32", "float16"]


@app.callback()
def _group() -> None:
    """List the workloads of well-known networks, extract workloads from networks, or draw similar ones."""


@app.command("list")
def list_workloads(
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="List only workloads of one network, such as `resnet50-n8`, or of all variants, `resnet50`.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        Dtype | None,
        typer.Option(help="List only workloads of this element type. Default: all.", show_default=False),
    ] = None,
    json: JsonOption = None,
) -> None:
    """List the workloads of well-known networks, with how often each network launches them.

    Examples:
    - `costmodel workloads list --network bert_base --dtype float16`
    """
    from costmodel.workloads._catalogue import catalogue

    entries = catalogue(network, dtype)
    _print_catalogue(entries)
    write_json(json, [entry.to_dict() for entry in entries])


@app.command()
def extract(
    networks: Annotated[
        list[str] | None,
        typer.Argument(metavar="NETWORK", help="Networks to extract from. Default: all.", show_default=False),
    ] = None,
    dtype: Annotated[
        Dtype | None, typer.Option(help="Element type. Default: both.", show_default=False)
    ] = None,
    json: JsonOption = None,
) -> None:
    """Build networks with TVM Relax, fuse their operators and extract their workloads.

    The catalogue shipped with costmodel is the JSON output of a run without arguments.

    Examples:
    - `costmodel workloads extract resnet50-n1 --dtype float16`
    """
    from costmodel.workloads._catalogue import extract_networks

    found = extract_networks(networks or (), dtype)
    for extraction in found:
        _print_extraction(extraction)
    write_json(json, found)


@app.command()
def sample(
    count: Annotated[int, count_option(help="Number of workloads to draw.")] = 500,
    seed: Annotated[int, seed_option("Seed of all random choices.")] = 0,
    apart_from: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="CONFIG",
            help="Campaign to stay clear of: draw none of its workloads or left-out shapes, nor any near "
            "them. Repeatable.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Sample operators for a campaign: kinds, epilogues, element types and shapes, without near-twins.

    Shapes are those of networks and random ones, odd sizes included. What is printed is the list of workloads
    as a campaign's file has it.

    Examples:
    - `costmodel workloads sample --count 500 --seed 2026 --apart-from sm-budgets`
    """
    from costmodel.collector.campaign._config import find_campaign
    from costmodel.workloads._sample import sample_workloads

    campaigns = [find_campaign(path) for path in apart_from or ()]
    apart = [s for c in campaigns for s in (*c.left_out, *(w.shape for w in c.parsed_workloads))]
    names = [workload.name for workload in sample_workloads(count, seed, apart_from=apart)]
    for line in ("workloads = [", *(f'  "{name}",' for name in names), "]"):
        print_line(line)
    write_json(json, names)


def _print_catalogue(entries: "list[CatalogueEntry]") -> None:
    rows = []
    for entry in entries:
        launches = ", ".join(f"{count} in {network}" for network, count in entry.networks.items())
        flops, moved = entry.workload.flops, entry.workload.min_bytes
        rows.append((entry.workload.name, f"{flops / 1e6:,.1f}", f"{moved / 1e6:,.1f}", launches))
    header = ("workload", "MFLOP", "MB", "launches")
    print_table(TextTable(f"{len(entries)} workloads", header, rows, "lrrw"))


def _print_extraction(extraction: "Extraction") -> None:
    found = [(str(count), name) for name, count in extraction.workloads.items()]
    others = [(str(count), f"{name} (no workload)") for name, count in extraction.left_out.items()]
    title = f"{extraction.network}, {extraction.dtype}"
    print_table(TextTable(title, ("launches", "kernel"), [*found, *others], "rl"))
    if others:
        print_line(
            "No workload: the plug-in for TVM leaves these to TVM's evolution, and ranks what that lowers by "
            "its launches."
        )
