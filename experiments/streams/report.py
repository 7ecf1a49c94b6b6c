"""What was measured beside what the model says of it: see README.md. Reads what ``measure.py`` wrote."""

import argparse
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from contentions import shared_alike

from costmodel.files import write_json
from costmodel.planner import beside_others, on_best_streams, replay
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.whatif._fuse import GRAPH_GAP_S
from costmodel.planner.whatif._sharing import BESIDE, WAIT_S, Contention, first_come

Row = dict[str, Any]
Tasks = dict[str, JsonTask]

# The models that are compared.
MODELS: dict[str, Contention] = {
    "shared alike, nothing beside others": partial(shared_alike, beside=1.0),
    "first come, nothing beside others": partial(first_come, beside=1.0),
    f"shared alike, {BESIDE:g} beside others": shared_alike,
    f"first come, {BESIDE:g} beside others": first_come,
}
WAYS, DTYPES = ("nimble", "ours"), ("float16", "float32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path, default=Path(__file__).parent / "measured", metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    found = Measured(args.measured)
    if args.json:
        write_json(args.json, summary(found))
    tables = [live(found), stages(found), fits(found), pairs_of(found), waits(found), chosen_now(found)]
    print(*tables, sep="\n\n")


@dataclass(frozen=True)
class Measured:
    """A folder of ``measure.py``."""

    folder: Path

    def rows(self, name: str) -> list[Row]:
        """Lines of a file that hold no error."""
        lines = gzip.decompress((self.folder / f"{name}.jsonl.gz").read_bytes()).splitlines()
        return [row for line in lines if "error" not in (row := json.loads(line))]

    def tasks(self) -> dict[tuple[str, str], Tasks]:
        """Kernels of each network and data type by their nodes."""
        return {
            key(row): {task.id: task for task in msgspec.convert(row["tasks"], list[JsonTask])}
            for row in self.rows("graphs")
        }


def key(row: Row) -> tuple[str, str]:
    return row["network"], row["dtype"]


def predicted_s(tasks: Tasks, placement: Mapping[str, Any], contention: Contention) -> float:
    """What a model says of a recorded placement."""
    placed = [
        msgspec.structs.replace(tasks[node], resource=f"stream {placement['stream_of'][node]}")
        for node in placement["order"]
        if node in tasks
    ]
    return replay(beside_others(graph_of(placed, "placed"), contention=contention)).makespan_s


def taken_s(row: Row, way: str) -> float:
    return sum(row["measured_s"][way]) / 2


def live(found: Measured) -> str:
    """Microseconds measured and predicted, before (when the schedules were chosen) and now."""
    tasks = found.tasks()
    lines = [
        "| network | dtype | kernels | module | one stream | said | again | Nimble | said | says now | ours "
        "| said | says now | faster than one | in s |",
        "| --- | --- |" + " ---: |" * 13,
    ]
    for row in found.rows("rows"):
        one, said = taken_s(row, "one"), row["predicted_s"]
        cells = [str(len(tasks[key(row)])), us(taken_s(row, "module")), us(one), us(said["one"])]
        cells.append(f"{100 * (taken_s(row, 'one again') / one - 1):+.1f} %")
        for way in WAYS:
            now = predicted_s(tasks[key(row)], row["placements"][way], first_come)
            cells += [us(taken_s(row, way)), us(said[way]), us(now)]
        cells += [f"{one / taken_s(row, 'ours'):.2f}", f"{row['chosen_in_s']['ours']:.1f}"]
        lines.append(f"| {row['network']} | {row['dtype']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def stages(found: Measured) -> str:
    """What IOS's dynamic program saves with measured stages, and what ours does."""
    lines = [
        "| network | one stream, us | measured stages | ours | our gain over theirs | stages measured "
        "| seconds |",
        "| --- |" + " ---: |" * 6,
    ]
    for row in found.rows("stages"):
        one, best, ours = (taken_s(row, way) for way in ("one", "stages", "ours"))
        cells = [us(one), us(best), us(ours), f"{gain_share(row):.3f}", str(row["stages_measured"])]
        lines.append(f"| {row['network']} | {' | '.join(cells)} | {row['chosen_in_s']['stages']:.1f} |")
    return "\n".join(lines)


def gain_share(row: Row) -> float:
    """What our schedule saves over what measured stages save."""
    one, best, ours = (taken_s(row, way) for way in ("one", "stages", "ours"))
    return (one - ours) / (one - best)


def fits(found: Measured) -> str:
    """How far each model is from what placements took."""
    lines = ["| model | " + " | ".join(f"{dtype}: rms | bias | worst" for dtype in DTYPES) + " |"]
    lines.append("| --- |" + " ---: |" * 6)
    tables = {"said before": partial(said_over_taken, found)} | {
        name: partial(ratios, found, contention=contention) for name, contention in MODELS.items()
    }
    for name, of_dtype in tables.items():
        cells = [text for dtype in DTYPES for text in percent(off(of_dtype(dtype)))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def said_over_taken(found: Measured, dtype: str) -> list[float]:
    """What was said of all placements of a data type before they were measured, over what they took."""
    rows = [row for row in found.rows("rows") if row["dtype"] == dtype]
    return [row["predicted_s"][way] / taken_s(row, way) for row in rows for way in WAYS]


def ratios(found: Measured, dtype: str, contention: Contention) -> list[float]:
    """What a model says of all placements of a data type, over what they took."""
    tasks = found.tasks()
    return [
        predicted_s(tasks[key(row)], row["placements"][way], contention) / taken_s(row, way)
        for row in found.rows("rows")
        if row["dtype"] == dtype
        for way in WAYS
    ]


def off(ratios: Sequence[float]) -> dict[str, float]:
    """Root of the mean square, mean, and largest of the logarithms of ratios."""
    logs = [log(ratio) for ratio in ratios]
    rms = sqrt(sum(each**2 for each in logs) / len(logs))
    return {"rms": rms, "bias": sum(logs) / len(logs), "worst": max(logs, key=abs)}


def percent(errors: dict[str, float]) -> list[str]:
    return [f"{100 * errors['rms']:.1f} %", *(f"{100 * errors[name]:+.1f} %" for name in ("bias", "worst"))]


def summary(found: Measured) -> Row:
    """What other pages say of it."""
    rows = found.rows("rows")
    faster = {" ".join(key(row)): taken_s(row, "one") / taken_s(row, "ours") for row in rows}
    beside_nimble = {" ".join(key(row)): taken_s(row, "nimble") / taken_s(row, "ours") for row in rows}
    shares = {row["network"]: gain_share(row) for row in found.rows("stages")}
    errors = {
        "before": {dtype: off(said_over_taken(found, dtype)) for dtype in DTYPES},
        "now": {dtype: off(ratios(found, dtype, first_come)) for dtype in DTYPES},
    }
    repeats = [abs(taken_s(row, "one again") / taken_s(row, "one") - 1) for row in rows]
    return {
        "faster_than_one": faster,
        "slower_than_one": sum(each < 1 for each in faster.values()),
        "faster_than_nimble": beside_nimble,
        "gain_over_measured_stages": shares,
        "least_gain_over_measured_stages": min(shares.values()),
        "longest_choice_s": max(row["chosen_in_s"]["ours"] for row in rows),
        "errors": errors,
        "largest_difference_of_repeats": max(repeats),
    }


def pairs_of(found: Measured) -> str:
    """How far each model is from pairs of kernels that are repeated side by side."""
    tasks = found.tasks()
    sets: dict[str, list[tuple[Tasks, float]]] = {"SMs have room for both": [], "SMs do not": []}
    for row in found.rows("pairs"):
        for both, taken in _pairs(row, tasks[key(row)]):
            wanted = sum(
                min(task.blocks / (task.sms * max(task.sm_blocks, 1)), 1.0) for task in both.values()
            )
            sets["SMs have room for both" if wanted <= 1 else "SMs do not"].append((both, taken))
    lines = ["| model | " + " | ".join(f"{name}: rms | bias | worst" for name in sets) + " |"]
    lines.append("| --- |" + " ---: |" * 6)
    for name, contention in MODELS.items():
        cells = []
        for pairs in sets.values():
            cells += percent(off([_beside_s(both, contention) / taken for both, taken in pairs]))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    counts = ", ".join(f"{len(pairs)} pairs ({name})" for name, pairs in sets.items())
    return f"{counts}\n\n" + "\n".join(lines)


def _pairs(row: Row, tasks: Tasks) -> Iterator[tuple[Tasks, float]]:
    """Two kernels with what they take alone, again and again, and what they take together."""
    alone = {each["nodes"][0]: min(each["seconds"]) for each in row["pairs"] if len(each["nodes"]) == 1}
    for each in row["pairs"]:
        if len(each["nodes"]) == 2:
            both = {
                node: msgspec.structs.replace(
                    tasks[node], duration_s=alone[node] - GRAPH_GAP_S, after=[], resource=node
                )
                for node in each["nodes"]
            }
            yield both, min(each["seconds"])


def _beside_s(both: Tasks, contention: Contention) -> float:
    """Of a pair, until the next begins, which waits for both."""
    graph = graph_of(list(both.values()), "pair")
    return replay(beside_others(graph, contention=contention)).makespan_s + WAIT_S


def waits(found: Measured) -> str:
    """What a wait takes, by streams; and what kernels take longer in a trace of our streams than of one."""
    about: Row = {}
    for line in (found.folder / "about.jsonl").read_text(encoding="utf-8").splitlines():
        about |= json.loads(line)
    lines = [f"waits, us: { {width: round(each * 1e6, 2) for width, each in about['waits_s'].items()} }", ""]
    lines += [
        "| traced, float16 | kernels | us of all, one stream | ours | median longer |",
        "| --- |" + " ---: |" * 4,
    ]
    for row in found.rows("traces"):
        one, ours = (row["traces"][way]["kernels"] for way in ("one", "ours"))
        alone = {name: median(each) for name, each in _by_name(one).items()}
        longer = [kernel["duration_s"] / alone[kernel["name"]] for kernel in ours if kernel["name"] in alone]
        total = (us(sum(kernel["duration_s"] for kernel in kernels)) for kernels in (one, ours))
        lines.append(f"| {row['network']} | {len(one)} | {' | '.join(total)} | {median(longer):.2f} |")
    return "\n".join(lines)


def _by_name(kernels: Sequence[Row]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for kernel in kernels:
        found.setdefault(kernel["name"], []).append(kernel["duration_s"])
    return found


def chosen_now(found: Measured) -> str:
    """What the model says today of the schedules that were run, and of those that it would choose."""
    rows, tasks = found.rows("rows"), found.tasks()
    lines = [
        "| network | dtype | run, measured | says | would choose, says | streams |",
        "| --- | --- |" + " ---: |" * 4,
    ]
    for row in rows:
        best = on_best_streams(graph_of(list(tasks[key(row)].values()), row["network"]))
        says = predicted_s(tasks[key(row)], row["placements"]["ours"], first_come)
        cells = [us(taken_s(row, "ours")), us(says), us(replay(best).makespan_s)]
        lines.append(f"| {row['network']} | {row['dtype']} | {' | '.join(cells)} | {best.is_stream.sum()} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
