"""Tables of what was measured: `report.py DIR` prints them again."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.shadow import p99

sys.path.append(str(Path(__file__).parent))
from apart import apart_line

EXCLUSIVE, BESIDE, WATCHED = "exclusive", "beside", "watched"
ALONE = ("alone", "alone again", "alone at last")
BUILDING = "building"

Rows = Sequence[dict[str, Any]]


def table(rows: Rows, log: Path) -> str:
    """Markdown: what the service lost in each phase, what the watch did, what tuning found, what failed."""
    lines = [*_of_sms(rows), *_of_service(rows, log), "", *_of_watch(rows), "", *_of_answers(rows)]
    return "\n".join([*lines, *(f"error: {row['what']}: {row['error']}" for row in _of("error", rows))])


def _of(kind: str, rows: Rows) -> Rows:
    return [row for row in rows if row["kind"] == kind]


def _of_sms(rows: Rows) -> list[str]:
    """Whether the SMs of the service and those of the kernels are apart."""
    return [apart_line(row) for row in _of("apart", rows)]


def _of_service(rows: Rows, log: Path) -> list[str]:
    requests = read_log(log)
    lines = ["| phase | s | requests | median ms | p99 ms | p99 rise | in bursts: requests | p99 ms |"]
    lines.append("| --- |" + " ---: |" * 7)
    base_s = float("nan")
    for name in (ALONE[0], BUILDING, BESIDE, ALONE[1], WATCHED, ALONE[2]):
        phases = [row for row in _of("phase", rows) if row["name"] == name]
        found = [cut(requests, phase["start"], phase["end"]) for phase in phases]
        within = np.concatenate([np.zeros(0), *found])
        spans = [cut(requests, *span) for phase in phases for span in phase.get("spans", ())]
        bursts = np.concatenate([np.zeros(0), *spans])
        if not within.size:
            continue
        base_s = p99(within.tolist()) if name == ALONE[0] else base_s
        seconds, p99_s = sum(phase["end"] - phase["start"] for phase in phases), p99(within.tolist())
        lines.append(
            f"| {name} | {seconds:.1f} | {within.size} | {1e3 * np.median(within):.4f} | {1e3 * p99_s:.4f} "
            f"| {p99_s / base_s - 1:+.2%} | {bursts.size} | {1e3 * p99(bursts.tolist()):.4f} |"
        )
    return lines


def _of_watch(rows: Rows) -> list[str]:
    lines = ["| watched | seed | p99 ms before | while | rise | requests | over | pauses | s | ended early |"]
    lines.append("| --- |" + " ---: |" * 8 + " --- |")
    for row in _of("tuned", rows):
        if told := row["service"]:
            before_s, while_s = told["p99_before_s"], told["p99_while_s"]
            lines.append(
                f"| {row['workload']} | {row['seed']} | {1e3 * before_s:.4f} | {1e3 * while_s:.4f} "
                f"| {while_s / before_s - 1:+.2%} | {told['requests']} | {told['requests_over']} "
                f"| {told['pauses']} | {told['paused_s']:.1f} | {told['ended'] or 'no'} |"
            )
    return lines


def _of_answers(rows: Rows) -> list[str]:
    lines = [
        "| workload | seed | A/A | beside / exclusive | watched / exclusive | exclusive / best of pool |"
    ]
    lines.append("| --- |" + " ---: |" * 5)
    tasks = dict.fromkeys((row["workload"], row["seed"]) for row in _of("tuned", rows))
    return [*lines, *(_answer(rows, name, seed) for name, seed in tasks)]


def _answer(rows: Rows, name: str, seed: int) -> str:
    """Latencies of the answers for a task, measured again alone, over that of exclusive tuning."""
    again = [row for row in _of("again", rows) if row["workload"] == name]
    if not again:
        return f"| {name} | {seed} | | | | |"
    visits = [row["latency_s"] for row in again]
    seconds = {id_: float(np.mean([visit[id_] for visit in visits])) for id_ in visits[0]}
    found = {
        row["way"]: seconds[row["best"]]
        for row in _of("tuned", rows)
        if (row["workload"], row["seed"]) == (name, seed)
    }
    apart = max(abs(visits[-1][id_] / visits[0][id_] - 1) for id_ in visits[0])
    exclusive_s = found.get(EXCLUSIVE, float("nan"))
    best_s = seconds[again[0]["best_of_pool"]]
    ratios = [found.get(BESIDE, np.nan) / exclusive_s, found.get(WATCHED, np.nan) / exclusive_s]
    return (
        f"| {name} | {seed} | {apart:.2%} | "
        + " | ".join(f"{ratio:.3f}" for ratio in (*ratios, exclusive_s / best_s))
        + " |"
    )


def read_log(path: Path) -> np.ndarray:
    """``(n, 2)`` seconds and end of each request."""
    lines = path.read_text().splitlines() if path.exists() else []
    return np.array([line.split() for line in lines if len(line.split()) == 2], float).reshape(-1, 2)


def cut(requests: np.ndarray, start: float, end: float) -> np.ndarray:
    """Seconds of the requests that were at work at some time from start to end."""
    return requests[(requests[:, 1] >= start) & (requests[:, 1] - requests[:, 0] <= end), 0]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    records = [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]
    print(table(records, folder / "latencies.log"))
