"""Two sides of whole datasets: what is learned from, and what it is judged by."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset.splits._folds import Fold
from costmodel.dataset.table._dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform

SharedTasks = Literal["refuse", "drop", "keep"]
SHARED_TASKS: tuple[SharedTasks, ...] = get_args(SharedTasks)

Codes = NDArray[np.int64]
T = TypeVar("T")


def put_apart(train: Sequence[Dataset], test: Dataset, shared_tasks: SharedTasks) -> tuple[Dataset, Fold]:
    """One dataset of both sides, and the fold that learns from one and is judged by the other.

    A candidate that both sides measured on one platform is judged and never learned from.

    Args:
        train: What is learned from.
        test: What is judged by.
        shared_tasks: As of ``evaluate_across``.

    Raises:
        CostModelError: A task is on both sides and must not be, or nothing is left to learn from.
    """
    if shared_tasks not in SHARED_TASKS:
        raise CostModelError(
            f"Shared tasks must be one of {', '.join(SHARED_TASKS)}, but got {shared_tasks!r}."
        )
    joined = join([*train, test])
    frame = joined.measurements
    judged = np.arange(len(frame)) >= len(frame) - len(test.measurements)
    tasks, pairs = _tasks_and_pairs(joined, frame)
    shared = ~judged & np.isin(tasks, tasks[judged])
    if shared.any() and shared_tasks == "refuse":
        raise _refusal(joined, frame[shared], np.unique(tasks[shared]).size)
    dropped = shared if shared_tasks == "drop" else ~judged & np.isin(pairs, pairs[judged])
    kept = Dataset(joined.candidates, joined.platforms, frame[~dropped].reset_index(drop=True))
    in_test = np.isin(_tasks_and_pairs(joined, kept.rows)[1], pairs[judged])
    if in_test.all():
        raise CostModelError(
            "There must be something to learn from, but all of it is of tasks that are judged: name another "
            "dataset to learn from."
        )
    return kept, Fold.of("the other dataset", in_test)


def join(datasets: Iterable[Dataset]) -> Dataset:
    """The measurements of datasets one after the other, over the candidates and platforms of all of them.

    What is known of a candidate's launches, and of a platform's software, is what the first dataset that has
    it says. What two of them measured counts as measured twice.
    """
    candidates: dict[str, tuple[int, Candidate]] = {}
    platforms: dict[str, tuple[int, Platform]] = {}
    frames = []
    for dataset in datasets:
        frame = dataset.measurements
        candidate_of = _places(dataset.candidates, dataset.columns.ids, candidates)
        platform_of = _places(dataset.platforms, [p.platform_id for p in dataset.platforms], platforms)
        frames.append(
            frame.assign(candidate=candidate_of[frame["candidate"]], platform=platform_of[frame["platform"]])
        )
    return Dataset(
        tuple(candidate for _, candidate in candidates.values()),
        tuple(platform for _, platform in platforms.values()),
        pd.concat(frames, ignore_index=True),
    )


def _places(objects: Sequence[T], ids: Sequence[str], known: dict[str, tuple[int, T]]) -> Codes:
    """Each object's place among those that are known by id, to which new ones are added."""
    return np.array(
        [known.setdefault(name, (len(known), item))[0] for name, item in zip(ids, objects, strict=True)]
    )


def _tasks_and_pairs(dataset: Dataset, rows: pd.DataFrame) -> tuple[Codes, Codes]:
    """One number for each distinct task, and for each distinct (candidate, platform)."""
    candidate, platform = rows["candidate"].to_numpy(), rows["platform"].to_numpy()
    width = len(dataset.platforms)
    return dataset.columns.workload_of[candidate] * width + platform, candidate * width + platform


def _refusal(dataset: Dataset, rows: pd.DataFrame, count: int) -> CostModelError:
    first = rows.iloc[0]
    return CostModelError(
        f"No task, a workload on a platform, may be on both sides, but {count} are, such as "
        f"{dataset.candidates[first['candidate']].workload.name} on "
        f"{dataset.platforms[first['platform']].name}: drop them from what is learned (--shared-tasks drop), "
        "or keep what is not judged itself (--shared-tasks keep)."
    )
