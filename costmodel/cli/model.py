"""``costmodel model``: what a trained model is, and what it says of kernels."""

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
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
from costmodel.errors import CostModelError
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.records._platform import Device
    from costmodel.transfer._store import ModelCard
    from costmodel.transfer.prediction._candidates import Kernels
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
# What is written in place of names for every device of the table.
_ALL = "all"


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
            help="Kernels to rank: a dataset, its name, a `.jsonl` file with one candidate per line, or a "
            "table of which `--columns` says the columns. Default: the shipped dataset or, if it has none of "
            "the workload, configs drawn at random.",
            show_default=False,
        ),
    ] = None,
    *,
    columns: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file that maps the columns of CANDIDATES, a table in CSV or Parquet, as for `dataset "
            "build`. Columns of its parameters and sizes are enough.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="GPU to predict for, see `costmodel devices list`. Name several, or `all`, for a row each. "
            "Default: the one that the model learned from.",
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
    - `costmodel model predict mine.costmodel mine.transpose-m3000 configs.csv --columns map.toml`
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 --own my-gpu.toml`
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 --sweep sms=64:256:16 --plot out/sms.png`
    - `costmodel model predict calls aiconfigurator.gemm.fp8-m64-n4096-k4096 --device L40S`
    - `costmodel model predict calls matmul-m512-n4096-k4096-float16 --device all --json gpus.json`
    """
    from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, device_named, read_device

    names = _device_names(device)
    one = names[0] if names else None
    if len(names) > 1 and (own or sweep or measured):
        raise typer.BadParameter("--own, --sweep and --measured are of one GPU: name one --device, or none.")
    if str(file) == _CALLS:
        if candidates or columns or sms is not None or sweep or plot:
            raise typer.BadParameter(f"{_CALLS} are predicted on whole GPUs: name --device or --own alone.")
        if not names and own is None:
            raise typer.BadParameter(
                f"{_CALLS} are predicted on a GPU: name its --device, or --device {_ALL}."
            )
        if len(names) > 1:
            devices = {name: device_named(name, ()) for name in names}
            _print_devices(workload, devices, lambda device: _fastest_call(workload, device), json)
            return
        _predict_call(workload, read_device(own, one) if own else device_named(one, ()), measured, json)
        return
    if measured:
        raise typer.BadParameter(f"--measured is of library calls: predict {_CALLS}, not a model of kernels.")
    model, kernels = _model_at(file, workload), _kernels_at(candidates, columns)
    if sweep:
        if sms is not None:
            raise typer.BadParameter("--sweep is over whole devices: name --sms or --sweep, not both.")
        base = read_device(own, one) if own else one
        _sweep(model, workload, sweep, base, kernels, draw=draw, seed=seed, plot=plot, json=json)
        return
    if plot:
        raise typer.BadParameter("--plot draws a sweep: name one, such as --sweep sms=64:256:16.")

    def ranked(on: "Device | str | None") -> "pd.DataFrame":
        with warnings.catch_warnings():  # the notes say so
            warnings.simplefilter("ignore", UnmeasuredDeviceWarning)
            return model.predict(workload, sms=sms, device=on, kernels=kernels, n=draw, seed=seed)

    if len(names) > 1:
        devices = {name: device_named(name, model.metadata.devices) for name in names}
        _print_devices(workload, devices, lambda device: ranked(device).iloc[0].to_dict(), json)
        return
    ranking = ranked(read_device(own, one) if own else one)
    (platform,) = ranking.attrs["platforms"]
    if workload in model.metadata.workloads:
        print_line(f"The model has learned from measurements of {workload}.")
    _print_ranking(f"{workload} on {platform}: {len(ranking)} kernels", ranking.head(top))
    shown = ranking.head(top).to_dict("records")
    write_json(json, {"model": model.path, "workload": workload, "platform": platform, "kernels": shown})


def _device_names(named: list[str] | None) -> list[str]:
    """Names of the devices, each once; those of the table in place of all."""
    from costmodel.records._device_table import read_devices

    table = [each.device.name for each in read_devices()] if named and _ALL in named else []
    return list(dict.fromkeys(chain.from_iterable(table if name == _ALL else [name] for name in named or [])))


def _print_devices(
    workload: str,
    devices: "Mapping[str, Device]",
    predict: "Callable[[Device], Mapping[Any, Any]]",
    json: Path | None,
) -> None:
    """Print a row for each device: what is fastest there, its interval, or why there is no prediction.

    Args:
        workload: Name of the workload.
        devices: The devices, by the names that they are shown with.
        predict: Tells ``latency_s``, and ``low_s``, ``high_s`` and ``note`` where there are any.
        json: Where the rows are written too.

    Raises:
        CostModelError: There is a prediction on none; it says why there is none on the first.
    """
    found: list[dict[str, Any]] = []
    for name, device in devices.items():
        try:
            told: Mapping[Any, Any] = predict(device)
        except CostModelError as error:
            told = {"note": str(error)}
        row = {each: told.get(each) for each in ("latency_s", "low_s", "high_s", "note")}
        known = {key: value for key, value in row.items() if not _is_missing(value)}
        found.append({"device": name, **dict.fromkeys(row), **known})
    predicted = sum(each["latency_s"] is not None for each in found)
    if not predicted:
        raise CostModelError(found[0]["note"])
    rows = [
        (
            each["device"],
            _seconds(each["latency_s"]),
            _ends(each["low_s"], each["high_s"]),
            each["note"] or "",
        )
        for each in found
    ]
    print_table(TextTable(workload, ("device", "latency", "90 % interval", "note"), rows, "lrrw"))
    bounded = sum(each["low_s"] is not None for each in found)
    print_line(f"{len(found)} devices: {predicted} predicted, {bounded} with an interval.")
    write_json(json, {"workload": workload, "devices": found})


def _fastest_call(workload: str, device: "Device") -> dict[str, Any]:
    """What a call takes on a device in the fastest framework."""
    from costmodel.records._workload import Workload
    from costmodel.transfer.prediction._calls import predict_call

    return predict_call(Workload.parse(workload), device)[0]._asdict()


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _predict_call(workload: str, device: "Device", measured: Path | None, json: Path | None) -> None:
    """Print what a library's call takes on a GPU."""
    from costmodel.records._workload import Workload
    from costmodel.transfer.prediction._calls import predict_call, read_measured_calls

    found = predict_call(Workload.parse(workload), device, read_measured_calls(measured) if measured else ())
    rows = [(each.framework, _seconds(each.latency_s), _ends(each.low_s, each.high_s)) for each in found]
    header = ("framework", "latency", "90 % interval")
    print_table(TextTable(f"{workload} on {device.name}", header, rows, "lrr"))
    for note in dict.fromkeys(each.note for each in found if each.note):
        print_line(f"Note: no interval, as {note}.")
    calls = [each._asdict() for each in found]
    write_json(json, {"workload": workload, "device": device.name, "calls": calls})


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value * 1e6:,.1f} us"


def _ends(low_s: float | None, high_s: float | None) -> str:
    return "" if low_s is None or high_s is None else f"{low_s * 1e6:,.1f} - {high_s * 1e6:,.1f} us"


def _model_at(file: Path, workload: str) -> "Model":
    """The model of a file, or of what ships for a workload's kernels: TVM's, or its own family's."""
    from costmodel.records._workload import Workload
    from costmodel.transfer.prediction._model import load_model
    from costmodel.tuning._shipped import pretrained

    if str(file) != _DEFAULT:
        return load_model(file)
    asked = Workload.parse(workload)
    return pretrained(asked.kind if asked.kind.startswith(("cuda.", "triton.")) else "", asked)


def _kernels_at(candidates: str | None, columns: Path | None) -> "Kernels | None":
    """The kernels to rank: what a table holds, or where they are."""
    if columns is None:
        return candidates
    if candidates is None:
        raise typer.BadParameter("--columns maps the columns of a table: name it as CANDIDATES.")
    from costmodel.dataset.importers._table import read_config_table

    return read_config_table(Path(candidates), columns)


def _sweep(
    model: "Model",
    workload: str,
    sweeps: list[str],
    device: "Device | str | None",
    kernels: "Kernels | None",
    *,
    draw: int,
    seed: int,
    plot: Path | None,
    json: Path | None,
) -> None:
    from costmodel.transfer.prediction._sweep import sweep_kernels

    found = sweep_kernels(model, workload, sweeps, device=device, kernels=kernels, n=draw, seed=seed)
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
