"""How long does it take to read the logs of other tuners, and how much memory? See README.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
from logs import PLATFORM, WORKLOADS, write_cache, write_database, write_log
from options import parse_options

READ = """
import sys
from pathlib import Path
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.records import Workload
path, platform, lower, *names = sys.argv[1:]
named = tuple(map(Workload.parse, names))
options = ReadOptions(Path(platform), workloads=named, lower_traces=lower)
source = read_source(Path(path), options)
assert not source.rejects
print(len(source.measurements))
"""
LOAD = "import json, sys; print(len(json.load(open(sys.argv[1]))['cache']))"
NOTHING = "import costmodel.dataset.importers._read; from costmodel.records import Workload; print(0)"


@dataclass(frozen=True)
class Cost:
    """What a process took from its start to its end.

    Attributes:
        what: What it did.
        records: Measurements that it read.
        seconds: Time on a core.
        peak_bytes: Most memory that it had at once.
    """

    what: str
    records: int
    seconds: float
    peak_bytes: int


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        costs = measure(Path(folder), args.records, args.megabytes, args.lines)
    print(table(costs))
    if args.json:
        args.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, help="of the MetaSchedule database")
    parser.add_argument("--megabytes", type=int, help="of the large cache of Kernel Tuner")
    parser.add_argument("--lines", type=int, help="of the log of auto_scheduler")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def measure(folder: Path, records: int, megabytes: int, lines: int) -> list[Cost]:
    """Write files, and read each in a process of its own."""
    platform = folder / "platform.toml"
    platform.write_text(PLATFORM)
    database, log = folder / "database", folder / "log.json"
    write_database(database, records)
    write_log(log, lines)
    small, large = folder / "small.json", folder / "large.json"
    write_cache(small, megabytes * 10**5)
    write_cache(large, megabytes * 10**6)

    def read(file: Path, lower: str = "none", names: Sequence[str] = ()) -> list[str]:
        return [READ, str(file), str(platform), lower, *names]

    return [
        run("imports alone", [NOTHING]),
        run("MetaSchedule, our spaces", read(database, "", WORKLOADS)),
        run("MetaSchedule, our spaces, each lowered", read(database, "all", WORKLOADS)),
        run("MetaSchedule, foreign kernels", read(database)),
        run("auto_scheduler", read(log)),
        run("Kernel Tuner, a tenth", read(small)),
        run("json.load of that tenth", [LOAD, str(small)]),
        run("Kernel Tuner, all", read(large)),
    ]


def run(what: str, arguments: Sequence[str]) -> Cost:
    """Run a program to its end."""
    process = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{what} failed with {os.waitstatus_to_exitcode(status)}")
    cost = Cost(what, int(printed), usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)
    print(f"{what}: {cost.seconds:.1f} s", file=sys.stderr, flush=True)
    return cost


def table(costs: Sequence[Cost]) -> str:
    """Markdown: one row a process."""
    lines = ["| | records | s of one core | peak memory, MB |", "| --- |" + " ---: |" * 3]
    lines += [
        f"| {cost.what} | {cost.records:,} | {cost.seconds:.1f} | {cost.peak_bytes / 1e6:,.0f} |"
        for cost in costs
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
