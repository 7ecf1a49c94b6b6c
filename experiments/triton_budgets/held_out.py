"""What is held out: shapes with their near twins, or whole kernels; and how choices are judged."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from budgets import with_rows
from numpy.typing import NDArray

from costmodel.dataset import Dataset, Split, SplitRecipe
from costmodel.dataset.splits._folds import Fold
from costmodel.evaluation import EvaluationReport, FewShot, cross_validate
from costmodel.kernels.triton._source import TritonSource
from costmodel.records import Candidate, Workload
from costmodel.transfer import make_model

# Shapes of one kernel that differ in no dimension by more than this factor are near twins.
NEAR = 1.1

Labels = NDArray[np.object_]  # (n,) of each row


def only(data: Dataset, keep: Callable[[Candidate], bool]) -> Dataset:
    """The measurements of some of the candidates."""
    kept = np.array([keep(candidate) for candidate in data.candidates], dtype=np.bool_)
    return with_rows(data, kept[data.measurements["candidate"]])


def of_source(data: Dataset, source: str) -> Dataset:
    """The measurements of one source: a task has those of several."""
    return only(data, lambda candidate: candidate.source == source)


def on_device(data: Dataset, device: str) -> Dataset:
    """The measurements on one device."""
    there = np.array([each.device.name == device for each in data.platforms], dtype=np.bool_)
    return with_rows(data, there[data.measurements["platform"]])


def kernels_by_kind() -> dict[str, str]:
    """The kernel that computes each kind of workload; families that share a file are one kernel."""
    return {kind: family.file.parent.name for family in TritonSource().families for kind in family.kinds}


@dataclass(frozen=True)
class Known:
    """What each row of a dataset is of.

    Attributes:
        source: Source of its kernel.
        family: Family of its kernel.
        kernel: What computes its workload, in any type and with any epilogue.
        shape: Its kernel and dimensions; near twins have the same.
    """

    source: Labels
    family: Labels
    kernel: Labels
    shape: Labels

    @classmethod
    def of(cls, data: Dataset) -> "Known":
        """Look at each candidate once, and at each shape once."""
        kernels = kernels_by_kind()
        every = data.candidates
        kernel = [kernels.get(each.workload.kind, each.workload.shape.family) for each in every]
        shapes = _shapes({(k, each.workload) for k, each in zip(kernel, every, strict=True)})
        shape = [shapes[k, each.workload] for k, each in zip(kernel, every, strict=True)]
        at = data.rows["candidate"].to_numpy()
        columns = ([each.source for each in every], [each.family for each in every], kernel, shape)
        return cls(*(np.array(column, dtype=object)[at] for column in columns))


def _shapes(workloads: set[tuple[str, Workload]]) -> dict[tuple[str, Workload], str]:
    """The first shape of the kernel, in order of sizes, that each is a near twin of."""
    firsts: dict[str, list[Mapping[str, int]]] = {}
    found = {}
    for kernel, workload in sorted(workloads, key=lambda pair: (pair[0], *pair[1].dims.values())):
        dims = workload.shape.dims
        known = firsts.setdefault(kernel, [])
        first = next((each for each in known if are_near(each, dims)), None)
        if first is None:
            known.append(first := dims)
        found[kernel, workload] = "-".join([kernel, *(f"{dim}{size}" for dim, size in first.items())])
    return found


def are_near(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether sizes of the same dimensions are near each other."""
    return one.keys() == other.keys() and all(
        max(size, other[dim]) <= NEAR * min(size, other[dim]) for dim, size in one.items()
    )


def shape_folds(known: Known, count: int) -> tuple[Fold, ...]:
    """Folds that each hold out about as many shapes of each kernel."""
    group: dict[str, int] = {}
    of_kernel = Counter[str]()
    for shape, kernel in sorted(set(zip(known.shape, known.kernel, strict=True))):
        group[shape] = of_kernel[kernel] % count
        of_kernel[kernel] += 1
    groups = np.array([group[shape] for shape in known.shape])
    return tuple(Fold.of(f"shapes {i + 1} of {count}", groups == i) for i in np.unique(groups))


def kernel_folds(known: Known) -> tuple[Fold, ...]:
    """Folds that each hold out a kernel."""
    return tuple(Fold.of(str(kernel), known.kernel == kernel) for kernel in np.unique(known.kernel))


def judged(
    data: Dataset,
    folds: Sequence[Fold],
    learners: Sequence[str],
    name: str,
    shots: Sequence[int] = (),
) -> EvaluationReport:
    """Choices of learners among what each fold holds out."""
    models = {learner: partial(make_model, learner) for learner in learners}
    split = Split(name, SplitRecipe("leave-one-workload-out"), (), tuple(folds))
    few_shot = FewShot(tuple(shots)) if shots else None
    return cross_validate(data, models, split=split, few_shot=few_shot)


def with_families(tasks: pd.DataFrame, data: Dataset, known: Known) -> pd.DataFrame:
    """Rows of results with the family and the kernel of their task."""
    names = data.rows["task"].to_numpy()
    families, kernels = (dict(zip(names, column, strict=True)) for column in (known.family, known.kernel))
    return tasks.assign(
        family=tasks["task"].astype(str).map(families), kernel=tasks["task"].astype(str).map(kernels)
    )


def tasks_of(data: Dataset) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each task and its rows."""
    for name, rows in data.rows.groupby("task", observed=True, sort=False):
        yield str(name), rows
