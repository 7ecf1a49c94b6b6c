"""Tables and figures of what ``measure.py`` wrote: see README.md here."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.files import write_json

AFTER, TURNS, LANES = "one after another", "at once, in turns", "at once, on lanes"
TURNS_AGAIN = "at once, in turns, again (A/A)"
ALONE, AGAIN, LANE_ALONE = "alone", "alone again (A/A)", "on a lane, nothing beside it"
COUNTED = "lanes counted", "lanes counted without MPS"
FINALISTS = 3


def main() -> None:
    args = parse()
    lines = args.measured.read_text(encoding="utf-8").splitlines()
    found = report({line["name"]: line.get("found") for line in map(json.loads, lines)})
    if args.json:
        write_json(args.json, found)
    print(tables(found))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    beside = Path(__file__).with_name("measured.jsonl")
    parser.add_argument("--measured", type=Path, default=beside, help="what measure.py wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    return parser.parse_args(argv)


def report(found: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of all that was found, by the names of what was done."""
    base = found.get(AFTER)
    jobs = {
        name: throughput(found[name], base) for name in (AFTER, TURNS, LANES, TURNS_AGAIN) if found.get(name)
    }
    first, second, ways = found.get(ALONE), found.get(AGAIN), {}
    if first and second:
        ways = {AGAIN: second}
        for name, key in (TURNS, f"winners {TURNS}"), (LANE_ALONE, LANE_ALONE), (LANES, f"winners {LANES}"):
            ways |= {name: found[key]["latency_s"]} if found.get(key) else {}
    winners = {name: quality(way, first, second) for name, way in ways.items()}
    counted = {
        name: {k: v for k, v in found[name].items() if k != "ids"} for name in COUNTED if found.get(name)
    }
    return {"jobs": jobs, "winners": {k: v for k, v in winners.items() if v["tasks"]}, "counted": counted}


def throughput(one: Mapping[str, Any], base: Mapping[str, Any] | None) -> dict[str, Any]:
    """Valid measurements of a way of doing the jobs, and how many times as many those are as in ``base``."""
    found: dict[str, Any] = {"valid": one["valid"], "ended": sum(code == 0 for code in one["codes"])}
    for part, seconds, used in (
        ("in_all", "seconds", "builders_used"),
        ("window", "window_s", "builders_used_in_window"),
    ):
        ours, theirs = an_hour(one, seconds), an_hour(base, seconds) if base else 0.0
        found[part] = {
            "seconds": one[seconds],
            "an_hour": ours,
            "times": ours / theirs if theirs else None,
            "builders_used": one[used],
        }
    return found


def an_hour(one: Mapping[str, Any], of: str) -> float:
    """Valid measurements an hour of a kind of seconds."""
    return float(3600 * one["valid"] / max(one[of], 1e-9))


def quality(way: Mapping[str, Any], alone: Mapping[str, Any], again: Mapping[str, Any]) -> dict[str, Any]:
    """How far latencies of a way of measuring are off, and what its winners are worth.

    Winners of measuring alone are chosen by the first visit, and all are judged by the second. Finalists are
    the three best of a way, of which the first visit, alone, chooses one.
    """
    shifts, scores, finals, margins = [], [], [], []
    for task, latencies in way.items():
        first, second, here = (np.array(each, float) for each in (alone[task], again[task], latencies))
        works = np.isfinite(first) & np.isfinite(second) & np.isfinite(here)
        if works.sum() < 2:
            continue
        first, second, here = first[works], second[works], here[works]
        shifts.append(np.abs(here / first - 1))
        best_s = second[first.argmin()]
        scores.append(best_s / second[here.argmin()])
        finalists = here.argsort()[:FINALISTS]
        finals.append(best_s / second[finalists[first[finalists].argmin()]])
        margins.append(np.partition(first, 1)[1] / first.min() - 1)
    if not shifts:
        return {"tasks": 0}
    shift = np.concatenate(shifts)
    return {
        "tasks": len(scores),
        "kernels": len(shift),
        "shift": {"median": np.median(shift), "p90": np.quantile(shift, 0.9), "worst": shift.max()},
        "score": {"median": np.median(scores), "worst": min(scores)},
        "finalists": {"median": np.median(finals), "worst": min(finals)},
        "second_best": {"median": np.median(margins), "least": min(margins)},
    }


def tables(found: Mapping[str, Any]) -> str:
    """Markdown: throughput, and how good winners are."""
    lines = [
        "| jobs | ended | valid | seconds | an hour | times | cores builders used | first to last, s "
        "| an hour | times | cores builders used |"
    ]
    lines += ["| --- |" + " ---: |" * 10]
    for name, one in found["jobs"].items():
        parts = (
            f"{part['seconds']:.1f} | {part['an_hour']:,.0f} | {ratio(part['times'])} "
            f"| {part['builders_used']:.0%}"
            for part in (one["in_all"], one["window"])
        )
        lines.append(f"| {name} | {one['ended']} | {one['valid']} | {' | '.join(parts)} |")
    lines += [
        "",
        "| winners | tasks | shift: median | p90 | worst | score: median | worst | finalists | worst |",
    ]
    lines += ["| --- |" + " ---: |" * 8]
    for name, one in found["winners"].items():
        shifts = " | ".join(f"{one['shift'][which]:.2%}" for which in ("median", "p90", "worst"))
        scores = " | ".join(
            f"{one[what][which]:.4f}" for what in ("score", "finalists") for which in ("median", "worst")
        )
        lines.append(f"| {name} | {one['tasks']} | {shifts} | {scores} |")
    return "\n".join(lines)


def ratio(times: float | None) -> str:
    return f"{times:.2f}" if times is not None else ""


if __name__ == "__main__":
    main()
