"""``costmodel model``: what a trained model is, and what it says of kernels."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costmodel.cli._output import JsonOption, console, titled_table, write_json
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.arrays import FloatArray
    from costmodel.dataset import Dataset
    from costmodel.learners import Prediction
    from costmodel.records import Candidate, Platform
    from costmodel.transfer import ModelCard

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="markdown")

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="Model that `costmodel train` wrote.", show_default=False)
]


@app.callback()
def _group() -> None:
    """Show what a trained model is, or rank the kernels of a workload by it."""


@app.command()
def info(file: FileArgument, json: JsonOption = None) -> None:
    """Show what a model is and what it learned from; nothing of it is run.

    Examples:
    - `costmodel model info h100.costmodel`
    """
    from costmodel.transfer import read_card

    card = read_card(file)
    _print_card(file, card)
    write_json(json, card)


@app.command()
def predict(
    file: FileArgument,
    workload: Annotated[
        str, typer.Argument(help="Name of a workload, such as matmul-m128-n768-k3072.", show_default=False)
    ],
    candidates: Annotated[
        Path | None,
        typer.Argument(
            metavar="CANDIDATES",
            help="Dataset, or `.jsonl` file with one candidate a line, whose kernels to rank; "
            "the dataset that ships with costmodel if not given.",
            show_default=False,
        ),
    ] = None,
    *,
    device: Annotated[str, typer.Option(help="Name of the GPU, see `costmodel devices list`.")],
    sms: Annotated[
        int | None,
        typer.Option(
            min=1, help="SMs that the kernel will have; the whole device if not given.", show_default=False
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Kernels to show, the best first.")] = 10,
    json: JsonOption = None,
) -> None:
    """Rank the kernels of a workload by a model, without measuring any.

    A model with intervals shows between which latencies it expects 90 % of such kernels, and marks with `!`
    what is so unlike all that it learned from that nothing is promised.

    Examples:
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 --device "H100 SXM" --sms 32`
    - `costmodel model predict h100.costmodel matmul-m16-n1024-k1024 mine.jsonl --device H200 --top 3`
    """
    from costmodel.transfer import load_model

    loaded = load_model(file)
    found = _find_candidates(candidates, workload)
    platform = _platform(found.dataset, device, sms)
    X = loaded.features(found.candidates, [platform] * len(found.candidates))
    ranking = _rank(found.candidates, loaded.model.predict(X), loaded.unfamiliarity(X), top)
    if workload in loaded.metadata.get("workloads", []):
        console.print(f"The model has learned from measurements of {workload}.", highlight=False)
    _print_ranking(f"{workload} on {platform.name}: {len(found.candidates)} kernels", ranking)
    write_json(json, {"model": file, "workload": workload, "platform": platform.name, "kernels": ranking})


@dataclass(frozen=True)
class _Found:
    """Candidates of one workload, and the dataset that they are of, if any."""

    candidates: "list[Candidate]"
    dataset: "Dataset | None"


def _find_candidates(path: Path | None, workload: str) -> _Found:
    """The candidates of a workload in a file.

    Raises:
        CostModelError: The file cannot be read, or holds none.
    """
    from costmodel.dataset import find_dataset, load_dataset

    source = path if path and path.suffix == ".jsonl" else find_dataset(path)
    dataset = None if source.suffix == ".jsonl" else load_dataset(source)
    every = _read_candidates(source) if dataset is None else dataset.candidates
    found = [candidate for candidate in every if candidate.workload.name == workload]
    if not found:
        known = ", ".join(sorted({candidate.workload.name for candidate in every})) or "none"
        raise CostModelError(
            f"{source} must hold candidates of {workload}, but it has those of {known}. "
            "Name one of these, or a file of candidates."
        )
    return _Found(found, dataset)


def _read_candidates(path: Path) -> "list[Candidate]":
    import msgspec

    from costmodel.records import Candidate

    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Candidate) for line in lines if line.strip()]
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise CostModelError(
            f"{path} must hold one candidate a line, as JSON with `workload`, `space` and `config`, "
            f"but a line does not: {error}."
        ) from error


def _platform(dataset: "Dataset | None", device: str, sms: int | None) -> "Platform":
    """Where the kernels would run: a platform of the dataset, else the table's device.

    Raises:
        CostModelError: No device has this name, or it has fewer SMs.
    """
    from costmodel.records import find_device, part_of

    measured = {platform.device.name: platform.device for platform in (dataset.platforms if dataset else ())}
    model = measured[device] if device in measured else find_device(device)
    return part_of(measured.get(model.name, model), sms)


def _rank(
    candidates: "list[Candidate]", prediction: "Prediction", unfamiliarity: "FloatArray | None", top: int
) -> list[dict[str, Any]]:
    """What is said of the best candidates, the best first."""
    import numpy as np

    columns = {
        "score": prediction.score,
        "latency_s": prediction.latency_s,
        "low_s": prediction.low_s,
        "high_s": prediction.high_s,
        "unfamiliarity": unfamiliarity,
    }
    best = np.argsort(-prediction.score, kind="stable")[:top]
    return [
        {
            "rank": rank,
            "candidate_id": candidates[i].candidate_id,
            "config": candidates[i].config.decisions,
            **{name: None if values is None else float(values[i]) for name, values in columns.items()},
            "unfamiliar": None if unfamiliarity is None else bool(unfamiliarity[i] > 1.0),
        }
        for rank, i in enumerate(best, 1)
    ]


def _print_card(file: Path, card: "ModelCard") -> None:
    table = titled_table(str(file))
    table.add_column("", style="bold")
    table.add_column("", overflow="fold")
    table.add_row("model", _named(card.model))
    for name, value in card.metadata.items():
        is_list = isinstance(value, list) and len(value) > 4
        table.add_row(name.replace("_", " "), f"{len(value)}" if is_list else _readable(value))
    table.add_row("written by", ", ".join(f"{name} {of}" for name, of in card.versions.items()) or "unknown")
    table.add_row("size", f"{card.bytes / 1e6:.2f} MB")
    console.print(table)


def _named(description: dict[str, Any]) -> str:
    """Class of a model, with those inside, such as ``Conformal(Residual(KernelRidge))``."""
    settings = description["settings"].values()
    inside = [_named(value["$model"]) for value in settings if isinstance(value, dict)]
    return f"{description['class']}({', '.join(inside)})" if inside else str(description["class"])


def _readable(value: Any) -> str:
    """A value of the metadata in one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_readable(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _print_ranking(title: str, ranking: list[dict[str, Any]]) -> None:
    table = titled_table(title)
    for name in ("rank", "latency", "90 % interval", "", "config"):
        table.add_column(name, justify="left" if name in ("", "config") else "right", overflow="fold")
    for row in ranking:
        interval = "" if row["low_s"] is None else f"{row['low_s'] * 1e6:.1f} - {row['high_s'] * 1e6:.1f} us"
        latency = "" if row["latency_s"] is None else f"{row['latency_s'] * 1e6:.1f} us"
        config = " ".join(f"{name}={_short(value)}" for name, value in row["config"].items())
        table.add_row(str(row["rank"]), latency, interval, "!" if row["unfamiliar"] else "", config)
    console.print(table)


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
