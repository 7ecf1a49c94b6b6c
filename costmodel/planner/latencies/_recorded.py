"""Latencies that a dataset holds."""

from functools import cached_property

import numpy as np
import pandas as pd

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.errors import CostModelError
from costmodel.planner.latencies._base import KernelTable, Latencies
from costmodel.records._workload import Workload


class RecordedLatencies(Latencies):
    """Latencies measured on one device of a dataset.

    Args:
        dataset: Dataset, or its name or path. Default: the first shipped dataset.
        device: Name of one of its devices, or a part of the name. Default: the first device by name.

    Raises:
        CostModelError: If there is no such dataset or device.
    """

    def __init__(self, dataset: DatasetLike | None = None, device: str | None = None) -> None:
        self.dataset: Dataset = load_dataset(dataset)
        names = [name for name in self.dataset.devices if (device or "").lower() in name.lower()]
        if not names:
            raise CostModelError(
                f"The device must be one of those measured ({', '.join(self.dataset.devices)}), but got "
                f"{device!r}."
            )
        self.device = next(each.device for each in self.dataset.platforms if each.device.name == names[0])
        self._tables: dict[str, KernelTable | None] = {}

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``."""
        if workload.name not in self._tables:
            self._tables[workload.name] = self._table(workload.name)
        return self._tables[workload.name]

    @cached_property
    def _rows(self) -> pd.DataFrame:
        rows = self.dataset.rows
        return rows[rows["device"] == self.device.name]

    def _table(self, name: str) -> KernelTable | None:
        rows = self._rows[self._rows["workload"] == name]
        if rows.empty:
            return None
        table = rows.pivot_table("latency_s", "candidate", "sms_granted", "min", dropna=False)
        ids = tuple(self.dataset.candidates[i].candidate_id for i in table.index)
        sms = tuple(int(each) for each in table.columns)
        return KernelTable(ids, sms, table.to_numpy(dtype=np.float64), "recorded")
