"""The tasks that are searched, and models that learned from none of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costmodel.dataset import Dataset, Split
from costmodel.features import extract
from costmodel.search import Pool
from costmodel.transfer import Model, make_model
from costmodel.transfer._store import ModelMetadata

BUDGETS = (8, 32, 132)


@dataclass(frozen=True)
class Task:
    """A workload on a platform whose candidates were all measured.

    Attributes:
        number: Its place among the tasks.
        fold: Number of the fold that holds it out.
        workload: Name.
        pool: The candidates.
        latency_s: ``(n,)`` seconds of each; inf for failures.
    """

    number: int
    fold: int
    workload: str
    pool: Pool
    latency_s: np.ndarray

    @property
    def name(self) -> str:
        return f"{self.workload}@{self.pool.platforms[0].name}"


def tasks_of(dataset: Dataset, split: Split) -> Iterator[Task]:
    """Every task that the split tests.

    Where a device has several SM budgets, each workload is searched once: on one device, at one of three
    budgets in turn, so that easy and hard budgets do not depend on the workload.
    """
    rows = dataset.rows
    fold_of_row = np.full(len(rows), -1)
    for number, fold in enumerate(split.folds):
        fold_of_row[fold.test] = number
    held_out = rows.assign(fold=fold_of_row)[fold_of_row >= 0]
    if rows.groupby("device")["sms_granted"].nunique().max() > 1:
        held_out = held_out[held_out["platform"].isin(_platforms(dataset))]
        workloads = sorted(held_out["workload"].unique())
        turn = held_out["workload"].map({name: BUDGETS[i % 3] for i, name in enumerate(workloads)})
        held_out = held_out[held_out["sms_granted"] == turn]
    for number, (_, group) in enumerate(held_out.groupby("task", sort=True)):
        platform = dataset.platforms[group["platform"].iloc[0]]
        pool = Pool([dataset.candidates[i] for i in group["candidate"]], platform)
        fold, workload = int(group["fold"].iloc[0]), str(group["workload"].iloc[0])
        yield Task(number, fold, workload, pool, group["latency_s"].to_numpy())


def _platforms(dataset: Dataset) -> list[int]:
    """Positions of the platforms that are searched: the first device by name, but not its parts by MPS."""
    first = min(platform.device.name for platform in dataset.platforms)
    return [
        i
        for i, platform in enumerate(dataset.platforms)
        if platform.device.name == first and platform.isolation != "mps"
    ]


def model_file(dataset: Dataset, split: Split, task: Task, learner: str, folder: Path) -> Path:
    """A file with a model of what the task's fold may learn from; fitted where there is none.

    A kernel of a foreign suite has feature columns of its own: a model of it learns from no other.
    """
    foreign = task.pool.candidates[0].workload.is_foreign
    path = folder / f"{task.fold}-{learner}{'-' + task.workload if foreign else ''}.zip"
    if not path.exists():
        rows = dataset.rows.iloc[split.folds[task.fold].train]
        rows = rows[rows["workload"] == task.workload] if foreign else rows
        platforms = [dataset.platforms[i] for i in rows["platform"]]
        table = extract([dataset.candidates[i] for i in rows["candidate"]], platforms)
        model = make_model(learner, table.columns)
        model.fit(table.values, rows["latency_s"].to_numpy(), rows["task"].to_numpy())
        held_out = tuple(split.folds[task.fold].held_out.split(" + "))
        Model(model, ModelMetadata(learner=learner, held_out=held_out)).save(path)
    return path
