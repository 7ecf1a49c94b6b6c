"""The two sides of an evaluation: what is learned from, what it is judged by, and what of that is new."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset.splits._folds import Fold
from costmodel.dataset.splits._similarity import device_similarity, twin_groups
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


def leave_out_lone_configs(rows: pd.DataFrame, folds: Sequence[Fold]) -> tuple[tuple[Fold, ...], int]:
    """Return the folds without the tasks of which they test one config, and how many tasks that are.

    Whoever chooses among one config chooses the best: such tasks would raise every score, and tell nothing.

    Args:
        rows: ``Dataset.rows``.
        folds: Folds of it.

    Raises:
        CostModelError: No other task is left.
    """
    tasks, left, lone = rows["task"].to_numpy(), [], 0
    for fold in folds:
        _, task, sizes = np.unique(tasks[fold.test], return_inverse=True, return_counts=True)
        lone += int((sizes == 1).sum())
        test = fold.test[sizes[task] > 1]
        left += [replace(fold, test=test)] if test.size else []
    if not left:
        raise CostModelError(
            f"An evaluation must have tasks of two configs or more to choose among, but each of its {lone} "
            "tasks has one, as in a list of the best configs. Evaluate on a dataset that has others too, or "
            "learn from fewer of them."
        )
    return tuple(left), lone


def sample_tasks(rows: pd.DataFrame, folds: Sequence[Fold], count: int) -> tuple[Fold, ...]:
    """The folds with ``count`` of the tasks that they test, and all rows of these; what is learned stays.

    One task after the other is taken from the SM budget, then from the workload, of which fewest are. Ties
    go by SHA-256 of the task's name: no seed and no order of rows enters, and 200 tasks are among 300.

    Args:
        rows: ``Dataset.rows``.
        folds: Folds of it.
        count: Tasks to keep; all if there are no more.
    """
    tested = np.sort(np.concatenate([fold.test for fold in folds]))
    tasks = rows.iloc[tested].drop_duplicates("task")
    digests = [hashlib.sha256(name.encode()).hexdigest() for name in tasks["task"]]
    tasks = tasks.iloc[np.argsort(digests)]
    kept = tasks["task"].iloc[_spread(tasks[["sms_granted", "workload"]], min(count, len(tasks)))]
    taken = rows["task"].isin(kept).to_numpy()
    smaller = (replace(fold, test=fold.test[taken[fold.test]]) for fold in folds)
    return tuple(fold for fold in smaller if fold.test.size)


def _spread(tasks: pd.DataFrame, count: int) -> list[int]:
    """Positions of ``count`` tasks that spread over the values of the columns, the first column first."""
    codes = [pd.factorize(tasks[name], sort=True)[0] for name in tasks]
    used = [np.zeros(len(code), dtype=np.int64) for code in codes]
    left, taken = np.ones(len(tasks), dtype=np.bool_), list[int]()
    for _ in range(count):
        keys = [counts[code] for counts, code in zip(used, codes, strict=True)]
        chosen = int(np.lexsort((*reversed(keys), ~left))[0])
        left[chosen] = False
        taken.append(chosen)
        for counts, code in zip(used, codes, strict=True):
            counts[code[chosen]] += 1
    return taken


NOVELTY = ("workload_is", "device_is", "budget_is")
_COLUMNS = ("workload", "device", "sms_granted")
_SEEN = np.array(["new", "seen"], dtype=object)


def novelty(dataset: Dataset, folds: Sequence[Fold]) -> pd.DataFrame:
    """For each row, whether the fold that tests it has met its workload, its device and its SM budget.

    A device is a ``twin`` where it is not among the training rows but another is that measured nearly the
    same (``twin_groups``): a model that knows one knows the other. A budget is seen where any device has it.
    Each of them can be seen and their combination, the task, still be new.

    Returns:
        ``NOVELTY`` columns of ``new``, ``twin`` (devices only) and ``seen``; empty where no fold tests a row.
    """
    rows = dataset.rows
    found = pd.DataFrame("", index=rows.index, columns=list(NOVELTY), dtype=object)
    for fold in folds:
        for name, column in zip(NOVELTY, _COLUMNS, strict=True):
            met = rows[column].iloc[fold.train].unique()
            seen = rows[column].iloc[fold.test].isin(met).to_numpy()
            found.loc[fold.test, name] = _SEEN[seen.astype(np.intp)]
    if (found["device_is"] == "new").any():
        _mark_twins(found, dataset, folds)
    return found


def _mark_twins(found: pd.DataFrame, dataset: Dataset, folds: Sequence[Fold]) -> None:
    groups = twin_groups(device_similarity(dataset))
    devices = dataset.rows["device"]
    for fold in folds:
        met = set(devices.iloc[fold.train])
        twins = {name for group in groups if met & set(group) for name in group} - met
        found.loc[fold.test[devices.iloc[fold.test].isin(list(twins))], "device_is"] = "twin"
