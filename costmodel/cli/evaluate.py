"""``costmodel evaluate``: compare learners on what they never saw."""

from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from costmodel.cli._evaluate_report import print_report
from costmodel.cli._options import (
    DATASETS,
    LEARNERS,
    MEASUREMENTS,
    OUTPUT,
    SPLIT,
    DatasetArgument,
    FoldsOption,
    JsonOption,
    KeepTwinsApartOption,
    complete_learner,
    complete_split,
    count_option,
    output_option,
    said,
    seed_option,
)
from costmodel.cli._output import print_line, write_json
from costmodel.cli._tracking import (
    ExperimentOption,
    Tracking,
    TrackingUriOption,
    TrackOption,
)
from costmodel.errors import CostModelError
from costmodel.evaluation._config import EvaluationConfig

_DEFAULTS = EvaluationConfig()


def evaluate(
    context: typer.Context,
    dataset: DatasetArgument = None,
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with `dataset` and any of the options below, see configs/evaluate-*.toml. The "
            "command "
            "line overrides it.",
            show_default=False,
            rich_help_panel=DATASETS,
        ),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATASET",
            help="Train on this whole dataset. Repeatable.",
            show_default=False,
            rich_help_panel=DATASETS,
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Evaluate the model trained on --train on this whole dataset.",
            show_default=False,
            rich_help_panel=DATASETS,
        ),
    ] = None,
    shared_tasks: Annotated[
        str,
        typer.Option(
            metavar="<refuse|drop|keep>",
            help="Tasks of --test that are in --train too: refuse to run, drop them from training, or keep "
            "all but "
            "the evaluated measurements themselves.",
            rich_help_panel=DATASETS,
        ),
    ] = _DEFAULTS.shared_tasks,
    with_final_report: Annotated[
        bool,
        typer.Option(
            "--with-final-report",
            help="Also use the workloads that --train and --test reserve for their final reports.",
            rich_help_panel=DATASETS,
        ),
    ] = _DEFAULTS.with_final_report,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_split,
            help="Strategy such as leave-one-workload-out, leave-one-budget-out, leave-one-device-out, "
            "whole-device-only or few-shot, or a split that `costmodel dataset split` wrote.",
            show_default=_DEFAULTS.split,
            rich_help_panel=SPLIT,
        ),
    ] = None,
    folds: FoldsOption = _DEFAULTS.folds,
    keep_twins_apart: KeepTwinsApartOption = _DEFAULTS.keep_twins_apart,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_learner,
            help="Learner to compare, also as `NAME+intervals` or `NAME+guard`. Repeatable.",
            show_default=", ".join(_DEFAULTS.learners),
            rich_help_panel=LEARNERS,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Learner to compare the others with, task by task.",
            show_default=False,
            rich_help_panel=LEARNERS,
        ),
    ] = None,
    seed: Annotated[
        int, seed_option("Seed of the learners, and of random measurements.", rich_help_panel=LEARNERS)
    ] = (_DEFAULTS.seed),
    seeds: Annotated[
        int,
        count_option(help="Number of runs of each learner that depends on a seed.", rich_help_panel=LEARNERS),
    ] = (_DEFAULTS.seeds),
    shots: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Also measure some kernels of each tested task: evaluate after these numbers of "
            "measurements, such as 0,1,2,4,8,16.",
            show_default=False,
            rich_help_panel=MEASUREMENTS,
        ),
    ] = None,
    first: Annotated[
        str,
        typer.Option(
            metavar="<own|random>",
            help="Which kernels are measured: the top of the learner's own ranking, or random ones.",
            rich_help_panel=MEASUREMENTS,
        ),
    ] = _DEFAULTS.first,
    tasks: Annotated[
        int | None,
        count_option(
            help="Number of tasks to evaluate, spread over SM budgets and workloads.",
            show_default="all",
            rich_help_panel=SPLIT,
        ),
    ] = None,
    json: JsonOption = None,
    out: Annotated[
        Path | None,
        output_option(
            metavar="DIR",
            help="Also write report.json, tables (CSV) and pictures to this folder.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        output_option(
            metavar="FILE.png",
            help="Also plot the result (PNG, PDF or SVG), by SM budget if there are several.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    track: TrackOption = False,
    tracking_uri: TrackingUriOption = None,
    experiment: ExperimentOption = None,
) -> None:
    """Compare learners on held-out workloads, each held out in turn with all its SM budgets.

    Other splits hold out an SM budget, a device, its architecture or an operator kind, or train only on what
    was measured of a workload on the whole device. A split named by its strategy has default parameters.
    Devices with nearly the same measurements are held out as one. With --train and --test, learners train on
    one dataset and are evaluated on another.

    Examples:
    - `costmodel evaluate --plot report.png`
    - `costmodel evaluate --config configs/evaluate-workloads.toml --tasks 200`
    - `costmodel evaluate datasets/mine --folds 6 --seeds 3 --baseline consensus --out out/report`
    - `costmodel evaluate datasets/mine --learner xgboost --shots 0,1,2,4,8,16 --tasks 200`
    - `costmodel evaluate datasets/mine --split whole-device-only --folds 6 --shots 0,4`
    - `costmodel evaluate datasets/convolution --split leave-one-device-out`
    - `costmodel evaluate --train datasets/mine --test datasets/blind --learner xgboost`
    - `costmodel evaluate datasets/mine --seeds 3 --track`
    """
    from costmodel.dataset.publish._describe import describe_used_dataset
    from costmodel.dataset.splits._make import SplitRecipe
    from costmodel.dataset.table._read import load_dataset
    from costmodel.dataset.table._records import LATENCIES
    from costmodel.evaluation._report import describe_report
    from costmodel.tuning._evaluate import Across
    from costmodel.tuning._evaluate import evaluate as run_evaluation

    chosen = EvaluationConfig.load(config, _given(context))
    judged = load_dataset(chosen.test or chosen.dataset, facts=LATENCIES)
    learned = [load_dataset(each, facts=LATENCIES) for each in chosen.train]
    apart: str | SplitRecipe | Across = chosen.split
    if learned:
        apart = Across(learned, judged, chosen.shared_tasks, chosen.with_final_report)
    elif chosen.keep_twins_apart:
        apart = SplitRecipe(chosen.split, keep_twins_apart=True)
    settings = {**asdict(chosen), "config": config, "dataset": judged.name, "seeds": chosen.used_seeds}
    name = f"{judged.name}, {'learned from another' if chosen.train else chosen.split}"
    with Tracking.of(context).run(name, settings) as run:
        run.log(describe_used_dataset(each, "training") for each in learned)
        run.log(describe_used_dataset(each, "evaluation") for each in [judged])
        report = run_evaluation(
            None if learned else judged,
            chosen.learners,
            split=apart,
            folds=chosen.folds,
            shots=chosen.few_shot or (),
            tasks=chosen.tasks,
            baseline=chosen.baseline,
            seed=chosen.seed,
            seeds=chosen.seeds,
        )
        print_report(report)
        if plot:
            report.plot(plot)
            print_line(f"Drawn: {plot}")
        if out:
            report.save(out)
            print_line(f"Written: {out}")
        if json:
            write_json(json, report.to_dict())
        run.log(describe_report(report))


def _given(context: typer.Context) -> dict[str, Any]:
    """What the command line says itself and not by its defaults, by the keys of a file."""
    given = {name: context.params[name] for name in said(context)}
    if "learner" in given:
        given["learners"] = given["learner"]
    if "shots" in given:
        given["shots"] = _numbers(given["shots"])
    return {key: given[key] for key in EvaluationConfig.__struct_fields__ if key in given}


def _numbers(shots: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in shots.split(","))
    except ValueError:
        raise CostModelError(
            f"Shots must be whole numbers with commas between them, as in 0,1,2,4,8, but got {shots!r}."
        ) from None
