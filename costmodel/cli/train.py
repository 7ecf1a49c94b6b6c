"""``costmodel train``: learn from a dataset, keep the model in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from costmodel.cli._options import DatasetArgument, JsonOption, folds_option, output_option, said, seed_option
from costmodel.cli._output import console, print_line, write_json
from costmodel.cli._tracking import (
    ExperimentOption,
    Tracking,
    TrackingUriOption,
    TrackOption,
    options_of,
)
from costmodel.learners._registry import DEFAULT_LEARNER

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.dataset.table._dataset import Dataset
    from costmodel.transfer.prediction._model import Model

_EXAMPLES = 3


def train(
    context: typer.Context,
    dataset: DatasetArgument = None,
    *,
    out: Annotated[
        Path | None, output_option(help="Model file to write, such as h100.costmodel.", show_default=False)
    ] = None,
    learner: Annotated[
        str,
        typer.Option(metavar="NAME", help="Learner to train; `costmodel evaluate` compares learners."),
    ] = DEFAULT_LEARNER,
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORKLOAD",
            help="Leave this workload out of training and evaluate the model on it. Repeatable.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[
        int,
        folds_option("Number of groups of workloads for cross-validation; 0 does none."),
    ] = 0,
    seed: Annotated[int, seed_option("Seed of the learner.")] = 0,
    json: JsonOption = None,
    track: TrackOption = False,
    tracking_uri: TrackingUriOption = None,
    experiment: ExperimentOption = None,
) -> None:
    """Train a model on a dataset and save it to one file, without pickle.

    The file keeps the dataset's hash, the training data, the evaluation, and software versions.

    Without a dataset and `--out`, it learns from every shipped dataset, once: `tune` on a device,
    `model predict default` and the plug-in for TVM then use these models and train none. They are kept in
    `~/.local/share/costmodel/models`, or in the folder that COSTMODEL_MODELS names.

    Examples:
    - `costmodel train` learns from all shipped datasets, in some five minutes.
    - `costmodel train --out h100.costmodel`
    - `costmodel train datasets/mine --out mine.costmodel --folds 5`
    - `costmodel train datasets/mine --out mine.costmodel --hold-out matmul-m128-n768-k3072`
    - `costmodel train --out h100.costmodel --folds 5 --track` also logs the model and its scores.
    """
    if out is None:
        _train_default(context, seed, json)
        return
    from costmodel.dataset.publish._describe import describe_used_dataset
    from costmodel.dataset.table._files import find_dataset
    from costmodel.dataset.table._read import load_dataset
    from costmodel.dataset.table._records import LATENCIES
    from costmodel.tuning._describe import describe_model
    from costmodel.tuning._training import describe_training
    from costmodel.tuning._training import train as train_on

    path = find_dataset(dataset)
    data = load_dataset(path, facts=LATENCIES)
    with Tracking.of(context).run(f"{learner} on {data.name}", options_of(context, dataset=path)) as run:
        run.log([describe_used_dataset(data, "training")])
        with console.status(f"Learning from {data.name}"):
            model = train_on(data, learner, hold_out=hold_out or (), folds=folds, seed=seed)
        model.save(out)
        _print_trained(model, out)
        write_json(json, {"model": out, **msgspec.structs.asdict(model.metadata)})
        run.log(describe_training(model))
        run.log(describe_model(out, model.metadata, _example(data)))


def _train_default(context: typer.Context, seed: int, json: Path | None) -> None:
    """Learn from all that ships, and keep the models where they are looked for."""
    if said(context) - {"seed", "json"}:
        raise typer.BadParameter(
            "It must say where to write the model where a dataset or how to learn from it is given, as in "
            "--out mine.costmodel.",
            param_hint="'--out'",
        )
    from costmodel.tuning._shipped import pretrain

    models = pretrain(seed)
    for model in models.values():
        assert model.path is not None
        _print_trained(model, model.path)
    write_json(
        json,
        {
            name: {"model": each.path, **msgspec.structs.asdict(each.metadata)}
            for name, each in models.items()
        },
    )


def _print_trained(model: "Model", out: Path) -> None:
    about = model.metadata
    print_line(
        f"{about.learner} learned from {about.rows} measurements of {len(about.workloads)} workloads "
        f"({about.tasks} tasks): {out}"
    )
    if about.held_out or about.folds:
        judged = 0 if model.held_out_tasks is None else model.held_out_tasks["task"].nunique()
        print_line(f"  evaluated on {judged} held-out tasks; those of one config do not count")
    for name, value in about.metrics.items():
        print_line(f"  {name} on what was held out: {value:.3f}")


def _example(data: "Dataset") -> "pd.DataFrame":
    """What the model predicts from: some kernels on a platform of the dataset."""
    from costmodel.transfer.prediction.pyfunc import kernel_frame

    row, platform = data.rows.iloc[0], data.platforms[data.rows.iloc[0]["platform"]]
    same = data.rows[(data.rows["task"] == row["task"])].head(_EXAMPLES)
    return kernel_frame(
        [data.candidates[i] for i in same["candidate"]], platform.device, platform.sms_granted
    )
