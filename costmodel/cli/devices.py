"""``costmodel devices``: the table of GPUs, and what a part of one can do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from costmodel.cli._options import CommandGroup, JsonOption, count_option
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.records._device_table import KnownDevice
    from costmodel.records._peak_rates import PeakRates

app = CommandGroup()

OwnOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file with devices of your own, in the format of `costmodel/records/devices.toml`.",
        show_default=False,
    ),
]


@app.callback()
def _group() -> None:
    """List the known GPUs, or show the peak rates of a GPU or of part of its SMs."""


@app.command("list")
def list_devices(own: OwnOption = None, json: JsonOption = None) -> None:
    """List the known GPUs.

    Examples:
    - `costmodel devices list --json out/devices.json`
    """
    from costmodel.records._device_table import read_devices

    entries = read_devices(own)
    _print_devices(entries)
    write_json(json, entries)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or alias of a GPU, such as `RTX_3090`.")],
    sms: Annotated[
        int | None, count_option(help="Number of SMs granted. Default: all.", show_default=False)
    ] = None,
    own: OwnOption = None,
    json: JsonOption = None,
) -> None:
    """Show a GPU, the source of its figures, and the peak rates of the granted SMs.

    Examples:
    - `costmodel devices show "H100 SXM" --sms 32`
    """
    from costmodel.products._model import meant_gpu
    from costmodel.records._device_table import find_entry
    from costmodel.records._peak_rates import peak_rates

    entry = find_entry(name if own else meant_gpu(name), own)
    rates = peak_rates(entry.device, sms)
    _print_entry(entry, rates)
    write_json(json, {**msgspec.structs.asdict(entry), "granted": rates})


def _print_devices(entries: "list[KnownDevice]") -> None:
    from costmodel.records._peak_rates import peak_rates

    header = ("device", "architecture", "SMs", "MHz", "fp32\nTFLOPS", "Tensor\nTFLOPS", "GB/s")
    rows = []
    for device in (entry.device for entry in entries):
        found = peak_rates(device)
        rates = map(_known, (found.fp32_tflops, found.tensor_tflops, found.bandwidth_gb_s))
        rows.append((device.name, device.architecture, str(device.sms), f"{device.clock_mhz:.0f}", *rates))
    print_table(TextTable(f"{len(entries)} devices", header, rows, "llrrrrr"))


def _print_entry(entry: "KnownDevice", rates: "PeakRates") -> None:
    device = entry.device
    facts = (
        ("vendor", entry.vendor),
        ("architecture", device.architecture),
        ("also called", ", ".join(entry.aliases) or "-"),
        ("SMs granted", f"{rates.sms} of {device.sms}"),
        ("peak of these, fp32", _known(rates.fp32_tflops, "TFLOPS")),
        ("peak of these, fp16 Tensor", _known(rates.tensor_tflops, "TFLOPS")),
        ("bandwidth, shared by all SMs", _known(rates.bandwidth_gb_s, "GB/s")),
        ("stated for all, fp32", _known(entry.stated.fp32_tflops, "TFLOPS")),
        ("stated for all, fp16 Tensor", _known(entry.stated.tensor_tflops, "TFLOPS")),
        ("last-level cache", _known(device.l2_bytes / 2**20, "MiB")),
        ("highest clock", _known(device.clock_mhz, "MHz")),
        ("board", _known(entry.board_w, "W")),
        ("shared memory of an SM", _known(device.shared_bytes_per_sm / 2**10, "KiB")),
        ("registers of an SM", _known(device.registers_per_sm)),
        ("threads, blocks of an SM", f"{device.max_threads_per_sm}, {device.max_blocks_per_sm}"),
    )
    print_table(TextTable(device.name, ("", ""), facts, "lw"))
    print_line(f"Source: {entry.source}")


def _known(value: float, unit: str = "") -> str:
    """The number with its unit, a dash where it is unknown."""
    return f"{value:,.1f}".removesuffix(".0") + f" {unit}".rstrip() if value else "-"
