"""The part of a dataset that was measured on some SM budgets of one GPU, which experiments learn from."""

from collections.abc import Sequence

import numpy as np

from costmodel.dataset import Dataset


def on_budgets(data: Dataset, device: str, sms: Sequence[int]) -> Dataset:
    """The measurements on some budgets of a device, those under MPS left out; all of them for ``all``."""
    if device == "all":
        return data
    wanted = np.array(
        [p.device.name == device and p.isolation != "mps" and p.sms_granted in sms for p in data.platforms]
    )
    return with_rows(data, wanted[data.measurements["platform"]])


def with_rows(data: Dataset, rows: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Dataset:
    """The measurements of some rows."""
    return Dataset(data.candidates, data.platforms, data.measurements[rows].reset_index(drop=True))
