"""Run the benchmark, and write its sheet, its tables and what each entry cost. See README.md here."""

import argparse
import csv
import io
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from costmodel.benchmark import BenchRun, run_benchmark
from costmodel.benchmark._entry import open_entry
from costmodel.files import write_whole
from costmodel.threads import cpu_model

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

HEADER = ("entry", "made_by", "commit", "hardware", "processor_seconds", "first_places")


def main(argv: Sequence[str] | None = None) -> None:
    """Run each split; the first is the one that is published."""
    args = parse(argv)
    if args.extra:  # apart: their numbers depend on the machine
        found = run_benchmark(["rank", "latency"], args.extra, salt=args.salts[0])
        found.sheet.write(args.out / "extra.json")
        write_whole(args.out / "extra.md", found.sheet.to_markdown().encode())
    for salt in args.salts:
        found = run_benchmark(args.tracks, args.entries, salt=salt)
        if salt == args.salts[0]:
            found.sheet.write(args.out / "result.json")
            write_whole(args.out / "table.md", found.sheet.to_markdown().encode())
            write_whole(args.out / "leaderboard.csv", leaderboard(found).encode())
        else:
            found.sheet.write(args.out / f"{salt}.json")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tracks", nargs="*", help="tracks to run; all if none is named")
    parser.add_argument("--entries", nargs="*", help="entries to run; all if none is named")
    parser.add_argument("--extra", nargs="*", help="entries that need more packages, on rank and latency")
    parser.add_argument("--salts", nargs="+", help="salt of each split; the first is the published one")
    parser.add_argument("--out", type=Path, default=Path("out/benchmark"), metavar="DIR")
    return parse_options(parser, __file__, argv)


def leaderboard(found: BenchRun) -> str:
    """A row an entry, with its commit, hardware and cost."""
    first, table = set(), io.StringIO()
    for line in found.sheet.lines:
        key = (line.track, line.question, line.score)
        if key not in {each[:3] for each in first}:
            first.add((*key, line.entry))
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    )
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(HEADER)
    for name, seconds in found.seconds.items():
        entry = open_entry(name)
        places = sorted("/".join(key[:3]) for key in first if key[3] == name)
        where = (commit.stdout.strip(), f"{cpu_model()}, one thread")
        writer.writerow((name, entry.made_by, *where, f"{seconds:.1f}", " ".join(places)))
    return table.getvalue()


if __name__ == "__main__":
    main()
