"""``evaluate``: compare learners on held-out tasks, and report the results."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.arguments import check_texts, check_whole
from costmodel.dataset.splits._file import read_split
from costmodel.dataset.splits._make import STRATEGIES, Split, SplitRecipe, make_split
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.dataset.table._records import LATENCIES
from costmodel.evaluation._config import COMPARED, EvaluationConfig
from costmodel.evaluation._cross_validate import ModelFactory, cross_validate, evaluate_across, seeded_runs
from costmodel.evaluation._judge import RANDOM, FewShot
from costmodel.evaluation._report import EvaluationReport
from costmodel.evaluation._sides import SharedTasks
from costmodel.transfer._make import make_model


@dataclass(frozen=True)
class Across:
    """Learn from some datasets, and judge on another.

    Attributes:
        train: Datasets to learn from, all of them; one may stand by itself.
        test: The dataset to judge on.
        shared_tasks: What to do with tasks that both sides have: ``refuse`` to run, ``drop`` them from the
            training data, or ``keep`` all measurements except those judged.
        with_final_report: Whether both sides also use the workloads that a dataset reserves for its final
            report. Otherwise they are left out, and the report says how many.
    """

    train: DatasetLike | Sequence[DatasetLike]
    test: DatasetLike
    shared_tasks: SharedTasks = "refuse"
    with_final_report: bool = False

    @property
    def sources(self) -> tuple[DatasetLike, ...]:
        """The datasets to learn from."""
        one = isinstance(self.train, Dataset | Path | str)
        return (self.train,) if one else tuple(self.train)  # type: ignore[return-value, arg-type]


def evaluate(  # noqa: PLR0913 (settings, all with defaults)
    dataset: DatasetLike | None = None,
    learners: str | Sequence[str] = COMPARED,
    *,
    split: str | SplitRecipe | Across = "leave-one-workload-out",
    folds: int = 0,
    shots: int | Sequence[int] | FewShot = (),
    tasks: int | None = None,
    baseline: str | None = None,
    seed: int = 0,
    seeds: int = 1,
    **former: Any,
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
            ``whole-device-only``, ``few-shot``, ...), a ``SplitRecipe`` with more to say, the name of a split
            stored with the dataset, or ``Across`` datasets.
        folds: Number of groups to hold out, one group at a time. Default: 0, which holds out every workload,
            SM budget or device on its own.
        shots: Numbers of measurements of each tested task after which to evaluate, ascending, or a
            ``FewShot`` that says which configs are measured first. Default: none.
        tasks: Number of tasks to evaluate, spread over SM budgets and workloads. Default: all.
        baseline: Name of the learner with which the others are compared, task by task.
        seed: Seed of the learners and of random measurements.
        seeds: Number of runs of each learner that depends on a seed.
        **former: Keywords of 0.3, which warn and go in the next release.

    Raises:
        CostModelError: A name is unknown, a number is out of range, settings contradict each other, or the
            dataset has nothing to hold out.
    """
    config = EvaluationConfig.load(
        None,
        {
            "dataset": _name_of(dataset),
            **_split_settings(split, folds),
            **_shot_settings(shots),
            "learners": list(check_texts("learners", learners)),
            "baseline": baseline,
            "seed": seed,
            "seeds": seeds,
            "tasks": tasks,
            **_translate_former(former),
        },
    )
    models = _make_models(config)
    sides = Across(former.get("train", ()), former["test"]) if former.get("test") is not None else split
    if isinstance(sides, Across):
        return _evaluate_across(config, models, list(map(_load, sides.sources)), _load(sides.test))
    return _evaluate_within(config, models, _load(dataset))


def _split_settings(split: str | SplitRecipe | Across, folds: int) -> dict[str, Any]:
    """Return the settings of a configuration that say how learning and judging are kept apart."""
    if isinstance(split, Across):
        return {
            "train": [_name_of(each) for each in split.sources],
            "test": _name_of(split.test),
            "shared_tasks": split.shared_tasks,
            "with_final_report": split.with_final_report,
            "folds": folds,
        }
    if isinstance(split, SplitRecipe):
        return {
            "split": split.strategy,
            "folds": folds or split.folds,
            "keep_twins_apart": split.keep_twins_apart,
        }
    return {"split": split, "folds": folds}


def _shot_settings(shots: int | Iterable[int] | FewShot) -> dict[str, Any]:
    if isinstance(shots, FewShot):
        return {"shots": list(shots.shots), "first": shots.first}
    several = shots if isinstance(shots, Iterable) else (shots,)
    return {"shots": [check_whole("shots", each) for each in several]}


# Keywords that ``evaluate`` had until 0.3, and what says the same now.
_FORMER = {
    "train": "split=Across(train, test)",
    "test": "split=Across(train, test)",
    "shared_tasks": "split=Across(train, test, shared_tasks)",
    "keep_twins_apart": "split=SplitRecipe(strategy, keep_twins_apart=True)",
    "first": "shots=FewShot(shots, first)",
}


def _translate_former(former: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that former keywords mean, with a warning that shows the new form.

    Raises:
        TypeError: ``evaluate`` never had a keyword.
    """
    for name in former:
        if name not in _FORMER:
            raise TypeError(f"evaluate() got an unexpected keyword argument {name!r}")
        warnings.warn(
            f"evaluate({name}=...) is now written evaluate({_FORMER[name]}); the former keyword goes in 0.5.",
            DeprecationWarning,
            stacklevel=3,
        )
    settings = dict(former)
    if "train" in settings:
        settings["train"] = [_name_of(each) for each in settings["train"]]
    if "test" in settings:
        settings["test"] = _name_of(settings["test"])
    return settings


def _load(dataset: DatasetLike | None) -> Dataset:
    return load_dataset(dataset, facts=LATENCIES)


def _evaluate_within(
    config: EvaluationConfig, models: Mapping[str, list[ModelFactory]], data: Dataset
) -> EvaluationReport:
    """Evaluate on the folds of one dataset."""
    split = _make_split(config, data)
    report = cross_validate(data, models, split=split, few_shot=config.few_shot, tasks=config.tasks)
    folds = {"folds": [fold.held_out for fold in split.folds]}
    remarks = (*_describe_split(split), *report.remarks)
    return replace(
        report, baseline=config.baseline, remarks=remarks, source=_describe_source(config, data) | folds
    )


def _evaluate_across(
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
    learned = {"train": [_describe_dataset(each) for each in train], "shared_tasks": config.shared_tasks}
    return replace(report, baseline=config.baseline, source=_describe_source(config, test) | learned)


def _make_models(config: EvaluationConfig) -> dict[str, list[ModelFactory]]:
    """Make a factory for each run. Random choice is left out: every report has its exact expectation."""
    names = [name for name in config.learners if name != RANDOM]
    return {name: seeded_runs(partial(make_model, name), config.used_seeds) for name in names}


def _make_split(config: EvaluationConfig, data: Dataset) -> Split:
    if config.split not in STRATEGIES and data.file is not None:
        return read_split(data, config.split)
    recipe = SplitRecipe(config.split, keep_twins_apart=config.keep_twins_apart, folds=config.folds)
    return make_split(data, recipe)


def _describe_split(split: Split) -> list[str]:
    """Describe the near-twins and folds of a split, as sentences."""
    remarks = [f"Near-twins, held out together: {', '.join(group)}." for group in split.twins]
    if split.recipe.folds:
        held_out = sum(fold.held_out.count(" + ") + 1 for fold in split.folds)
        remarks.append(f"Held out: {held_out}, in {len(split.folds)} folds; all of a fold at once.")
    return remarks


def _describe_source(config: EvaluationConfig, judged: Dataset) -> dict[str, Any]:
    """Describe what was evaluated, as JSON values."""
    return {
        "config": config,
        **_describe_dataset(judged),
        "seed": config.seed,
        "seeds": config.used_seeds,
        "judged_tasks": config.tasks,
    }


def _describe_dataset(dataset: Dataset) -> dict[str, Any]:
    return {"dataset": dataset.name, "sha256": dataset.sha256}


def _name_of(dataset: DatasetLike | None) -> str | None:
    """Return the name by which a configuration refers to a dataset."""
    if dataset is None:
        return None
    return dataset.name if isinstance(dataset, Dataset) else str(dataset)
