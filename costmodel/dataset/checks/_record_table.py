"""Records of several files side by side: one row a record, with the file that it is from."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from costmodel.records import Measurement


def record_table(files: Mapping[str, Sequence[Measurement]]) -> pd.DataFrame:
    """One row a record, in order of the files.

    Columns: ``file`` (its path), ``record`` (the measurement), ``workload``, ``device`` and ``platform``
    (names), ``candidate`` (id), ``alone`` (no co-runners), ``latency_s`` (median of its repeats, inf unless
    ok).
    """
    records = [record for held in files.values() for record in held]
    columns = {
        "file": [file for file, held in files.items() for _ in held],
        "record": records,
        "workload": [record.candidate.workload.name for record in records],
        "device": [record.platform.device.name for record in records],
        "platform": [record.platform.name for record in records],
        "candidate": [record.candidate.candidate_id for record in records],
        "alone": [not record.co_runners for record in records],
        "latency_s": [record.latency_s for record in records],
    }
    types = {"alone": bool, "latency_s": np.float64}
    return pd.DataFrame(
        {name: pd.Series(values, dtype=types.get(name, object)) for name, values in columns.items()}
    )


def working_alone(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of kernels that worked, and had the device or their part of it for themselves."""
    working: pd.DataFrame = table[table["alone"] & np.isfinite(table["latency_s"])]
    return working
