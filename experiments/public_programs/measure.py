"""What does ``costmodel tune PROGRAM.py`` make of kernels of public packages? See README.md here."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from costmodel.integrations.triton import tune_program

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table
from options import parse_options

PROGRAMS = Path(__file__).with_name("programs")
ALL = 1000


def main(argv: Sequence[str] | None = None) -> None:
    """Tune each program with few configs, then with all; keep each at once, and print a table."""
    args = parse(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    end, rows = time.monotonic() + args.seconds, []
    with (args.out / "programs.jsonl").open("w") as file:
        for name in args.programs:
            if time.monotonic() > end:
                print(f"no time for {name}", file=sys.stderr, flush=True)
                continue
            for row in tune(name, args):
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
    print(table(rows))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    parser.add_argument("--seconds", type=float, help="after which no further program is begun")
    parser.add_argument("--programs", nargs="+", help="names of the programs")
    parser.add_argument("--trials", type=int, help="configs of a kernel that are timed")
    return parse_options(parser, __file__, argv)


def tune(name: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the kernels of a program take as launched, with the best of few configs, and of all."""
    file = PROGRAMS / f"{name}.py"
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRITON_CACHE_DIR": f"{folder}/compiled", "XDG_CACHE_HOME": f"{folder}/cache"}
        for trials in (args.trials, ALL):
            start = time.perf_counter()
            try:
                kernels = tune_program(file, trials=trials, store=f"{folder}/timings.jsonl")
            except Exception as error:  # noqa: BLE001 (it is kept)
                yield {"program": name, "trials": trials, "error": f"{type(error).__name__}: {error}"[:500]}
                return
            seconds = time.perf_counter() - start
            for each in kernels:
                told = zip(each.configs, each.expected, strict=True)
                timed = [(config, 1e6 * time.expected) for config, time in told if time.low == time.high]
                own = [us for config, us in timed if config == each.own]
                best, best_us = min(timed, key=lambda pair: pair[1], default=(None, None))
                yield {
                    "program": name,
                    "kernel": each.name,
                    "platform": each.platform,
                    "trials": trials,
                    "program_s": round(seconds, 2),
                    "ended_by": each.ended_by,
                    "configs": len(each.configs),
                    "timed": len(timed),
                    "own_us": own[0] if own else None,
                    "best_us": best_us,
                    "best": best and dict(best.decisions),
                }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each kernel and number of trials."""
    header = ["program", "kernel", "trials", "s", "configs", "timed", "as launched, us", "best, us"]
    names = ("program", "kernel", "trials", "program_s", "configs", "timed", "own_us", "best_us")
    lines = [[_told(row[name]) for name in names] for row in rows if "error" not in row]
    told = [(row["program"], row.get("error") or row["ended_by"]) for row in rows]
    failures = [f"{name}: {why}" for name, why in dict.fromkeys(told) if why]
    return "\n".join([markdown_table(header, lines), *failures])


def _told(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
