"""Splits by name: what each strategy holds out, and shapes reserved for one final report, which none uses."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.arrays import Positions
from costmodel.dataset.splits._folds import (
    Fold,
    Labels,
    Twins,
    check_folds,
    draw_rows,
    few_shot,
    keep_whole_device,
    labels_of,
    leave_out,
    random_fold,
    select_whole_device,
)
from costmodel.dataset.splits._similarity import device_similarity, twin_groups
from costmodel.dataset.table._candidates import Candidates
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._files import add_checksums, check_checksum
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import is_file, read_json
from costmodel.records._workload import Workload

FINAL_REPORT = "final-report"
FILE_NAME = "final_report.json"
_SHARE = 1 / 3


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
    """Parameters of a split.

    Attributes:
        strategy: One of ``STRATEGIES``.
        seed: Seed of ``random`` and ``few-shot``.
        share: For ``random``: fraction of each task's rows that is held out.
        shots: For ``few-shot``: number of rows of each held-out task that a model may learn from, failures
            included. At least one row of each task is kept for the test.
        base: For ``few-shot``: the strategy that holds tasks out, one of ``LEAVE_ONE_OUT``.
        keep_twins_apart: Where devices are held out: hold each out alone, even if another one is nearly the
            same.
        folds: Where values are held out one by one: number of groups, of nearly equal numbers of rows, that
            are held out together. 0 holds each value out alone.
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
        """What is held out value by value; None if rows are held out."""
        if self.strategy in (WHOLE_DEVICE_ONLY, FINAL_REPORT):
            return "workload"
        return LEAVE_ONE_OUT.get(self.base if self.strategy == "few-shot" else self.strategy)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the value of each parameter that the strategy uses, without the seed."""
        own = {"random": ("share",), "few-shot": ("base", "shots")}.get(self.strategy, ())
        names = (*own, "keep_twins_apart") if self.column == "device" else own
        # Left out where it is 0, so that split files written before there were folds stay as they are.
        grouped = self.column and self.folds and self.strategy != FINAL_REPORT
        names = (*names, "folds") if grouped else names
        return {name: getattr(self, name) for name in names}

    def check(self) -> None:
        """Validate the recipe.

        Raises:
            CostModelError: If a value is out of range, or is given to a strategy that does not use it.
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
        name: Name of the split. Default: the name of the strategy.
        recipe: How the split was made.
        twins: Groups of devices that are held out together.
        folds: The folds. No row is on the test side of two folds.
    """

    name: str
    recipe: SplitRecipe
    twins: Twins
    folds: tuple[Fold, ...]


def make_split(dataset: Dataset, recipe: SplitRecipe, name: str | None = None) -> Split:
    """Make a split. It depends on what was measured, not on the order of the rows.

    Workloads that the dataset reserves for its final report are on neither side of any other split; see
    ``_final``.

    Args:
        dataset: Dataset to split.
        recipe: How to split it.
        name: Name of the split. Default: the name of the strategy.

    Raises:
        CostModelError: If the recipe is invalid, there is nothing to hold out, or the split would leak test
            data.
    """
    recipe.check()
    twins: Twins = ()
    if recipe.column == "device" and not recipe.keep_twins_apart:
        twins = twin_groups(device_similarity(dataset))
    labels = labels_of(dataset, recipe.column, twins)
    kept = find_final_report(dataset)
    if recipe.strategy == FINAL_REPORT:
        folds: tuple[Fold, ...] = (_final_fold(dataset, kept),)
    else:
        rows = np.flatnonzero(~kept)
        folds = tuple(fold.among(rows) for fold in _folds(dataset, recipe, labels, rows))
    split = Split(recipe.strategy if name is None else name, recipe, twins, folds)
    check_split(dataset, split)
    return split


def check_split(dataset: Dataset, split: Split) -> None:
    """Check a split of this dataset, see ``check_folds``.

    Raises:
        CostModelError: The recipe is not possible, a side is empty, or something is on both sides.
    """
    split.recipe.check()
    if split.recipe.strategy != FINAL_REPORT:
        _check_untouched(split.folds, find_final_report(dataset))
    labels = labels_of(dataset, split.recipe.column, split.twins)
    whole = select_whole_device(dataset.rows) if split.recipe.strategy == WHOLE_DEVICE_ONLY else None
    check_folds(split.folds, dataset.rows["task"].to_numpy(), labels, whole)


def _folds(dataset: Dataset, recipe: SplitRecipe, labels: Labels | None, rows: Positions) -> tuple[Fold, ...]:
    """Return the folds of some of a dataset's rows, by positions among these."""
    tasks = dataset.rows["task"].to_numpy()[rows]
    if labels is None:
        return (random_fold(tasks, draw_rows(dataset, recipe.seed)[rows], recipe.share),)
    folds = leave_out(labels[rows], recipe.folds)
    if recipe.strategy == WHOLE_DEVICE_ONLY:
        whole = select_whole_device(dataset.rows)[rows]
        held_out = (keep_whole_device(fold, whole) for fold in folds)
        return _some(tuple(fold for fold in held_out if fold.test.size))
    if recipe.strategy == "few-shot":
        draws = draw_rows(dataset, recipe.seed)[rows]
        return tuple(few_shot(fold, tasks, draws, recipe.shots) for fold in folds)
    return folds


def _final_fold(dataset: Dataset, kept: NDArray[np.bool_]) -> Fold:
    """Return the fold that judges by what is kept.

    Raises:
        CostModelError: Nothing is.
    """
    if not kept.any():
        raise CostModelError(
            f"The split {FINAL_REPORT} tests on workloads that {dataset.name} reserves, but it reserves none."
        )
    return Fold.of(" + ".join(sorted(set(dataset.rows["workload"][kept]))), kept)


def _check_untouched(folds: Iterable[Fold], kept: NDArray[np.bool_]) -> None:
    for fold in folds:
        if kept[fold.train].any() or kept[fold.test].any():
            raise CostModelError(
                "Shapes reserved for the final report may be in no other split, but holding out "
                f"{fold.held_out} leaves some of them on a side. Make the split again."
            )


def _some(folds: tuple[Fold, ...]) -> tuple[Fold, ...]:
    """These folds.

    Raises:
        CostModelError: There are none.
    """
    if not folds:
        raise CostModelError(
            f"The split {WHOLE_DEVICE_ONLY} tests on measurements on a part of a device, but there are "
            "none. Measure on fewer SMs, or choose another split."
        )
    return folds


@dataclass(frozen=True)
class FoldSize:
    """Size of the two sides of a fold.

    Attributes:
        held_out: What is on the test side.
        train_rows: Number of training rows.
        shots: Number of training rows that belong to what is held out.
        test_rows: Number of test rows.
        tasks: Number of tasks among the test rows.
    """

    held_out: str
    train_rows: int
    shots: int
    test_rows: int
    tasks: int


def fold_sizes(dataset: Dataset, split: Split) -> tuple[FoldSize, ...]:
    """Return the size of each fold of a split of this dataset."""
    tasks = dataset.rows["task"]
    return tuple(
        FoldSize(
            held_out=fold.held_out,
            train_rows=fold.train.size,
            shots=fold.shots.size,
            test_rows=fold.test.size,
            tasks=int(tasks.iloc[fold.test].nunique()),
        )
        for fold in split.folds
    )


def choose_final_shapes(workloads: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """By family, names of the shapes to keep: a third of each, rounded, by the hash of their names.

    Args:
        workloads: Names of what was measured.
    """
    of_family: dict[str, set[str]] = {}
    for name in workloads:
        shape = Workload.parse(name).shape
        of_family.setdefault(shape.family, set()).add(shape.name)
    return {
        family: tuple(sorted(sorted(shapes, key=_hash)[: round(_SHARE * len(shapes))]))
        for family, shapes in sorted(of_family.items())
    }


def write_final_shapes(dataset: Dataset) -> Path:
    """Choose the shapes of a dataset's final report, and write them into its folder.

    Raises:
        CostModelError: If the dataset was not read from a file, or its folder cannot be written.
    """
    if dataset.file is None:
        raise CostModelError(
            "A final report must be of a dataset in a folder, but this one was made in memory."
        )
    folder = dataset.file.path.parent
    chosen = choose_final_shapes(dataset.workloads)
    write_whole(folder / FILE_NAME, msgspec.json.format(msgspec.json.encode(chosen), indent=2) + b"\n")
    add_checksums(folder, [FILE_NAME])
    return folder / FILE_NAME


def find_final_report(dataset: Dataset) -> NDArray[np.bool_]:
    """``(n,)`` whether each row of a dataset is kept for its final report; none where it has no such file.

    Raises:
        CostModelError: The file is damaged.
    """
    return _kept_candidates(dataset)[dataset.rows["candidate"]]


def drop_final_report(dataset: Dataset) -> Dataset:
    """Return the dataset without what it reserves for its final report, or unchanged if it reserves nothing.

    Raises:
        CostModelError: If the file that lists the reserved shapes is damaged.
    """
    kept = _kept_candidates(dataset)
    if not kept.any():
        return dataset
    left = ~kept
    place = np.cumsum(left) - 1
    rows = dataset.measurements[left[dataset.measurements["candidate"]]]
    return Dataset(
        Candidates(dataset.columns.table.filter(pa.array(left))),
        dataset.platforms,
        rows.assign(candidate=place[rows["candidate"]]).reset_index(drop=True),
    )


def _kept_candidates(dataset: Dataset) -> NDArray[np.bool_]:
    """Return ``(c,)`` whether each candidate is of a shape that is kept."""
    shapes = {name for names in _final_shapes(dataset).values() for name in names}
    columns = dataset.columns
    kept = np.array([workload.shape.name in shapes for workload in columns.workloads], dtype=np.bool_)
    return np.asarray(kept[columns.workload_of])


def _final_shapes(dataset: Dataset) -> Mapping[str, tuple[str, ...]]:
    file = dataset.file.path.parent / FILE_NAME if dataset.file else None
    if file is None or not is_file(file):
        return {}
    check_checksum(file.parent, file.name)
    return read_json(file, dict[str, tuple[str, ...]], "a list of shapes by family", remedy="Write it again.")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
