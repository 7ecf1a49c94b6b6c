"""Eight ranks that call one kernel at once: do they choose alike, and who times? See README.md here."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from costmodel.files import write_json
from costmodel.records._bundle import export_bundle, import_bundle

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from options import parse_options


def main() -> None:
    """Run the ranks with a store each, and with one store of each kind."""
    args = parse()
    places: dict[str, Callable[[Path, int], str]] = {
        "a store each": lambda folder, rank: str(folder / f"{rank}.jsonl"),
        "one file": lambda folder, _: str(folder / "store.jsonl"),
        "one SQLite file": lambda folder, _: str(folder / "store.db"),
    }
    rows: list[dict[str, Any]] = []
    for name in [name for name in places if not args.only or name in args.only for _ in range(args.repeats)]:
        rows.append(run_ranks(args, name, places[name]))
        save(args, rows)
    if args.url:
        rows.append(run_ranks(args, "one PostgreSQL", lambda *_: args.url))
    rows.append(run_ranks(args, "from a bundle", bundled(args), check=True))
    save(args, rows)
    print(table(rows))


def save(args: argparse.Namespace, rows: Sequence[dict[str, Any]]) -> None:
    """Write what is known so far."""
    if args.json:
        found = {"device": args.device, "ranks": args.ranks, "configs": args.configs, "rows": rows}
        write_json(args.json, found)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    parser.add_argument("--url", help="an empty database to measure too")
    parser.add_argument("--only", nargs="+", help="stores to measure; all unless named")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="cpu: in Triton's interpreter")
    parser.add_argument("--ranks", type=int, help="which take turns on the GPUs that there are")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--configs", type=int, help="to choose among")
    parser.add_argument("--bench-ms", type=float, help="that timing a config takes")
    parser.add_argument("--noise", type=float, help="relative standard deviation of a timing")
    parser.add_argument("--differ", type=float, help="by how much configs differ")
    return parse_options(parser, __file__, argv)


def run_ranks(
    args: argparse.Namespace, name: str, place: Callable[[Path, int], str], *, check: bool = False
) -> dict[str, Any]:
    """What the ranks did at the second question, all at once; they have met none but the first before.

    Args:
        args: Settings.
        name: Of the row.
        place: The store of a rank, given a folder and its number.
        check: Whether ranks compare what the store has with a few timings of now first.
    """
    with tempfile.TemporaryDirectory() as folder:
        ranks = [start_rank(args, place(Path(folder), rank), rank) for rank in range(args.ranks)]
        try:
            ask_all(ranks)
            told = ask_all(ranks, "check" if check else "go")
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    timed = [each["timed"] for each in told]
    known_at = max(each["last_timed"] for each in told)
    takers = [each for each in told if not each["timed"]] if any(timed) else []
    row = {
        "store": name,
        "choices": len({tuple(each["best"]) for each in told}),
        "timings": sum(timed),
        "ranks_that_timed": sum(map(bool, timed)),
        "first_call_s": round(max(each["call_s"] for each in told), 3),
        # Beyond the moment at which the last timing was known, which no rank can be ahead of.
        "added_ms": round(1e3 * median(each["ended"] - known_at for each in takers), 1) if takers else None,
        "added_most_ms": round(1e3 * max(each["ended"] - known_at for each in takers), 1) if takers else None,
        "warm_ms": round(1e3 * median(each["warm_s"] for each in told), 2),
    }
    if check:
        row["check_s"] = [round(each["check_s"], 3) for each in told]
        row["ratios"] = [[round(ratio, 3) for ratio in each["ratios"]] for each in told]
    say(str(row))
    return row


def bundled(args: argparse.Namespace) -> Callable[[Path, int], str]:
    """A place with a store that is filled from a bundle, which one process timed for all."""

    def place(folder: Path, rank: int) -> str:
        store, source, bundle = (folder / name for name in ("s.jsonl", "timed.jsonl", "bundle.jsonl"))
        if rank == 0:
            timing = start_rank(args, str(source), 0)
            for _ in range(2):
                ask_all([timing])
            timing.wait()
            export_bundle(source, bundle)
            begun = time.perf_counter()
            found = import_bundle(bundle, store)
            say(f"{found.added} timings imported in {1e3 * (time.perf_counter() - begun):.0f} ms")
        return str(store)

    return place


def start_rank(args: argparse.Namespace, store: str, rank: int) -> "subprocess.Popen[str]":
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if args.device == "cpu":
        environment["TRITON_INTERPRET"] = "1"
    else:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
        environment["CUDA_VISIBLE_DEVICES"] = gpus[rank % len(gpus)]
    settings = rank, args.configs, args.bench_ms, args.noise, args.differ
    line = [sys.executable, str(Path(__file__).with_name("rank.py")), store, args.device, *map(str, settings)]
    return subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask_all(ranks: Sequence["subprocess.Popen[str]"], word: str = "go") -> list[dict[str, Any]]:
    """Let all ranks call at once, as soon as all are ready.

    Args:
        ranks: The processes.
        word: ``go``, or ``check`` to have the store checked first.
    """
    for rank in ranks:
        assert rank.stdout
        if (line := rank.stdout.readline()) != "ready\n":
            sys.exit(f"A rank must be ready, but said {line!r}.")
    for rank in ranks:
        assert rank.stdin
        rank.stdin.write(f"{word}\n")
        rank.stdin.flush()
    return [json.loads(rank.stdout.readline()) for rank in ranks if rank.stdout]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown, a row each."""
    names = ("store", "choices", "timings", "ranks_that_timed", "first_call_s", "added_ms", "added_most_ms")
    lines = [f"| {' | '.join(names)} |", f"| --- |{' ---: |' * (len(names) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(row[name]) for name in names)} |" for row in rows)])


if __name__ == "__main__":
    main()
