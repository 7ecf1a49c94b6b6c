"""Failures recorded as a latency: the same huge number for config after config."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset.checks._finding import MOST_EXAMPLES, Finding, Severity
from costmodel.dataset.checks._held import Held
from costmodel.dataset.table._same import number

# In 2,511 tasks of public caches and of this project's datasets the slowest config is alone with its latency,
# and values that three configs or more share, as coarse timers give, are at most 3.4 times the median. Slow
# kernels alone cannot tell: they reach 32 times the median in public caches, 4,877 times on this project's.
_LEAST_EQUAL = 3
_FAR = 10.0
_LEAST_CONFIGS = 10


def failure_findings(held: Held) -> Iterator[Finding]:
    """Values in place of failures of a workload, by file and device."""
    for (file, device), rows in _suspicious(held.working).groupby(["file", "device"]):
        equal = [_stand_ins(task) for _, task in rows.groupby("platform")]
        stand_ins = pd.concat(equal)
        if len(stand_ins):
            values = ", ".join(f"{value:g} s" for value in sorted(set(stand_ins["latency_s"]))[-3:])
            yield Finding(
                kind="failure value",
                severity=Severity.ERROR,
                concerns=f"{file}: {held.workload.name} on {device}",
                count=len(stand_ins),
                message=f"A failure must be an outcome, but {len(stand_ins):,} records share exactly "
                f"{values}, the largest or far from all others: give them the outcome that they had, "
                "and no latency.",
                examples=tuple(held.decisions(stand_ins.head(MOST_EXAMPLES))),
            )


def _suspicious(working: pd.DataFrame) -> pd.DataFrame:
    """The rows of tasks of which enough rows share a latency that ``_is_far``."""
    names = ("file", "device", "platform")
    task = number([np.asarray(working[name].cat.codes, np.int64) for name in names])
    latency = working["latency_s"]
    of_task = latency.groupby(task)
    far = _is_far(latency, of_task.max().to_numpy()[task], of_task.median().to_numpy()[task])
    alike = number([task[far], pd.factorize(latency[far])[0]])
    shared = np.bincount(alike)[alike] >= _LEAST_EQUAL
    suspicious: pd.DataFrame = working[np.isin(task, task[far][shared])]
    return suspicious


def _is_far(latency: Any, highest: Any, median: Any) -> Any:
    """Whether a latency is the largest of its task or far above the median."""
    return (latency == highest) | (latency >= _FAR * median)


def _stand_ins(task: pd.DataFrame) -> pd.DataFrame:
    """The rows whose latency is shared, and the largest of its task or far above the median."""
    latency = task["latency_s"]
    far = task[_is_far(latency, latency.max(), latency.median())]
    configs_of = far.groupby("latency_s")["candidate"].transform("nunique")
    enough = task["candidate"].nunique() >= _LEAST_CONFIGS
    found: pd.DataFrame = far[(configs_of >= _LEAST_EQUAL) & enough]
    return found
