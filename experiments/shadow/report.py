"""Tables of what was measured: `report.py DIR` prints them again, `--keep DIR` writes what is kept of it."""

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.collector import ServiceWatch
from costmodel.collector.runners._watched_service import p99
from costmodel.files import write_json

sys.path.append(str(Path(__file__).parent))
from apart import apart_line

EXCLUSIVE, BESIDE, WATCHED = "exclusive", "beside", "watched"
ALONE = ("alone", "alone again", "alone at last")
BUILDING = "building"
PHASES = (ALONE[0], BUILDING, BESIDE, ALONE[1], WATCHED, ALONE[2])
BLOCK_S = 0.25  # of requests that are drawn together: slow ones come in spells
DRAWS = 500
UNITS = {"latency_100ns": 1e7, "end_100us": 1e4}  # of the columns that are kept, in a second
WINDOW = ServiceWatch("").window

Rows = Sequence[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of a measurement, or of what was kept of one")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what was measured, and its results")
    args = parser.parse_args()
    rows, requests = read_record(args.folder), read_requests(args.folder)
    print(table(rows, requests))
    if args.keep:
        keep(rows, requests, args.keep)


def table(rows: Rows, requests: np.ndarray) -> str:
    """Markdown: what the service lost in each phase, what the watch did, what tuning found, what failed."""
    lines = [*map(apart_line, _of("apart", rows)), *_service_lines(rows, requests), ""]
    lines += [*_watch_lines(rows, requests), "", *_answer_lines(rows)]
    return "\n".join([*lines, *(f"error: {row['what']}: {row['error']}" for row in _of("error", rows))])


def keep(rows: Rows, requests: np.ndarray, folder: Path) -> None:
    """Write what was measured, compactly, and the results."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "record.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    columns = {name: np.round(requests[:, i] * UNITS[name]).astype(np.int32) for i, name in enumerate(UNITS)}
    pq.write_table(
        pa.table(columns),
        folder / "latencies.parquet",
        compression="zstd",
        use_dictionary=False,
        column_encoding=dict.fromkeys(UNITS, "DELTA_BINARY_PACKED"),
    )
    write_json(folder / "result.json", results(rows, requests))


def results(rows: Rows, requests: np.ndarray) -> dict[str, Any]:
    """All that the tables say, in seconds and shares."""
    return {
        "apart": {
            name: float(np.median(row[name]))
            for row in _of("apart", rows)
            for name in ("alone_ms", "part_filled_ms", "rest_filled_ms")
        },
        "phases": phases(rows, requests),
        "bursts": bursts(rows, requests),
        "searches": searches(rows, requests),
        "answers": answers(rows),
    }


def phases(rows: Rows, requests: np.ndarray) -> dict[str, dict[str, Any]]:
    """What each phase was to the service, over all looks at it alone; rises with a 95 % bootstrap."""
    alone = _blocks(requests, [_span(row) for row in _phases(rows, *ALONE)])
    found: dict[str, dict[str, Any]] = {}
    for name in PHASES:
        spans = [_span(row) for row in _phases(rows, name)]
        blocks = _blocks(requests, spans)
        if alone and blocks:
            found[name] = {"s": sum(end - start for start, end in spans), **_compared(blocks, alone)}
    return found


def bursts(rows: Rows, requests: np.ndarray) -> dict[str, dict[str, dict[str, Any]]]:
    """The same of the requests that were at work during a measurement, by way and workload."""
    alone = _blocks(requests, [_span(row) for row in _phases(rows, *ALONE)])
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for way in (BESIDE, WATCHED):
        of_way = _phases(rows, way)
        for name in dict.fromkeys(row["workload"] for row in of_way):
            spans = [span for row in of_way if row["workload"] == name for span in row["spans"]]
            at_work = [blocks for blocks in (cut(requests, *span) for span in spans) if blocks.size]
            if alone and at_work:
                found.setdefault(way, {})[name] = _compared(at_work, alone)
    return found


def searches(rows: Rows, requests: np.ndarray) -> dict[str, list[float]]:
    """Rise of p99 in each watched search over the window before it; and the same of the service alone.

    For the latter the requests of each look are cut into as many before and after; cuts overlap.
    """
    told = [row["service"] for row in _of("tuned", rows) if row["service"]]
    rises = [each["p99_while_s"] / each["p99_before_s"] - 1 for each in told]
    after = int(np.median([each["requests"] for each in told])) if told else 0
    alone = []
    for row in _phases(rows, *ALONE):
        seconds = cut(requests, *_span(row))
        for i in range(WINDOW, len(seconds) - after, WINDOW):
            alone.append(p99(seconds[i : i + after].tolist()) / p99(seconds[i - WINDOW : i].tolist()) - 1)
    return {"watched": rises, "alone": alone}


def answers(rows: Rows) -> list[dict[str, Any]]:
    """Latencies of the answers for each task, measured again alone: beside and watched over exclusive."""
    tasks = dict.fromkeys((row["workload"], row["seed"]) for row in _of("tuned", rows))
    return [_answer(rows, name, seed) for name, seed in tasks]


def read_record(folder: Path) -> Rows:
    """The rows of a measurement, kept or not."""
    kept = folder / "record.jsonl.gz"
    text = gzip.decompress(kept.read_bytes()).decode() if kept.exists() else _text(folder / "record.jsonl")
    return [json.loads(line) for line in text.splitlines()]


def read_requests(folder: Path) -> np.ndarray:
    """``(n, 2)`` seconds and end of each request."""
    kept = folder / "latencies.parquet"
    if kept.exists():
        import pyarrow.parquet as pq

        found = pq.read_table(kept)
        return np.column_stack([found[name].to_numpy() / unit for name, unit in UNITS.items()])
    lines = _text(folder / "latencies.log").splitlines()
    return np.array([line.split() for line in lines if len(line.split()) == 2], float).reshape(-1, 2)


def cut(requests: np.ndarray, start: float, end: float) -> np.ndarray:
    """Seconds of the requests that were at work at some time from start to end."""
    return requests[(requests[:, 1] >= start) & (requests[:, 1] - requests[:, 0] <= end), 0]


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _of(kind: str, rows: Rows) -> Rows:
    return [row for row in rows if row["kind"] == kind]


def _phases(rows: Rows, *names: str) -> Rows:
    return [row for row in _of("phase", rows) if row["name"] in names]


def _span(phase: dict[str, Any]) -> tuple[float, float]:
    return phase["start"], phase["end"]


def _blocks(requests: np.ndarray, spans: Iterable[tuple[float, float]]) -> list[np.ndarray]:
    """Requests that ended in each block of spans, where there were any."""
    found = []
    for start, end in spans:
        edges = np.linspace(start, end, max(1, round((end - start) / BLOCK_S)) + 1)
        positions = np.searchsorted(requests[:, 1], edges)
        found += [requests[i:j, 0] for i, j in pairwise(positions) if j > i]
    return found


def _compared(blocks: Sequence[np.ndarray], alone: Sequence[np.ndarray]) -> dict[str, Any]:
    """Requests, median and p99 of blocks, and how far both are above those of the service alone."""
    seconds = np.concatenate(blocks)
    rng = np.random.default_rng(0)
    drawn = np.array([_tail(_drawn(blocks, rng)) / _tail(_drawn(alone, rng)) - 1 for _ in range(DRAWS)])
    middle, tail = np.array([np.median(seconds), _tail(seconds)])
    at_rest = np.concatenate(alone)
    return {
        "requests": len(seconds),
        "median_s": float(middle),
        "median_rise": float(middle / np.median(at_rest) - 1),
        "p99_s": float(tail),
        "p99_rise": float(tail / _tail(at_rest) - 1),
        "p99_rise_95": np.quantile(drawn, [0.025, 0.975]).tolist(),
    }


def _drawn(blocks: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([blocks[i] for i in rng.integers(0, len(blocks), len(blocks))])


def _tail(seconds: np.ndarray) -> float:
    return float(np.quantile(seconds, 0.99, method="inverted_cdf"))


def _service_lines(rows: Rows, requests: np.ndarray) -> list[str]:
    head = ["s", "requests", "median ms", "rise", "p99 ms", "rise [95 %]"]
    lines = [*_head("phase", *head)]
    for name, found in phases(rows, requests).items():
        lines.append(f"| {name} | {found['s']:.1f} | {_compared_cells(found)} |")
    for way, of_way in bursts(rows, requests).items():
        for name, found in of_way.items():
            lines.append(f"| {way}, during measurements: {name} | | {_compared_cells(found)} |")
    return lines


def _compared_cells(found: dict[str, Any]) -> str:
    low, high = found["p99_rise_95"]
    return (
        f"{found['requests']} | {1e3 * found['median_s']:.4f} | {found['median_rise']:+.2%} "
        f"| {1e3 * found['p99_s']:.4f} | {found['p99_rise']:+.2%} [{low:+.2%}, {high:+.2%}]"
    )


def _watch_lines(rows: Rows, requests: np.ndarray) -> list[str]:
    lines = _head(
        "watched",
        *("seed", "p99 ms before", "while", "rise", "requests", "over", "pauses", "s", "ended early"),
    )
    for row in _of("tuned", rows):
        if told := row["service"]:
            before_s, while_s = told["p99_before_s"], told["p99_while_s"]
            lines.append(
                f"| {row['workload']} | {row['seed']} | {1e3 * before_s:.4f} | {1e3 * while_s:.4f} "
                f"| {while_s / before_s - 1:+.2%} | {told['requests']} | {told['requests_over']} "
                f"| {told['pauses']} | {told['paused_s']:.1f} | {told['ended'] or 'no'} |"
            )
    over = {name: np.array(rises) > 0.05 for name, rises in searches(rows, requests).items()}
    counts = ", ".join(f"{each.sum()} of {each.size} {name}" for name, each in over.items())
    return [*lines, "", f"p99 over 5 % above that of the {WINDOW} requests before: {counts}."]


def _answer_lines(rows: Rows) -> list[str]:
    names = {f"{way} / {EXCLUSIVE}": way for way in (BESIDE, WATCHED)}
    names |= {f"{EXCLUSIVE} / best of pool": EXCLUSIVE}
    names |= {f"measured {way} / alone": _told(way) for way in (BESIDE, WATCHED)}
    lines = _head("workload", "seed", "A/A", *names)
    for found in answers(rows):
        cells = [f"{found[name]:.3f}" for name in names.values()]
        lines.append(f"| {found['workload']} | {found['seed']} | {found['a_a']:.2%} | {' | '.join(cells)} |")
    return lines


def _answer(rows: Rows, name: str, seed: int) -> dict[str, Any]:
    visits = [row["latency_s"] for row in _of("again", rows) if row["workload"] == name]
    best = [row["best_of_pool"] for row in _of("again", rows) if row["workload"] == name]
    seconds = {id_: float(np.mean([visit[id_] for visit in visits])) for id_ in (visits or [{}])[0]}
    tuned = {row["way"]: row for row in _of("tuned", rows) if (row["workload"], row["seed"]) == (name, seed)}
    took = {way: seconds.get(row["best"], float("nan")) for way, row in tuned.items()}
    told = {_told(way): row["best_s"] / took[way] for way, row in tuned.items()}
    exclusive_s = took.get(EXCLUSIVE, float("nan"))
    return {
        "workload": name,
        "seed": seed,
        "a_a": max((abs(visits[-1][id_] / visits[0][id_] - 1) for id_ in seconds), default=float("nan")),
        BESIDE: took.get(BESIDE, float("nan")) / exclusive_s,
        WATCHED: took.get(WATCHED, float("nan")) / exclusive_s,
        EXCLUSIVE: exclusive_s / seconds[best[0]] if best else float("nan"),
        **dict.fromkeys(map(_told, (BESIDE, WATCHED)), float("nan")),
        **told,
    }


def _told(way: str) -> str:
    """Name of the latency that a search had measured of its answer, over that measured again alone."""
    return f"{way}_told"


def _head(first: str, *others: str) -> list[str]:
    return [f"| {' | '.join((first, *others))} |", "| --- |" + " ---: |" * len(others)]


if __name__ == "__main__":
    main()
