"""``evaluate``: compare learners on held-out tasks, and report the results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from costmodel.dataset.splits._file import read_split
from costmodel.dataset.splits._make import STRATEGIES, Split, SplitRecipe, make_split
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.dataset.table._records import LATENCIES
from costmodel.evaluation._config import COMPARED, EvaluationConfig
from costmodel.evaluation._cross_validate import ModelFactory, cross_validate, evaluate_across
from costmodel.evaluation._report import EvaluationReport
from costmodel.evaluation._runs import seeded_runs
from costmodel.evaluation.judging._judge import RANDOM
from costmodel.evaluation.sides._datasets import SharedTasks
from costmodel.transfer._make import make_model


def evaluate(  # noqa: PLR0913 (settings, all with defaults)
    dataset: DatasetLike | None = None,
    learners: str | Sequence[str] = COMPARED,
    *,
    split: str = "leave-one-workload-out",
    folds: int = 0,
    keep_twins_apart: bool = False,
    train: Sequence[DatasetLike] = (),
    test: DatasetLike | None = None,
    shared_tasks: SharedTasks = "refuse",
    with_final_report: bool = False,
    shots: Sequence[int] = (),
    first: Literal["own", "random"] = "own",
    tasks: int | None = None,
    baseline: str | None = None,
    seed: int = 0,
    seeds: int = 1,
) -> EvaluationReport:
    """Compare learners on held-out workloads, SM budgets or devices.

    The report compares every learner with two references: random choice and the whole-device choice. Configs
    with equal scores count as randomly ordered. Progress is shown as a bar or, in a log, as occasional lines.

    Example:
        >>> import costmodel
        >>> report = costmodel.evaluate(learners=["consensus", "kernel-ridge"], folds=6)  # doctest: +SKIP
        >>> report.summary()[["score_at_1", "gap_recovered"]]  # doctest: +SKIP

    Args:
        dataset: Dataset to split: a dataset, the name of a shipped one, or a path. Default: the default
            shipped dataset.
        learners: Names of learners, including ``NAME+intervals`` and ``NAME+guard``.
        split: A strategy (``leave-one-workload-out``, ``leave-one-budget-out``, ``leave-one-device-out``,
            ``whole-device-only``, ``few-shot``, ...), or the name of a split stored with the dataset.
        folds: Number of groups to hold out, one group at a time. Default: 0, which holds out every workload,
            SM budget or device on its own.
        keep_twins_apart: Hold out near-twin devices one at a time. Default: near-twins are held out together.
        train: Datasets to learn from, all of them, instead of a split.
        test: The dataset to evaluate on. Requires ``train``.
        shared_tasks: What to do with tasks that ``train`` and ``test`` share: ``refuse`` to run, ``drop``
            them from the training data, or ``keep`` all measurements except those evaluated.
        with_final_report: Whether ``train`` and ``test`` also use the workloads that a dataset reserves for
            its final report. Default: they are left out, and the report says how many.
        shots: Numbers of measurements of each tested task after which to evaluate, ascending. Default: none.
        first: Which configs are measured first: the top of the learner's ``own`` list, or ``random`` ones.
        tasks: Number of tasks to evaluate, spread over SM budgets and workloads. Default: all.
        baseline: Name of the learner with which the others are compared, task by task.
        seed: Seed of the learners and of random measurements.
        seeds: Number of runs of each learner that depends on a seed.

    Raises:
        CostModelError: A name is unknown, a number is out of range, settings contradict each other, or the
            dataset has nothing to hold out.
    """
    config = EvaluationConfig.load(
        None,
        {
            "dataset": _name(dataset),
            "train": [_name(each) for each in train],
            "test": _name(test),
            "shared_tasks": shared_tasks,
            "with_final_report": with_final_report,
            "split": split,
            "folds": folds,
            "keep_twins_apart": keep_twins_apart,
            "learners": [learners] if isinstance(learners, str) else list(learners),
            "baseline": baseline,
            "seed": seed,
            "seeds": seeds,
            "shots": list(shots),
            "first": first,
            "tasks": tasks,
        },
    )
    models = _models(config)
    if test is not None:
        return _across(config, models, list(map(_load, train)), _load(test))
    return _within(config, models, _load(dataset))


def _load(dataset: DatasetLike | None) -> Dataset:
    return load_dataset(dataset, facts=LATENCIES)


def _within(
    config: EvaluationConfig, models: Mapping[str, list[ModelFactory]], data: Dataset
) -> EvaluationReport:
    """Evaluate on the folds of one dataset."""
    split = _split(config, data)
    report = cross_validate(data, models, split=split, few_shot=config.few_shot, tasks=config.tasks)
    folds = {"folds": [fold.held_out for fold in split.folds]}
    remarks = (*_remarks(split), *report.remarks)
    return replace(report, baseline=config.baseline, remarks=remarks, source=_source(config, data) | folds)


def _across(
    config: EvaluationConfig,
    models: Mapping[str, list[ModelFactory]],
    train: Sequence[Dataset],
    test: Dataset,
) -> EvaluationReport:
    """Train on some datasets and evaluate on another."""
    report = evaluate_across(
        train,
        test,
        models,
        shared_tasks=config.shared_tasks,
        few_shot=config.few_shot,
        tasks=config.tasks,
        with_final_report=config.with_final_report,
    )
    learned = {"train": [_described(each) for each in train], "shared_tasks": config.shared_tasks}
    return replace(report, baseline=config.baseline, source=_source(config, test) | learned)


def _models(config: EvaluationConfig) -> dict[str, list[ModelFactory]]:
    """Make a factory for each run. Random choice is left out: every report has its exact expectation."""
    names = [name for name in config.learners if name != RANDOM]
    return {name: seeded_runs(partial(make_model, name), config.used_seeds) for name in names}


def _split(config: EvaluationConfig, data: Dataset) -> Split:
    if config.split not in STRATEGIES and data.file is not None:
        return read_split(data, config.split)
    recipe = SplitRecipe(config.split, keep_twins_apart=config.keep_twins_apart, folds=config.folds)
    return make_split(data, recipe)


def _remarks(split: Split) -> list[str]:
    """Describe the near-twins and folds of a split, as sentences."""
    remarks = [f"Near-twins, held out together: {', '.join(group)}." for group in split.twins]
    if split.recipe.folds:
        held_out = sum(fold.held_out.count(" + ") + 1 for fold in split.folds)
        remarks.append(f"Held out: {held_out}, in {len(split.folds)} folds; all of a fold at once.")
    return remarks


def _source(config: EvaluationConfig, judged: Dataset) -> dict[str, Any]:
    """Describe what was evaluated, as JSON values."""
    return {
        "config": config,
        **_described(judged),
        "seed": config.seed,
        "seeds": config.used_seeds,
        "judged_tasks": config.tasks,
    }


def _described(dataset: Dataset) -> dict[str, Any]:
    return {"dataset": dataset.name, "sha256": dataset.sha256}


def _name(dataset: DatasetLike | None) -> str | None:
    """Return the name by which a configuration refers to a dataset."""
    if dataset is None:
        return None
    return dataset.name if isinstance(dataset, Dataset) else str(dataset)
