"""How soon a tuner answers, and how fast a kernel its answer is, on a whole GPU and on a part of it.

Each kernel has a process of its own: all compile at once, then each has the GPU to itself for its turn. What
is found is written to ``measured.jsonl`` at once, so that a process that ends early loses little.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

TUNERS = {
    "list": "triton.autotune, its list",
    "space": "triton.autotune, the space",
    "neighbours": "ours, neighbours",
    "shortlist": "ours, a model, shortlist",
    "model": "ours, a model alone",
    "store": "ours, from the store",
    "all": "ours, the space",
}
KERNELS = ("matmul", "attention", "layer_norm", "softmax", "batched_matmul", "bias_gelu")
COLUMNS = ((6, 0), (6, 0), (9, 0), (7, 2), (10, 3), (6, 2))  # width and digits
GRACE_S = 15.0  # after the time limit, a kernel's process is ended


def main() -> None:
    options = parse()
    sys.path.append(str(Path(__file__).parent))
    options.out.mkdir(parents=True, exist_ok=True)
    if options.kernel:
        from answers import answer

        answer(options)
    elif options.answer_from:
        from checks import answer_from

        answer_from(options.answer_from)
    elif options.checks:
        from checks import compare

        compare(options.out / "checks.json", options.part_sms)
    else:
        compare_tuners(options)


def compare_tuners(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as work:
        options.work = Path(work)
        found = summary(list(measure(options)))
        for log in sorted(options.work.glob("*.log")):
            print(log.stem, *log.read_text(errors="replace").splitlines()[-5:], sep="\n  ")
    (options.out / "result.json").write_text(json.dumps(found, indent=1) + "\n")
    print_table(found)


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of all kernels, kept at once."""
    start = time.monotonic()
    processes = {name: start_kernel(name, options) for name in options.only or KERNELS}
    for process in processes.values():
        timer = threading.Timer(options.time_limit + GRACE_S, process.kill)
        timer.daemon = True
        timer.start()
    with (options.out / "measured.jsonl").open("w") as file:

        def kept(line: str) -> dict[str, Any]:
            file.write(line)
            file.flush()
            row: dict[str, Any] = json.loads(line)
            return row

        for process in processes.values():  # which compile beside each other
            yield from map(kept, filter(None, [process.stdout.readline()]))
        print(f"{time.monotonic() - start:6.1f} s: compiled", flush=True)
        for turn in ("answers", "slow answers"):
            for name, process in processes.items():
                left_s = options.time_limit - (time.monotonic() - start)
                if left_s > 0:
                    yield from map(kept, turn_of(process, left_s))
                    print(f"{time.monotonic() - start:6.1f} s: {turn} of {name}", flush=True)
    for process in processes.values():
        process.kill()
        process.wait()


def start_kernel(name: str, options: argparse.Namespace) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, *sys.argv[1:], "--kernel", name, "--work", options.work]
    log = (options.work / f"{name}.log").open("w")
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)


def turn_of(process: "subprocess.Popen[str]", seconds: float) -> Iterator[str]:
    """Lines that a process says when it has the GPU, until it says that it is done, or ended."""
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
    return itertools.takewhile(lambda line: line != "done\n", process.stdout)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By tuner: medians over cells of seconds to the first answer, and of latency over the best known."""
    cells: dict[str, Any] = {}
    for tuner in TUNERS:
        warm = [row for row in rows if row.get("what") == "answer" and row["tuner"] == tuner]
        colds = [row for row in rows if row.get("what") == "cold" and row["tuner"] == tuner]
        over = [row["us"] / row["best_us"] for row in warm]
        cells[tuner] = {
            "cells": len(warm),
            "warm_ms": _median([1e3 * row["first_s"] for row in warm]),
            "cold_s": _median([row["first_s"] for row in colds]),
            "over_best": _median(over),
            "over_best_worst": max(over, default=None),
            "within_5_percent": sum(each <= 1.05 for each in over),
            "timed": _median([row["timed"] for row in warm]),
            "wrong": sum(row["error"] > 0.02 for row in warm),
        }
    compiling = {
        key: _median([row[key] for row in rows if key in row])
        for key in ("compile_list_s", "compile_space_s")
    }
    places = {row["device"]: [row["triton"], row["part_sms"]] for row in rows if "device" in row}
    return {"places": places, "compiling": compiling, "tuners": cells}


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def print_table(found: dict[str, Any]) -> None:
    print(found["places"], found["compiling"])
    titles = zip(("cells", "timed", "warm ms", "cold s", "over best", "worst"), COLUMNS, strict=True)
    print(f"{'':30}", *(title.rjust(width) for title, (width, _) in titles), "wrong")
    for tuner, each in found["tuners"].items():
        values = [
            each[key] for key in ("cells", "timed", "warm_ms", "cold_s", "over_best", "over_best_worst")
        ]
        texts = [
            "-".rjust(width) if value is None else f"{value:>{width}.{digits}f}"
            for value, (width, digits) in zip(values, COLUMNS, strict=True)
        ]
        print(f"{TUNERS[tuner]:30} {' '.join(texts)}  {each['wrong']}")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="what is measured")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", help="kernels, all unless given")
    parser.add_argument("--kernel", help="measure this one, when standard input says so")
    parser.add_argument("--work", type=Path, help="folder of that process for stores and what is compiled")
    parser.add_argument("--checks", action="store_true", help="only check that ours does what it says")
    parser.add_argument("--answer-from", type=Path, help="only take the answer of this store, or fail")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="after which nothing is begun")
    parser.add_argument("--part-sms", type=int, help="SMs of the part of the GPU")
    parser.add_argument("--configs", type=int, help="of the space")
    parser.add_argument("--shortlist", type=int, help="configs that ours times")
    parser.add_argument("--warmup-ms", type=float, help="of a timing, for all tuners")
    parser.add_argument("--rep-ms", type=float, help="of a timing, for all tuners")
    parser.add_argument("--learner", help="of the model")
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
