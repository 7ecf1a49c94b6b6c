"""Kernels by what the whole would gain if each became the best that is known of its workload."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.planner.graphs import KernelGraph, TaskKind
from costmodel.planner.latencies import Latencies
from costmodel.planner.replay import CriticalPath, critical_path, replay
from costmodel.planner.whatif import WorkloadKernels, workload_kernels
from costmodel.progress import track

if TYPE_CHECKING:
    from costmodel.jobs import JobFile

_COLUMNS = (
    "workload",
    "sms",
    "calls",
    "critical_calls",
    "now_s",
    "best_s",
    "gap",
    "critical_share",
    "gain_s",
    "gain_share",
    "origin",
)


@dataclass(frozen=True)
class Ranking:
    """What to tune next.

    Attributes:
        table: One row a workload and number of SMs, the largest gain first: ``workload``; ``sms``; ``calls``,
            of which ``critical_calls`` are on the critical path; ``now_s`` and ``best_s``, what a call takes
            on average and what the best known kernel would; ``gap``, the one over the other;
            ``critical_share`` of the makespan; ``gain_s`` and ``gain_share``, what the whole, replayed, is
            faster by with that kernel; and ``origin`` of ``best_s``, ``recorded`` or ``predicted``.
        makespan_s: Of the graph as it is.
        known_share: What of the time of kernels is of those in the table.
        together_s: Makespan with all of them replaced at once.
    """

    table: pd.DataFrame
    makespan_s: float
    known_share: float
    together_s: float

    def commands(self) -> list[str]:
        """A command that tunes each workload with a gain, the largest gain first."""
        return [f"costmodel tune {row.workload} --sms {row.sms} --runner cuda" for row in self._gaining()]

    def job_file(self, trials: int = 16) -> "JobFile":
        """All workloads with a gain as one job; their calls on the critical path are their weights.

        Args:
            trials: Candidates to measure of each on average.

        Raises:
            CostModelError: None has a gain, or they have different numbers of SMs.
        """
        from costmodel.jobs import JobFile

        rows = list(self._gaining())
        sms = sorted({int(row.sms) for row in rows})
        if len(sms) != 1:
            raise CostModelError(
                "A job must be of kernels with a gain on one number of SMs, but "
                + (f"got {', '.join(map(str, sms))}." if sms else "no better kernel is known of any.")
            )
        weights = {str(row.workload): float(max(row.critical_calls, 1)) for row in rows}
        return JobFile(
            name="what to tune next",
            workloads=weights,
            sms=tuple(sms),
            trials=trials,
            rule="expected-gain",
            runner="cuda",
        )

    def save_job(self, path: Path | str, trials: int = 16) -> None:
        """Write ``job_file`` as TOML, which ``costmodel jobs submit`` takes.

        Raises:
            CostModelError: See ``job_file``; or the file cannot be written.
        """
        write_whole(Path(path), self.job_file(trials).to_toml().encode())

    def to_dict(self) -> dict[str, Any]:
        """What the command writes as JSON."""
        return {
            "makespan_s": self.makespan_s,
            "together_s": self.together_s,
            "known_share": self.known_share,
            "kernels": self.table.to_dict(orient="records"),
        }

    def _gaining(self) -> Iterator[Any]:
        return self.table[self.table["gain_s"] > 0].itertuples()


def rank(graph: KernelGraph, latencies: Latencies) -> Ranking:
    """Rank the workloads of a graph by what tuning them is expected to gain of the whole.

    The best kernel that is known, recorded or predicted, takes the place of what runs now where it is faster,
    and the graph is replayed, as the critical path may then be another one.

    Args:
        graph: A graph that says what kernels compute.
        latencies: Recorded or predicted latencies.
    """
    before = replay(graph)
    path = critical_path(before)
    makespan = before.makespan_s
    rows, together, known = [], graph.durations_s.copy(), 0.0
    groups = workload_kernels(graph, latencies)
    for group in track(groups, "latencies", len(groups)):
        table = latencies.kernels(group.workload)
        best = table.best(group.sms) if table else None
        if table is None or best is None or table.origin == "estimated":
            continue
        faster = np.minimum(graph.durations_s[group.tasks], best.latency_s)
        changed = graph.durations_s.copy()
        changed[group.tasks] = together[group.tasks] = faster
        known += float(graph.durations_s[group.tasks].sum())
        gained = makespan - replay(graph.assuming(durations_s=changed)).makespan_s
        rows.append(_row(graph, group, path, best.latency_s, table.origin) | {"gain_s": max(gained, 0.0)})
    found = pd.DataFrame(rows, columns=list(_COLUMNS))
    found["gain_share"] = found["gain_s"] / (makespan or 1.0)
    kernels = float(graph.durations_s[graph.of_kind(TaskKind.KERNEL)].sum())
    return Ranking(
        found.sort_values("gain_s", ascending=False, kind="stable", ignore_index=True),
        makespan,
        known / kernels if kernels else 0.0,
        replay(graph.assuming(durations_s=together)).makespan_s,
    )


def _row(
    graph: KernelGraph, group: WorkloadKernels, path: CriticalPath, best_s: float, origin: str
) -> dict[str, Any]:
    """A row of the table but for its gain."""
    critical = np.isin(path.tasks, group.tasks)
    now = float(graph.durations_s[group.tasks].mean())
    return {
        "workload": group.workload.name,
        "sms": group.sms,
        "calls": len(group.tasks),
        "critical_calls": int(critical.sum()),
        "now_s": now,
        "best_s": best_s,
        "gap": now / best_s,
        "critical_share": float(path.spent_s[critical].sum()) / (path.timeline.makespan_s or 1.0),
        "origin": origin,
    }
