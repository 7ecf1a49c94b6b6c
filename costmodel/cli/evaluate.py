"""``costmodel evaluate``: compare learners on what they never saw."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from costmodel.cli._output import (
    DatasetArgument,
    JsonOption,
    KeepTwinsApartOption,
    console,
    print_twins,
    progress,
    titled_table,
    write_json,
)

if TYPE_CHECKING:
    from costmodel.dataset import Dataset, Split
    from costmodel.evaluation import ModelFactory, Report


def evaluate(
    dataset: DatasetArgument = None,
    *,
    split: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Strategy such as leave-one-workload-out, leave-one-budget-out, leave-one-device-out or "
            "few-shot, or a split that `costmodel dataset split` wrote.",
        ),
    ] = "leave-one-workload-out",
    keep_twins_apart: KeepTwinsApartOption = False,
    learner: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Learner to compare; repeatable.", show_default="all"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the learners.")] = 0,
    json: JsonOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Also draw the result by SM budget.", show_default=False),
    ] = None,
) -> None:
    """Compare learners on workloads that they never saw, each held out in turn with all its SM budgets.

    Other splits hold out an SM budget, a device, its architecture or an operator kind. Named as a strategy, a
    split has default parameters. Devices that measured nearly the same are held out as one.

    Examples:
    - `costmodel evaluate --plot report.png`
    - `costmodel evaluate datasets/mine --learner xgboost --learner consensus --json report.json`
    - `costmodel evaluate datasets/convolution --split leave-one-device-out`
    - `costmodel evaluate datasets/convolution --split devices-v1`
    """
    from costmodel.dataset import (
        STRATEGIES,
        SplitRecipe,
        dataset_hash,
        load_dataset,
        make_split,
        read_split,
        shipped_dataset,
    )
    from costmodel.evaluation import RANDOM, plot_report
    from costmodel.transfer import LEARNERS, make_model

    path = dataset or shipped_dataset()
    # A random learner is drawn by the report itself, as an exact expectation.
    names = learner or [name for name in LEARNERS if name != RANDOM]
    data = load_dataset(path)
    if split in STRATEGIES:
        folds = make_split(data, SplitRecipe(split, keep_twins_apart=keep_twins_apart))
    else:
        folds = read_split(path, data, split)
    print_twins(folds)
    report = _evaluate(data, {name: partial(make_model, name, seed=seed) for name in names}, folds)
    console.print(_score_table(report))
    if report.partial_budgets:
        console.print(_budget_table(report))
    console.print(_cost_table(report))
    console.print(report.note, highlight=False)
    if plot:
        plot_report(report, plot)
        console.print(f"Drawn: {plot}", soft_wrap=True, highlight=False)
    write_json(json, {"path": path, "sha256": dataset_hash(path), "seed": seed, **report.to_dict()})


def _evaluate(dataset: "Dataset", models: "Mapping[str, ModelFactory]", split: "Split") -> "Report":
    from costmodel.evaluation import evaluate as evaluate_on

    with progress() as display:
        bar = display.add_task("Evaluating", total=len(split.folds) * len(models))

        def advance(held_out: str, name: str) -> None:
            display.update(bar, description=f"{name} without {held_out}", advance=1)

        return evaluate_on(dataset, models, split=split, on_fold=advance)


def _score_table(report: "Report") -> Table:
    from costmodel.evaluation import KS

    table = _table(
        f"{report.split}: median (10th percentile) over tasks",
        [f"Score@{k}" for k in KS],
    )
    for entry in report.summary():
        scores = [entry[f"score_at_{k}"] for k in KS]
        table.add_row(entry["learner"], *(f"{score['median']:.3f} ({score['p10']:.3f})" for score in scores))
    return table


def _budget_table(report: "Report") -> Table:
    wide = report.by_budget().pivot_table(
        index="learner", columns="sms_granted", values="gap_recovered", dropna=False, sort=False
    )
    partial_device = report.partial_budgets
    table = _table("Budget gap recovered, by SMs granted", [*(str(sms) for sms in partial_device), "pooled"])
    for entry in report.summary():
        gaps = [*wide.loc[entry["learner"], partial_device], entry["gap_recovered"]]
        table.add_row(entry["learner"], *("< -10" if gap < -10 else _number(gap, ".2f") for gap in gaps))
    return table


def _cost_table(report: "Report") -> Table:
    table = _table("Means and costs", ("Score@1 [95 %]", "N_eps", "latency error", "bias", "learning s"))
    for entry in report.summary():
        name, score = entry["learner"], entry["score_at_1"]
        low, high = score["mean_ci95"]
        table.add_row(
            name,
            f"{score['mean']:.3f} [{low:.2f}, {high:.2f}]",
            _number(entry["n_eps"], ".1f"),
            _number(entry["latency_error"], ".1%"),
            _number(entry["latency_bias"], ".2f"),
            _number(report.seconds.get(name, math.nan), ".1f"),
        )
    return table


def _table(title: str, headers: Sequence[str]) -> Table:
    table = titled_table(title)
    table.add_column("learner", no_wrap=True)
    for header in headers:
        table.add_column(header, justify="right")
    return table


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
