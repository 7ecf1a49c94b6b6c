"""Files that measured the same configs on the same device and disagree."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from costmodel.dataset.checks._finding import Finding, Severity, some
from costmodel.dataset.checks._held import Held
from costmodel.dataset.checks._noise import WIDEST_SHIFT

# A/A visits of this project's datasets, taken for two files: in the 113 tasks with ten kernels or more that
# were met twice, the correlation is at least .986 and the shift at most 1.0 %; in the 16 such tasks that the
# two datasets share, .996 and 0.4 %.
_LEAST_CORRELATION = 0.95
_LEAST_SHARED = 10


def suite_findings(held: Held) -> Iterator[Finding]:
    """Pairs of files that disagree on a device."""
    if held.working["file"].nunique() < 2:
        return
    # By id, so that the examples do not depend on the order of the records.
    for device, rows in held.working.groupby("device"):
        for first, second in combinations(sorted(set(rows["file"])), 2):
            pair = rows[rows["file"].isin([first, second])]
            named_by = pair.assign(candidate=held.ids(pair.index.tolist()), file=pair["file"].astype(str))
            yield from _disagreement(f"{held.workload.name} on {device}", named_by, first, second)


def _disagreement(what: str, rows: pd.DataFrame, first: str, second: str) -> Iterator[Finding]:
    """How the latencies of two files differ on the platforms that both have."""
    keys = [rows["platform"].astype(str), rows["candidate"], rows["file"]]
    logs = np.log(rows["latency_s"]).groupby(keys).median()
    shared = logs.unstack().reindex(columns=[first, second]).dropna()
    for platform, both in shared.groupby(level=0):
        if len(both) < _LEAST_SHARED:
            continue
        ratio = float(np.exp((both[second] - both[first]).median()))
        correlation = float(both[first].rank().corr(both[second].rank()))
        shift = max(ratio, 1 / ratio) - 1
        if correlation < _LEAST_CORRELATION or shift > WIDEST_SHIFT:
            yield Finding(
                kind="suites disagree",
                severity=Severity.ERROR,
                concerns=f"{first} and {second}: {what}",
                count=len(both),
                message=f"Two files must agree on one device to {WIDEST_SHIFT:.0%}, with a rank correlation "
                f"of {_LEAST_CORRELATION:g}, but on {len(both):,} shared configs of {platform} the second "
                f"takes {ratio:.3g} times as long (median), with a correlation of {correlation:.2f}: keep "
                "one file, or give the device of one another name.",
                examples=some(list(both.index.get_level_values(1))),
            )
