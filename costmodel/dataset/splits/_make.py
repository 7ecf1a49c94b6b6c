"""Splits by name: what each strategy holds out of a dataset."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import Positions
from costmodel.dataset.splits._final import FINAL_REPORT, kept_for_final_report
from costmodel.dataset.splits._folds import (
    Fold,
    Labels,
    check_folds,
    draw_rows,
    few_shot,
    leave_out,
    on_whole_device,
    random_fold,
    whole_device_only,
)
from costmodel.dataset.splits._labels import Twins, labels_of
from costmodel.dataset.splits._similarity import device_similarity, twin_groups
from costmodel.dataset.table import Dataset
from costmodel.errors import CostModelError

# What each strategy holds out, one value after the other. With workloads, a model has never met what it is
# judged by, on any platform, nor one of the same shape in another dtype, layout or with another epilogue.
# With budgets (SMs granted, whatever the device) it knows the workload on others, with devices on others. An
# operator kind is an anchor with its epilogue: while `conv2d` is held out, `conv2d_relu` is not.
LEAVE_ONE_OUT = MappingProxyType(
    {
        "leave-one-workload-out": "workload",
        "leave-one-operator-kind-out": "kind",
        "leave-one-budget-out": "sms_granted",
        "leave-one-device-out": "device",
        "leave-one-architecture-out": "architecture",
    }
)
# As leave-one-workload-out, but what was measured of a workload on the whole device is there to learn from.
WHOLE_DEVICE_ONLY = "whole-device-only"
STRATEGIES = (*LEAVE_ONE_OUT, WHOLE_DEVICE_ONLY, "random", "few-shot", FINAL_REPORT)


class SplitRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a split is made.

    Attributes:
        strategy: One of ``STRATEGIES``.
        seed: Seed of ``random`` and ``few-shot``.
        share: Of ``random``: share of each task's rows that is held out.
        shots: Of ``few-shot``: rows of each held-out task that a model may learn from, failures among them;
            all but one where a task has no more.
        base: Of ``few-shot``: what holds tasks out, one of ``LEAVE_ONE_OUT``.
        keep_twins_apart: Where devices are held out: one by one, even where another is nearly the same.
        folds: Where one value after the other is held out: into how many groups these are put, of nearly as
            many rows each, to be held out together; 0 for each alone.
    """

    strategy: str
    seed: int = 0
    share: float = 0.2
    shots: int = 8
    base: str = "leave-one-workload-out"
    keep_twins_apart: bool = False
    folds: int = 0

    @property
    def column(self) -> str | None:
        """What is held out, one value after the other; None if rows are."""
        if self.strategy in (WHOLE_DEVICE_ONLY, FINAL_REPORT):
            return "workload"
        return LEAVE_ONE_OUT.get(self.base if self.strategy == "few-shot" else self.strategy)

    @property
    def parameters(self) -> dict[str, Any]:
        """Value of each parameter that the strategy uses; the seed is not among them."""
        own = {"random": ("share",), "few-shot": ("base", "shots")}.get(self.strategy, ())
        names = (*own, "keep_twins_apart") if self.column == "device" else own
        # Left out where it is 0, so that split files written before there were folds stay as they are.
        grouped = self.column and self.folds and self.strategy != FINAL_REPORT
        names = (*names, "folds") if grouped else names
        return {name: getattr(self, name) for name in names}

    def check(self) -> None:
        """Check the recipe.

        Raises:
            CostModelError: A value is not possible, or is given to a strategy that does not use it.
        """
        for must, got, holds in (
            (f"A split must be one of {', '.join(STRATEGIES)}", self.strategy, self.strategy in STRATEGIES),
            (f"The base must be one of {', '.join(LEAVE_ONE_OUT)}", self.base, self.base in LEAVE_ONE_OUT),
            ("The share held out must be more than 0 and less than 1", self.share, 0 < self.share < 1),
            ("The shots must be at least 1", self.shots, self.shots >= 1),
            ("The seed must be at least 0", self.seed, self.seed >= 0),
            ("The folds must be 0 or at least 2", self.folds, self.folds == 0 or self.folds > 1),
        ):
            if not holds:
                raise CostModelError(f"{must}, but got {got!r}.")
        used = {"strategy", "seed", *self.parameters}
        for field in msgspec.structs.fields(self):
            if field.name not in used and getattr(self, field.name) != field.default:
                raise CostModelError(
                    f"{field.name} must be left out, as {self.strategy} does not use it, but got "
                    f"{getattr(self, field.name)!r}."
                )


@dataclass(frozen=True)
class Split:
    """Folds of a dataset, and how they were made.

    Attributes:
        name: Its name; the strategy's if it has none of its own.
        recipe: How it was made.
        twins: Groups of devices that are held out as one.
        folds: The folds; no row is on the test side of two.
    """

    name: str
    recipe: SplitRecipe
    twins: Twins
    folds: tuple[Fold, ...]


def make_split(dataset: Dataset, recipe: SplitRecipe, name: str = "") -> Split:
    """Make a split; it depends on what was measured and not on the order of the rows.

    What the dataset keeps for its final report is on neither side of another split; see ``_final``.

    Args:
        dataset: What was measured.
        recipe: How to split it.
        name: Name of the split; that of the strategy if empty.

    Raises:
        CostModelError: The recipe is not possible, the dataset has nothing to hold out, or something leaks.
    """
    recipe.check()
    twins: Twins = ()
    if recipe.column == "device" and not recipe.keep_twins_apart:
        twins = twin_groups(device_similarity(dataset))
    labels = labels_of(dataset, recipe.column, twins)
    kept = kept_for_final_report(dataset)
    if recipe.strategy == FINAL_REPORT:
        folds: tuple[Fold, ...] = (_final_fold(dataset, kept),)
    else:
        rows = np.flatnonzero(~kept)
        folds = tuple(fold.among(rows) for fold in _folds(dataset, recipe, labels, rows))
    split = Split(name or recipe.strategy, recipe, twins, folds)
    check_split(dataset, split)
    return split


def check_split(dataset: Dataset, split: Split) -> None:
    """Check a split of this dataset, see ``check_folds``.

    Raises:
        CostModelError: The recipe is not possible, a side is empty, or something is on both sides.
    """
    split.recipe.check()
    if split.recipe.strategy != FINAL_REPORT:
        _check_untouched(split.folds, kept_for_final_report(dataset))
    labels = labels_of(dataset, split.recipe.column, split.twins)
    whole = on_whole_device(dataset.rows) if split.recipe.strategy == WHOLE_DEVICE_ONLY else None
    check_folds(split.folds, dataset.rows["task"].to_numpy(), labels, whole)


def _folds(dataset: Dataset, recipe: SplitRecipe, labels: Labels | None, rows: Positions) -> tuple[Fold, ...]:
    """The folds of some of a dataset's rows, by positions among these."""
    tasks = dataset.rows["task"].to_numpy()[rows]
    if labels is None:
        return (random_fold(tasks, draw_rows(dataset, recipe.seed)[rows], recipe.share),)
    folds = leave_out(labels[rows], recipe.folds)
    if recipe.strategy == WHOLE_DEVICE_ONLY:
        whole = on_whole_device(dataset.rows)[rows]
        held_out = (whole_device_only(fold, whole) for fold in folds)
        return _some(tuple(fold for fold in held_out if fold.test.size))
    if recipe.strategy == "few-shot":
        draws = draw_rows(dataset, recipe.seed)[rows]
        return tuple(few_shot(fold, tasks, draws, recipe.shots) for fold in folds)
    return folds


def _final_fold(dataset: Dataset, kept: NDArray[np.bool_]) -> Fold:
    """The fold that judges by what is kept.

    Raises:
        CostModelError: Nothing is.
    """
    if not kept.any():
        raise CostModelError(
            f"The split {FINAL_REPORT} judges by workloads that {dataset.name} keeps, but there are none."
        )
    return Fold.of(" + ".join(sorted(set(dataset.rows["workload"][kept]))), kept)


def _check_untouched(folds: Iterable[Fold], kept: NDArray[np.bool_]) -> None:
    for fold in folds:
        if kept[fold.train].any() or kept[fold.test].any():
            raise CostModelError(
                f"What is kept for the final report may be in no other split, but holding out "
                f"{fold.held_out} has some of it on a side: make the split again."
            )


def _some(folds: tuple[Fold, ...]) -> tuple[Fold, ...]:
    """These folds.

    Raises:
        CostModelError: There are none.
    """
    if not folds:
        raise CostModelError(
            f"The split {WHOLE_DEVICE_ONLY} tests what was measured on a part of a device, but nothing was: "
            "measure on fewer SMs, or choose another split."
        )
    return folds
