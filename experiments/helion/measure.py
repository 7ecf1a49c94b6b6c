"""How good an answer a tenth of the configs of Helion's own search gives, when ours chooses them.

Each kernel has a process of its own: all compile beside each other, one at a time has the GPU; the first two
go before the third where cores are short. What is found is written to ``measured.jsonl`` at once, so that a
process that ends early loses little.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

TUNERS = {
    "helion": "Helion's search",
    "helion-again": "the same, timed again",
    "ours": "ours, a tenth of its configs",
    "ours-of-search": "ours, knowing its search",
    "random": "random, as many",
    "default": "Helion's default config",
    "helion-of-whole": "its search's on the whole GPU",
}
KERNELS = ("matmul", "layer_norm", "softmax")
NICENESS = {"softmax": 10}  # of processes that leave their cores to others
GRACE_S = 12.0  # after the time limit, a kernel's process is ended


def main() -> None:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends too
    options.out.mkdir(parents=True, exist_ok=True)
    if options.kernel:
        sys.path.append(str(Path(__file__).parent))
        from trial import answer

        answer(options)
        return
    if not options.table:
        with tempfile.TemporaryDirectory() as work, (options.out / "measured.jsonl").open("w") as file:
            options.work = Path(work)
            for line in measure(options):
                file.write(line)
                file.flush()
            for log in sorted(options.work.glob("*.log")):
                print(log.stem, *log.read_text(errors="replace").splitlines()[-8:], sep="\n  ")
    lines = (options.out / "measured.jsonl").read_text().splitlines()
    found = summary([json.loads(line) for line in lines])
    (options.out / "result.json").write_text(json.dumps(found, indent=1) + "\n")
    print_table(found)


def measure(options: argparse.Namespace) -> Iterator[str]:
    """Lines of all kernels, as they come."""
    start = time.monotonic()
    lines: SimpleQueue[str | None] = SimpleQueue()
    processes = [start_kernel(name, options) for name in options.only or KERNELS]
    readers = [threading.Thread(target=read, args=(each, lines)) for each in processes]
    for reader in readers:
        reader.start()
    timer = threading.Timer(options.time_limit + GRACE_S, lambda: [*map(end, processes)])
    timer.start()
    try:
        ended = 0
        while ended < len(processes):
            line = lines.get()
            ended += line is None
            if line:
                row = json.loads(line)
                keys = ("kernel", "what", "tuner", "shape", "place", "timed", "search_s", "us")
                told = [str(row.get(key, "")) for key in keys]
                print(f"{time.monotonic() - start:6.1f} s:", *told, row.get("failed", ""), flush=True)
                yield line
    finally:
        timer.cancel()
        for each, reader in zip(processes, readers, strict=True):
            end(each)
            reader.join()


def end(process: "subprocess.Popen[str]") -> None:
    """End a process and those that it made, which compile and would keep its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def start_kernel(name: str, options: argparse.Namespace) -> "subprocess.Popen[str]":
    nice = ["nice", "-n", str(NICENESS.get(name, 0))]
    command = [*nice, sys.executable, __file__, *sys.argv[1:], "--kernel", name, "--work", options.work]
    log = (options.work / f"{name}.log").open("w")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)


def read(process: "subprocess.Popen[str]", lines: "SimpleQueue[str | None]") -> None:
    """Pass on what a process says in whole lines of JSON, then None."""
    assert process.stdout
    with process.stdout as said:
        for line in said:
            if line.startswith("{") and line.endswith("}\n"):
                lines.put(line)
    lines.put(None)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By tuner, over cells: latency over that of Helion's search, configs timed, wrong results."""
    answers: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if row["what"] == "answer":
            answers.setdefault((row["kernel"], *row["shape"], row["place"]), {})[row["tuner"]] = row
    compared = [cell for cell in answers.values() if cell.get("helion", {}).get("us")]
    tuners = {tuner: _of(tuner, compared) for tuner in TUNERS}
    cells = {
        " ".join(map(str, key)): {
            tuner: [row.get("us"), row.get("timed"), row.get("search_s")] for tuner, row in cell.items()
        }
        for key, cell in answers.items()
    }
    places = [row for row in rows if row["what"] == "place"]
    return {"places": places, "tuners": tuners, "cells": cells}


def _of(tuner: str, cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    ran = [(cell[tuner], cell["helion"]) for cell in cells if cell.get(tuner, {}).get("us")]
    over = [row["us"] / own["us"] for row, own in ran]
    return {
        "cells": len(ran),
        "failed": sum("failed" in cell.get(tuner, {}) for cell in cells),
        "timed": _median([row["timed"] for row, _ in ran if "timed" in row]),
        "over_helion": _median(over),
        "over_helion_geomean": math.exp(statistics.fmean(map(math.log, over))) if over else None,
        "worst": max(over, default=None),
        "best": min(over, default=None),
        "within_5_percent": sum(each <= 1.05 for each in over),
        "wrong": sum(not row["error"] <= 0.02 for row, _ in ran),
    }


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def print_table(found: dict[str, Any]) -> None:
    for place in found["places"]:
        print(place)
    for name, cell in found["cells"].items():
        print(name, {tuner: (us and round(us, 2), timed) for tuner, (us, timed, _) in cell.items()})
    columns = ("cells", "failed", "timed", "over_helion", "over_helion_geomean", "worst", "best")
    columns = (*columns, "within_5_percent", "wrong")
    print(" " * 30, *columns)
    for tuner, each in found["tuners"].items():
        texts = ["-" if each[key] is None else f"{each[key]:.3f}".removesuffix(".000") for key in columns]
        print(f"{TUNERS[tuner]:30} {'  '.join(texts)}")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="what is measured")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", help="kernels, all unless given")
    parser.add_argument("--table", action="store_true", help="only summarise what was measured")
    parser.add_argument("--kernel", help="measure this one")
    parser.add_argument("--work", type=Path, help="folder of that process for stores and what is compiled")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="after which nothing is begun")
    parser.add_argument("--part-sms", type=int, help="SMs of the part of the GPU")
    parser.add_argument("--search-s", type=int, help="of Helion's own search in a cell")
    parser.add_argument("--compile-s", type=int, help="after which a config that compiles is given up")
    parser.add_argument("--jobs", type=int, help="that compile beside each other, of one kernel")
    parser.add_argument("--effort", choices=("quick", "full"), help="of Helion's own search")
    parser.add_argument("--known", type=int, help="configs that ours times first, without a model")
    parser.add_argument("--share", type=float, help="of Helion's configs, for ours and random")
    parser.add_argument("--learner", help="of the model")
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
