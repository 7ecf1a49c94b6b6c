"""What a split holds out of each row: its workload with siblings, its device with twins, and so on."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from costmodel.dataset.splits._folds import Labels
from costmodel.dataset.table._dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

# Groups of devices that are held out as one.
Twins = tuple[tuple[str, ...], ...]


def labels_of(dataset: Dataset, column: str | None, twins: Twins) -> Labels | None:
    """Return ``(n,)`` what is held out of each row; None if rows are.

    Raises:
        CostModelError: There are fewer than two values to hold out.
    """
    if column is None:
        return None
    if column == "workload":
        siblings = shape_siblings(dataset.workloads)
        joined = {name: " + ".join(group) for name, group in siblings.items()}
        labels: Labels = dataset.rows["workload"].astype(object).map(joined).to_numpy()
    elif column == "architecture":
        architectures = np.array([_architecture(platform.device) for platform in dataset.platforms])
        labels = architectures[dataset.rows["platform"]]
    else:
        group_of = {device: " + ".join(group) for group in twins for device in group}
        names = dataset.rows[column].to_numpy()
        labels = pd.Series(names).map(lambda name: group_of.get(name, name)).to_numpy()
    distinct = pd.factorize(labels, sort=True)[1]
    if len(distinct) < 2:
        help_ = (
            "These are near-twins, which are held out together; keep them apart (--keep-twins-apart) to hold "
            "each of them out alone."
            if twins
            else "Measure more, or choose another split."
        )
        raise CostModelError(
            f"Leaving one {column} out needs at least two, but the dataset has {distinct.tolist()}. {help_}"
        )
    return labels


def shape_siblings(workloads: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return, for each workload, those of the same shape in any dtype, layout or epilogue.

    Each workload is among its own siblings. Measurements of one reveal much about the others.
    """
    of_shape: dict[str, list[str]] = {}
    for name in workloads:
        of_shape.setdefault(Workload.parse(name).shape.name, []).append(name)
    return {name: tuple(names) for names in of_shape.values() for name in names}


def _architecture(device: Device) -> str:
    """Architecture of a device, looked up by name where its records do not say it."""
    try:
        return device.architecture or find_device(device.name).architecture
    except CostModelError as error:
        raise CostModelError(
            "Leaving one architecture out requires the architecture of each device, but the records do not "
            f"contain that of {device.name!r}, and no device of this name is known. Measure it with its "
            f"architecture, or choose leave-one-device-out. {error}"
        ) from None
