"""Files that contain only a part of a space, or another space than their name says."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from costmodel.dataset.checks._check import Finding, Severity, WorkloadRecords, pick_examples
from costmodel.dataset.checks._ranges import WIDEST_SHIFT
from costmodel.dataset.sources._source import FileContents
from costmodel.dataset.table._records import Records
from costmodel.records._workload import Workload

# Whole spaces have any number of configs (the public ones 4,362 to 17,956); a limit is set to a round number.
# One in a thousand spaces has one by chance.
_ROUND = 1000
_REMEDY = "measure the rest, or compare devices on the configs that they share"


class TaskTally:
    """Counts tasks, and those of one config, one workload after the other."""

    def __init__(self) -> None:
        self._tasks = 0
        self._of_one: list[str] = []

    def add(self, workload: str, accepted: Records) -> None:
        """Count the tasks of a workload; platforms that differ in software alone are of one task."""
        names, place_of = np.unique([each.name for each in accepted.platforms], return_inverse=True)
        pairs = np.unique(np.stack([place_of[accepted.platform], accepted.candidate]), axis=1)
        places, configs = np.unique(pairs[0], return_counts=True)
        self._tasks += len(places)
        self._of_one += [f"{workload} on {names[place]}" for place in places[configs == 1]]

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with tasks of one config, if there are any."""
        if self._of_one:
            yield Finding(
                kind="best only",
                severity=Severity.WARNING,
                concerns="all files",
                count=len(self._of_one),
                message="A task must have two configs or more to tell anything of choosing, but "
                f"{len(self._of_one):,} of {self._tasks:,} have one, as lists of best configs do. No score "
                "counts them. Add what else was measured, if there is any.",
                examples=pick_examples(self._of_one),
            )


def space_findings(sources: Sequence[FileContents]) -> Iterator[Finding]:
    """Empty files, partial spaces, and kernels of one name whose spaces differ.

    The values of a space's parameters cannot tell how many configs it has: most of their combinations break
    constraints that no cache file states (of GEMM's 82,944 they leave 17,956).
    """
    for source in sources:
        if source.choices:
            yield _warning(
                source.path,
                "best only",
                len(source.choices),
                f"A config must have a latency to enter a dataset, but {len(source.choices):,} are choices "
                "of somebody without one. Time them, or leave the file out.",
            )
        if not source.measurements and not source.rejects and not source.choices:
            yield _warning(
                source.path, "empty file", 1, "A file must hold records, but has none: leave it out."
            )
        if not source.closed:
            held = len(source.measurements) + len(source.rejects)
            message = f"Its writer never came to the end, and {held:,} entries are there: {_REMEDY}."
            yield _warning(source.path, "partial space", held, message)
    yield from _fewer_than_another(sources)
    yield from _same_name(sources)


def _fewer_than_another(sources: Sequence[FileContents]) -> Iterator[Finding]:
    """Yield files with fewer configs than another has, or with as many as a limit would leave."""
    most: dict[str, int] = {}
    for source in sources:
        for workload, count in source.configs.items():
            most[workload] = max(count, most.get(workload, 0))
    for source in sources:
        for workload, count in source.configs.items():
            if count < most[workload]:
                found = f"it has {count:,} of the {most[workload]:,} that another file has"
            elif count and count % _ROUND == 0:
                found = f"it has {count:,}, a number so round that a limit may have stopped it"
            else:
                continue
            message = f"A file must cover the configs of {workload}, but {found}: {_REMEDY}."
            yield _warning(source.path, "partial space", count, message)


def _same_name(sources: Sequence[FileContents]) -> Iterator[Finding]:
    """Kernels of one name and size whose parameters differ; the last part of their kind tells them apart."""
    spaces: dict[tuple[str, str], set[str]] = {}
    for name in sorted({name for source in sources for name in source.configs}):
        workload = Workload.parse(name)
        spaces.setdefault((workload.kind.rpartition(".")[0], str(workload.dims)), set()).add(name)
    for (kernel, _), names in spaces.items():
        if len(names) > 1:
            yield Finding(
                kind="two spaces",
                severity=Severity.NOTE,
                concerns=kernel,
                count=len(names),
                message="Kernels of one name must have one set of parameters to be compared, but this has "
                f"{len(names)}: they are kept apart as {len(names)} workloads. Nothing is to be done.",
                examples=pick_examples(sorted(names)),
            )


def _warning(path: Path, kind: str, count: int, message: str) -> Finding:
    return Finding(kind, Severity.WARNING, str(path), count, message)


# A/A visits of this project's datasets, taken for two files: in the 113 tasks with ten kernels or more that
# were met twice, the correlation is at least .986 and the shift at most 1.0 %; in the 16 such tasks that the
# two datasets share, .996 and 0.4 %.
_LEAST_CORRELATION = 0.95
_LEAST_SHARED = 10


def suite_findings(held: WorkloadRecords) -> Iterator[Finding]:
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
    """Yield how the latencies of two files differ on the platforms that both have."""
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
                examples=pick_examples(list(both.index.get_level_values(1))),
            )
