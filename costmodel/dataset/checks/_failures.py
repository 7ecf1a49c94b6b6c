"""Failures that were written down as a latency: the same huge number for config after config."""

from collections.abc import Iterator

import pandas as pd

from costmodel.dataset.checks._finding import Finding, Severity, some
from costmodel.dataset.checks._record_table import working_alone

# In 2,511 tasks of public caches and of this project's datasets the slowest config is alone with its latency,
# and values that three configs or more share, as coarse timers give, are at most 3.4 times the median. Slow
# kernels alone cannot tell: they reach 32 times the median in public caches, 4,877 times on this project's.
_LEAST_EQUAL = 3
_FAR = 10.0
_LEAST_CONFIGS = 10


def failure_findings(table: pd.DataFrame) -> Iterator[Finding]:
    """Values in place of failures, by file, device and workload; ``table`` as by ``record_table``."""
    for (file, device, workload), rows in working_alone(table).groupby(["file", "device", "workload"]):
        equal = [_stand_ins(task) for _, task in rows.groupby("platform")]
        stand_ins = pd.concat(equal)
        if len(stand_ins):
            values = ", ".join(f"{value:g} s" for value in sorted(set(stand_ins["latency_s"]))[-3:])
            yield Finding(
                kind="failure value",
                severity=Severity.ERROR,
                concerns=f"{file}: {workload} on {device}",
                count=len(stand_ins),
                message=f"A failure must be an outcome, but {len(stand_ins):,} records share exactly "
                f"{values}, the largest or far from all others: give them the outcome that they had, "
                "and no latency.",
                examples=some([str(r.candidate.config.decisions) for r in stand_ins["record"]]),
            )


def _stand_ins(task: pd.DataFrame) -> pd.DataFrame:
    """The rows whose latency is shared, and the largest of its task or far above the median."""
    latency = task["latency_s"]
    configs_of = task.groupby("latency_s")["candidate"].transform("nunique")
    far = (latency == latency.max()) | (latency >= _FAR * latency.median())
    enough = task["candidate"].nunique() >= _LEAST_CONFIGS
    found: pd.DataFrame = task[(configs_of >= _LEAST_EQUAL) & far & enough]
    return found
