"""Recorded kernels that are measured again, of workloads that stand for all."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.records import Candidate, read_records


def load_recorded(path: Path) -> Dataset:
    """Load the dataset or campaign in a folder."""
    store = CampaignFolder(path).store
    return dataset_from_measurements(read_records(store)) if store.exists() else load_dataset(path)


def draw_kernels(
    data: Dataset, each: int, workloads: Sequence[str] = (), count: int = 8
) -> dict[str, list[Candidate]]:
    """Draw kernels of workloads, among those that ran wherever they were measured.

    Args:
        data: What was recorded.
        each: Kernels of a workload.
        workloads: Their names; unless given, so many as ``count`` says.
        count: Number of workloads.
    """
    works = data.rows.groupby("candidate")["latency_s"].max() < np.inf
    by_workload: dict[str, list[Candidate]] = {}
    for position in works.index[works]:
        by_workload.setdefault(data.candidates[position].workload.name, []).append(data.candidates[position])
    rng = np.random.default_rng(0)
    return {
        name: [by_workload[name][i] for i in rng.permutation(len(by_workload[name]))[:each]]
        for name in workloads or spread(sorted(by_workload), count)
    }


def spread(names: Sequence[str], count: int) -> list[str]:
    """Return ``count`` names at equal distances, so that every kind of operator has its share."""
    return [names[i] for i in np.unique(np.linspace(0, len(names) - 1, count).round().astype(int))]
