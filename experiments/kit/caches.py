"""What others measured with Kernel Tuner, a file a GPU: ``<suite>/<kernel>/<device>.json.gz``."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from costmodel.dataset import Dataset, read_files
from costmodel.dataset.splits._folds import Fold

# Held out together: `costmodel dataset validate` finds that they measured nearly the same.
TWINS = ("NVIDIA GeForce RTX 2080 Ti", "NVIDIA TITAN RTX")


def find_kernels(data: Path) -> list[Path]:
    """Return the folder of each kernel."""
    return sorted({path.parent for path in data.glob("*/*/*.json.gz")})


def name_kernel(folder: Path) -> str:
    """Return suite and name of a kernel."""
    return f"{folder.parent.name}/{folder.name}"


def read_kernel(folder: Path) -> Dataset:
    """Read one kernel on all its GPUs."""
    return read_files(sorted(folder.glob("*.json.gz")))


def leave_devices_out(rows: pd.DataFrame) -> Iterator[Fold]:
    """Hold each GPU out, and with it from what is learned its near-twin."""
    for device in rows["device"].unique():
        known = ~rows["device"].isin(TWINS if device in TWINS else [device])
        yield Fold(device, np.flatnonzero(known), np.flatnonzero(rows["device"] == device))
