"""What of a tested task a model has not met: its workload, its device, its SM budget."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from costmodel.dataset.splits._folds import Fold
from costmodel.dataset.splits._similarity import device_similarity, twin_groups
from costmodel.dataset.table._dataset import Dataset

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
