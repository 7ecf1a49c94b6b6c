"""``costmodel model``: what a trained model is, and what it says of kernels."""

import math
import warnings
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from costmodel.cli._options import (
    CommandGroup,
    JsonOption,
    SweepOption,
    count_option,
    output_option,
    seed_option,
)
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.records._platform import Device
    from costmodel.transfer._store import ModelCard
    from costmodel.transfer.prediction._model import Model


def print_sweep(title: str, table: "pd.DataFrame", names: Sequence[str], ends: str) -> None:
    """A row a device: its quantities, the latency, its interval, and how many times as fast it is.

    Args:
        title: Of the table.
        table: Columns ``names``, ``latency_s``, and ``low_s``, ``high_s`` and ``speedup`` where they are
            known; without the last, speed is over that of the first row.
        names: The quantities that are swept.
        ends: What the interval is called.
    """
    header = (*names, "latency", *([ends] if "low_s" in table else []), "x")
    rows = []
    first = table["latency_s"].iloc[0]
    for row in table.to_dict("records"):
        interval = [f"{row['low_s'] * 1e6:,.1f} - {row['high_s'] * 1e6:,.1f} us"] if "low_s" in table else []
        quantities = [f"{row[name]:g}" for name in names]
        speedup = f"{row.get('speedup', first / row['latency_s']):.2f}"
        rows.append((*quantities, f"{row['latency_s'] * 1e6:,.1f} us", *interval, speedup))
    print_table(TextTable(title, header, rows, "r" * len(header)))


app = CommandGroup()

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="Model that `costmodel train` wrote.", show_default=False)
]
# What is written in place of a file for the models of `costmodel train` without a dataset.
_DEFAULT = "default"
# The same for the models of library calls, of which nothing is ranked.
_CALLS = "calls"


@app.callback()
def _group() -> None:
    """Describe a trained model, or use it to rank the kernels of a workload."""


@app.command()
def info(file: FileArgument, json: JsonOption = None) -> None:
    """Show what a model is and what it learned from. Runs no part of the model.

    Examples:
    - `costmodel model info h100.costmodel`
    """
    from costmodel.transfer._store import read_card

    card = read_card(file)
    _print_card(file, card)
    write_json(json, card)


@app.command()
def predict(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=f"Model that `costmodel train` wrote, {_DEFAULT} for the model of the shipped datasets, or "
            f"{_CALLS} for library calls on any NVIDIA GPU of the table.",
            show_default=False,
        ),
    ],
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="Name of a workload, such as matmul-m128-n768-k3072.", show_default=False
        ),
    ],
    candidates: Annotated[
        str | None,
        typer.Argument(
            metavar="CANDIDATES",
            help="Kernels to rank: a dataset, its name, or a `.jsonl` file with one candidate per line. "
            "Default: "
            "the shipped dataset or, if it has none of the workload, configs drawn at random.",
            show_default=False,
        ),
    ] = None,
    *,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="GPU to predict for, see `costmodel devices list`. Default: the one that the model learned "
            "from.",
            show_default=False,
        ),
    ] = None,
    own: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with a table [device] that describes a GPU of your own, or with a list of "
            "[[devices]] as in `costmodel/records/devices.toml`, from which `--device` chooses one.",
            show_default=False,
        ),
    ] = None,
    sms: Annotated[
        int | None,
        count_option(
            help="Number of SMs available to the kernel. Default: the whole device.", show_default=False
        ),
    ] = None,
    draw: Annotated[
        int, count_option("-n", "--draw", help="Number of configs to draw if no recorded kernels are ranked.")
    ] = 64,
    seed: Annotated[int, seed_option("Seed for drawing configs.")] = 0,
    top: Annotated[int, count_option(help="Number of kernels to show, best first.")] = 10,
    measured: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help=f"For {_CALLS}: a list of objects with `call`, `framework` and `latency_s`, measured on the "
            "device. Eight or more correct what it reaches of its datasheet.",
            show_default=False,
        ),
    ] = None,
    sweep: SweepOption = None,
    plot: Annotated[
        Path | None,
        output_option(
            metavar="FILE.png",
            help="With --sweep: plot the best kernel's latency over the swept property (PNG, PDF or SVG).",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Rank the kernels of a workload with a model, without measuring any.

    A model with intervals shows the range in which it expects 90% of such latencies. It marks kernels with
    `!` that are too unlike its training data for any promise.

    Examples:
    - `costmodel model predict default matmul-m16-n1024-k1024 --device H200 --sms 32`, after `train`
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 --device "H100 SXM" --sms 32`
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 mine.jsonl --device H200 --top 3`
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 --own my-gpu.toml`
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 --sweep sms=64:256:16 --plot out/sms.png`
    - `costmodel model predict calls aiconfigurator.gemm.fp8-m64-n4096-k4096 --device L40S`
    """
    from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, device_named, read_device

    if str(file) == _CALLS:
        if candidates or sms is not None or sweep or plot:
            raise typer.BadParameter(f"{_CALLS} are predicted on whole GPUs: name --device or --own alone.")
        _predict_call(workload, read_device(own, device) if own else device_named(device, ()), measured, json)
        return
    if measured:
        raise typer.BadParameter(f"--measured is of library calls: predict {_CALLS}, not a model of kernels.")
    model = _model_at(file, workload)
    if sweep:
        if sms is not None:
            raise typer.BadParameter("--sweep is over whole devices: name --sms or --sweep, not both.")
        base = read_device(own, device) if own else device
        _sweep(model, workload, sweep, base, candidates, draw=draw, seed=seed, plot=plot, json=json)
        return
    if plot:
        raise typer.BadParameter("--plot draws a sweep: name one, such as --sweep sms=64:256:16.")
    with warnings.catch_warnings():  # the notes say so
        warnings.simplefilter("ignore", UnmeasuredDeviceWarning)
        ranking = model.predict(
            workload,
            sms=sms,
            device=read_device(own, device) if own else device,
            kernels=candidates,
            n=draw,
            seed=seed,
        )
    (platform,) = ranking.attrs["platforms"]
    if workload in model.metadata.workloads:
        print_line(f"The model has learned from measurements of {workload}.")
    _print_ranking(f"{workload} on {platform}: {len(ranking)} kernels", ranking.head(top))
    kernels = ranking.head(top).to_dict("records")
    write_json(json, {"model": model.path, "workload": workload, "platform": platform, "kernels": kernels})


def _predict_call(workload: str, device: "Device", measured: Path | None, json: Path | None) -> None:
    """Print what a library's call takes on a GPU."""
    from costmodel.records._workload import Workload
    from costmodel.transfer.prediction._calls import predict_call, read_measured_calls

    found = predict_call(Workload.parse(workload), device, read_measured_calls(measured) if measured else ())
    rows = [
        (
            each.framework,
            f"{each.latency_s * 1e6:,.1f} us",
            f"{each.low_s * 1e6:,.1f} - {each.high_s * 1e6:,.1f} us",
        )
        for each in found
    ]
    header = ("framework", "latency", "90 % interval")
    print_table(TextTable(f"{workload} on {device.name}", header, rows, "lrr"))
    calls = [each._asdict() for each in found]
    write_json(json, {"workload": workload, "device": device.name, "calls": calls})


def _model_at(file: Path, workload: str) -> "Model":
    """The model of a file, or of what ships for a workload's kernels: TVM's, or its own family's."""
    from costmodel.records._workload import Workload
    from costmodel.transfer.prediction._model import load_model
    from costmodel.tuning._shipped import pretrained

    if str(file) != _DEFAULT:
        return load_model(file)
    asked = Workload.parse(workload)
    return pretrained(asked.kind if asked.kind.startswith(("cuda.", "triton.")) else "", asked)


def _sweep(
    model: "Model",
    workload: str,
    sweeps: list[str],
    device: "Device | str | None",
    candidates: str | None,
    *,
    draw: int,
    seed: int,
    plot: Path | None,
    json: Path | None,
) -> None:
    from costmodel.transfer.prediction._sweep import sweep_kernels

    found = sweep_kernels(model, workload, sweeps, device=device, kernels=candidates, n=draw, seed=seed)
    title = f"Best of the kernels of {workload} on {found.device.name}, changed"
    print_sweep(title, found.table, found.names, "90 % interval")
    print_line(f"Note: {found.table['note'].iloc[0]}: no such device was measured.")
    write_json(json, {"model": model.path, **found.to_dict()})
    if plot:
        from costmodel.report._figures import save_figure

        save_figure(found.plot(), plot)
        print_line(f"Drawn: {plot}")


def _print_card(file: Path, card: "ModelCard") -> None:
    facts = [("model", _named(card.model))]
    about = msgspec.structs.asdict(card.metadata)
    for name, value in {**about, "devices": [device.name for device in card.metadata.devices]}.items():
        is_long = isinstance(value, list | tuple) and len(value) > 4
        shown = value[:16] if name == "dataset_sha256" else f"{len(value)}" if is_long else _readable(value)
        facts.append((name.replace("_", " "), shown))
    facts.append(("size", f"{card.bytes / 1e6:.2f} MB"))
    print_table(TextTable(str(file), ("", ""), facts, "lw"))


def _named(description: dict[str, Any]) -> str:
    """Class of a model, with those inside, such as ``Conformal(Residual(KernelRidge))``."""
    settings = description["settings"].values()
    inside = [_named(value["$model"]) for value in settings if isinstance(value, dict)]
    return f"{description['class']}({', '.join(inside)})" if inside else str(description["class"])


def _readable(value: Any) -> str:
    """A value of the metadata in one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_readable(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _print_ranking(title: str, ranking: "pd.DataFrame") -> None:
    """Columns that the ranking does not have are left out; notes that all rows share are one line."""
    from costmodel.transfer.prediction._ranking import NOTE_SEPARATOR

    notes = [note.split(NOTE_SEPARATOR) for note in ranking.get("note", [""] * len(ranking))]
    shared = [note for note in notes[0] if note and all(note in each for each in notes)]
    own = [NOTE_SEPARATOR.join(note for note in each if note not in shared) for each in notes]
    columns = {
        "rank": "r",
        **({"latency": "r"} if "latency_s" in ranking else {}),
        **({"90 % interval": "r"} if "low_s" in ranking else {}),
        **({"": "l"} if "unfamiliarity" in ranking else {}),
        **({"note": "w"} if any(own) else {}),
        "config": "w",
    }
    rows = []
    for rank, (row, note) in enumerate(zip(ranking.to_dict("records"), own, strict=True), 1):
        cells = {"rank": str(rank), "note": note, **_cells(row)}
        rows.append([cells[name] for name in columns])
    print_table(TextTable(title, tuple(columns), rows, "".join(columns.values())))
    if shared:
        print_line(f"Note: {NOTE_SEPARATOR.join(shared)}. Check a few by measuring them.")


def _cells(row: "dict[Hashable, Any]") -> dict[str, str]:
    """One kernel of a ranking as text, by column."""
    return {
        "latency": _microseconds(row, "latency_s"),
        "90 % interval": f"{_microseconds(row, 'low_s')} - {_microseconds(row, 'high_s')}",
        "": "!" if row.get("unfamiliarity", 0.0) > 1.0 else "",
        "config": " ".join(f"{name}={_short(value)}" for name, value in row["config"].items()),
    }


def _microseconds(row: "dict[Hashable, Any]", name: str) -> str:
    value = row.get(name, math.nan)
    return "" if math.isnan(value) else f"{value * 1e6:.1f} us"


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
