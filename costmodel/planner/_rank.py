"""Kernels by what the whole would gain if each became the best that is known of its workload."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.planner._latencies import Latencies
from costmodel.planner._replay import CriticalPath, critical_path, replay
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._known_kernels import WorkloadKernels, find_latencies, group_by_workload
from costmodel.report._progress import track

if TYPE_CHECKING:
    from costmodel.service._job import JobFile


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
    """Ranking of what to tune next.

    Attributes:
        table: One row per workload and number of SMs, the largest gain first. Columns: ``workload``; ``sms``;
            ``calls``, of which ``critical_calls`` are on the critical path; ``now_s`` and ``best_s``, the
            average latency of a call now and with the best known kernel; ``gap``, the ratio of the two;
            ``critical_share`` of the makespan; ``gain_s`` and ``gain_share``, the improvement of the replayed
            makespan with that kernel; and ``origin`` of ``best_s``, ``recorded`` or ``predicted``.
        makespan_s: Makespan of the graph as it is, in seconds.
        known_share: Fraction of the kernels' time that is of workloads in the table.
        together_s: Makespan with all of the kernels replaced at once, in seconds.
    """

    table: pd.DataFrame
    makespan_s: float
    known_share: float
    together_s: float

    def commands(self) -> list[str]:
        """Return a command that tunes each workload with a gain, the largest gain first."""
        return [f"costmodel tune {row.workload} --sms {row.sms} --runner cuda" for row in self._gaining()]

    def job_file(self, trials: int = 16) -> "JobFile":
        """Return all workloads with a gain as one job, weighted by their calls on the critical path.

        Args:
            trials: Average number of candidates to measure per workload.

        Raises:
            CostModelError: If no workload has a gain, or they have different numbers of SMs.
        """
        from costmodel.service._job import JobFile

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
        """Write ``job_file`` as TOML for ``costmodel jobs submit``.

        Raises:
            CostModelError: If ``job_file`` raises it, or the file cannot be written.
        """
        write_whole(Path(path), self.job_file(trials).to_toml().encode())

    def to_dict(self) -> dict[str, Any]:
        """Return the data that the command writes as JSON."""
        return {
            "makespan_s": self.makespan_s,
            "together_s": self.together_s,
            "known_share": self.known_share,
            "kernels": self.table.to_dict(orient="records"),
        }

    def _gaining(self) -> Iterator[Any]:
        return self.table[self.table["gain_s"] > 0].itertuples()


def rank(graph: KernelGraph, latencies: Latencies) -> Ranking:
    """Rank the workloads of a graph by the expected gain of tuning them for the whole graph.

    The best known kernel, recorded or predicted, replaces the current one if it is faster. Then the graph is
    replayed, as the critical path may have changed.

    Args:
        graph: A graph that contains the workloads of its kernels.
        latencies: Recorded or predicted latencies.

    Raises:
        CostModelError: If no kernel is known on the device that the graph was recorded on.
    """
    before = replay(graph)
    path = critical_path(before)
    makespan = before.makespan_s
    rows, together, known = [], graph.durations_s.copy(), 0.0
    latencies = find_latencies(graph, latencies)
    groups = group_by_workload(graph, latencies)
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
