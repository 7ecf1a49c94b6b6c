"""``costmodel train``: learn from a dataset, keep the model in a file."""

import platform
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from costmodel import __version__
from costmodel.cli._output import DEFAULT_LEARNER, DatasetArgument, JsonOption, console, write_json


def train(
    dataset: DatasetArgument = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Model to write, such as h100.costmodel.")],
    learner: Annotated[
        str, typer.Option(help="What learns; `costmodel evaluate` compares all that there are.")
    ] = DEFAULT_LEARNER,
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORKLOAD",
            help="Keep this workload apart and judge the model by it. Repeatable.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Judge models like it that learn without one of K groups of workloads.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the learner.")] = 0,
    json: JsonOption = None,
) -> None:
    """Train a model on a dataset and write it to one file, without pickle.

    The file keeps the dataset's hash, what was learned from, what it was judged by, and the versions.

    Examples:
    - `costmodel train --out h100.costmodel`
    - `costmodel train datasets/mine --out mine.costmodel --folds 5`
    - `costmodel train datasets/mine --out mine.costmodel --hold-out matmul-m128-n768-k3072`
    """
    from costmodel.dataset import dataset_hash, load_dataset, shipped_dataset
    from costmodel.evaluation import train as train_on
    from costmodel.transfer import make_model, save_model

    path = dataset or shipped_dataset()
    data = load_dataset(path)
    with console.status(f"Learning from {path}"):
        trained = train_on(
            data,
            partial(make_model, learner, seed=seed),
            hold_out=hold_out or (),
            folds=folds,
        )
    metadata = {
        "learner": learner,
        "seed": seed,
        "dataset": dataset_hash(path),
        "dataset_name": path.resolve().name,
        "devices": list(trained.devices),
        "platforms": list(trained.platforms),
        "workloads": list(trained.workloads),
        "held_out": list(hold_out or ()),
        "folds": list(trained.folds),
        "tasks": trained.tasks,
        "rows": trained.rows,
        "columns": list(trained.columns),
        "metrics": trained.metrics(),
        "version": __version__,
        "software": _versions(),
    }
    save_model(trained.model, out, metadata)
    console.print(
        f"{learner} learned from {trained.rows} measurements of {len(trained.workloads)} workloads "
        f"({trained.tasks} tasks): {out}",
        soft_wrap=True,
        highlight=False,
    )
    for name, value in trained.metrics().items():
        console.print(f"  {name} on what was held out: {value:.3f}", highlight=False)
    write_json(json, {"model": out, **metadata})


def _versions() -> dict[str, str]:
    """Versions of Python and of those packages that learned."""
    packages = (sys.modules.get(name) for name in ("numpy", "scipy", "sklearn", "xgboost", "torch"))
    loaded = {package.__name__: str(package.__version__) for package in packages if package}
    return {"python": platform.python_version(), **loaded}
