"""``costmodel evaluate``: compare learners on what they never saw."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from costmodel.cli._evaluate_report import print_report, write_report
from costmodel.cli._output import (
    DatasetArgument,
    FoldsOption,
    JsonOption,
    KeepTwinsApartOption,
    console,
    print_twins,
    progress,
    write_json,
)
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.evaluation import FewShot, ModelFactory, Report, SharedTasks

OnFold = Callable[[str, str], None]

# Those that are of use with any split, without torch, in minutes. A random learner is drawn by the report
# itself, as an exact expectation.
_COMPARED = (
    "nearest-task",
    "consensus",
    "ridge",
    "ridge-on-sources",
    "analytic",
    "kernel-ridge",
    "random-forest",
    "xgboost",
    "xgboost-rank",
    "stack",
)


def evaluate(
    dataset: DatasetArgument = None,
    *,
    train: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATASET", help="Learn from all of this dataset; repeatable.", show_default=False
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="DATASET", help="Judge what --train taught by all of this one.", show_default=False
        ),
    ] = None,
    shared_tasks: Annotated[
        str,
        typer.Option(
            metavar="refuse|drop|keep",
            help="Tasks of --test that --train has too: refuse them, drop them from what is learned, or keep "
            "all but what is judged itself.",
        ),
    ] = "refuse",
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Strategy such as leave-one-workload-out, leave-one-budget-out, leave-one-device-out, "
            "whole-device-only or few-shot, or a split that `costmodel dataset split` wrote.",
            show_default="leave-one-workload-out",
        ),
    ] = None,
    folds: FoldsOption = 0,
    keep_twins_apart: KeepTwinsApartOption = False,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Learner to compare, `NAME+intervals` and `NAME+guard` too; repeatable.",
            show_default=", ".join(_COMPARED),
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compare the others with it, task by task.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the learners, and of random measurements.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each learner that depends on a seed.")] = 1,
    shots: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Also measure each tested task: judge after so many measurements, as in 0,1,2,4,8,16.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[
        str,
        typer.Option(metavar="own|random", help="What is measured: the top of the learner's list, or draws."),
    ] = "own",
    tasks: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Judge N tasks, spread over SM budgets and workloads.",
            show_default="all",
        ),
    ] = None,
    json: JsonOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write report.json, tables (CSV) and pictures.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Also draw the result by SM budget.", show_default=False),
    ] = None,
) -> None:
    """Compare learners on workloads that they never saw, each held out in turn with all its SM budgets.

    Other splits hold out an SM budget, a device, its architecture or an operator kind, or know of a workload
    what was measured on the whole device only. Named as a strategy, a split has default parameters. Devices
    that measured nearly the same are held out as one. With --train and --test, one dataset teaches and
    another judges.

    Examples:
    - `costmodel evaluate --plot report.png`
    - `costmodel evaluate datasets/mine --folds 6 --seeds 3 --baseline consensus --out out/report`
    - `costmodel evaluate datasets/mine --learner xgboost --shots 0,1,2,4,8,16 --tasks 200`
    - `costmodel evaluate datasets/mine --split whole-device-only --folds 6 --shots 0,4`
    - `costmodel evaluate datasets/convolution --split leave-one-device-out`
    - `costmodel evaluate --train datasets/mine --test datasets/blind --learner xgboost`
    """
    from costmodel.evaluation import RANDOM

    names = learner or _COMPARED
    if baseline is not None and baseline not in (RANDOM, *names):
        raise CostModelError(
            f"The baseline must be among the learners, {', '.join((RANDOM, *names))}, but got {baseline!r}."
        )
    used = list(range(seed, seed + seeds))
    judge = _Judge(_runs(names, used), _few_shot(shots, first, seed), tasks)
    if train or test:
        if dataset or split or folds or keep_twins_apart or not train or not test:
            raise CostModelError(
                "--train and --test must be given together, without DATASET, --split, --folds or "
                "--keep-twins-apart: all of one dataset is learned from, and all of the other is judged."
            )
        report, source = judge.between(train, test, cast("SharedTasks", shared_tasks))
    else:
        report, source = judge.within(dataset, split or "leave-one-workload-out", folds, keep_twins_apart)
    print_report(report, baseline)
    if plot:
        from costmodel.evaluation import plot_report

        plot_report(report, plot)
        console.print(f"Drawn: {plot}", soft_wrap=True, highlight=False)
    document = {**source, "seed": seed, "seeds": used, "judged_tasks": tasks, **report.to_dict(baseline)}
    write_json(json, document)
    if out:
        write_report(report, out, document, baseline)


def _runs(names: Sequence[str], seeds: Sequence[int]) -> "dict[str, list[ModelFactory]]":
    from functools import partial

    from costmodel.evaluation import seeded_runs
    from costmodel.transfer import make_model

    return {name: seeded_runs(partial(make_model, name), seeds) for name in names}


def _few_shot(shots: str | None, first: str, seed: int) -> "FewShot | None":
    from costmodel.evaluation import FewShot

    if shots is None:
        return None
    try:
        numbers = tuple(int(number) for number in shots.split(","))
    except ValueError:
        raise CostModelError(
            f"Shots must be whole numbers with commas between them, as in 0,1,2,4,8, but got {shots!r}."
        ) from None
    return FewShot(numbers, cast("Any", first), seed)


class _Judge:
    """Runs the evaluation beside a display of how far it is.

    Args:
        models: Factories of each learner.
        few_shot: How tasks are measured.
        tasks: How many are judged.
    """

    def __init__(
        self, models: "dict[str, list[ModelFactory]]", few_shot: "FewShot | None", tasks: int | None
    ) -> None:
        self._models, self._few_shot, self._tasks = models, few_shot, tasks

    def within(
        self, dataset: Path | None, split: str, folds: int, keep_twins_apart: bool
    ) -> "tuple[Report, dict[str, Any]]":
        """Evaluate on the folds of one dataset; the report, and what it was made of."""
        from costmodel.dataset import (
            STRATEGIES,
            SplitRecipe,
            dataset_hash,
            load_dataset,
            make_split,
            read_split,
            shipped_dataset,
        )
        from costmodel.evaluation import evaluate as evaluate_on

        path = dataset or shipped_dataset()
        data = load_dataset(path)
        if split in STRATEGIES:
            recipe = SplitRecipe(split, keep_twins_apart=keep_twins_apart, folds=folds)
            made = make_split(data, recipe)
        else:
            made = read_split(path, data, split)
        print_twins(made)
        if made.recipe.folds:
            held_out = sum(fold.held_out.count(" + ") + 1 for fold in made.folds)
            console.print(
                f"{held_out} of what is held out in {len(made.folds)} folds, each held out as one.",
                highlight=False,
            )
        with progress() as display:
            bar = display.add_task("Evaluating", total=len(made.folds) * sum(map(len, self._models.values())))

            def advance(held_out: str, name: str) -> None:
                display.update(bar, description=f"{name} without {held_out[:40]}", advance=1)

            report = evaluate_on(
                data,
                self._models,
                split=made,
                few_shot=self._few_shot,
                tasks=self._tasks,
                on_fold=advance,
            )
        folds_of = [fold.held_out for fold in made.folds]
        return report, {"path": path, "sha256": dataset_hash(path), "folds": folds_of}

    def between(
        self, train: Sequence[Path], test: Path, shared_tasks: "SharedTasks"
    ) -> "tuple[Report, dict[str, Any]]":
        """Evaluate what some datasets teach on another; the report, and what it was made of."""
        from costmodel.dataset import dataset_hash, load_dataset
        from costmodel.evaluation import evaluate_between

        with console.status(f"Learning from {', '.join(map(str, train))}"):
            report = evaluate_between(
                [load_dataset(path) for path in train],
                load_dataset(test),
                self._models,
                shared_tasks=shared_tasks,
                few_shot=self._few_shot,
                tasks=self._tasks,
            )
        return report, {
            "train": [{"path": path, "sha256": dataset_hash(path)} for path in train],
            "path": test,
            "sha256": dataset_hash(test),
            "shared_tasks": shared_tasks,
        }
