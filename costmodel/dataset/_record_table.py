"""Records of several files side by side: one row a record, with the file that it is from."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from costmodel.dataset._source import Source


def record_table(sources: Sequence[Source]) -> pd.DataFrame:
    """One row a record, in order of the sources.

    Columns: ``file`` (its path), ``record`` (the measurement), ``workload``, ``device`` and ``platform``
    (names), ``candidate`` (id), ``alone`` (no co-runners), ``latency_s`` (median of its repeats, inf unless
    ok).
    """
    records = [record for source in sources for record in source.measurements]
    columns = {
        "file": [str(source.path) for source in sources for _ in source.measurements],
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
