"""What does kill -9 cost a tuning job? See README.md."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path += [str(TESTS), str(TESTS / "service")]

import postgres  # noqa: E402
from work_until_killed import Tally, kill_crowd, kill_workers  # noqa: E402

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options  # noqa: E402


def main() -> None:
    arguments = parse()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.crowd:
            tally = in_a_crowd(arguments, Path(folder))
        else:
            tally = kill_workers(
                arguments.kills, arguments.seed, Path(folder), trials=arguments.trials, size=arguments.slice
            )
    print(tally)
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(tally), indent=2) + b"\n")


def in_a_crowd(arguments: argparse.Namespace, folder: Path) -> Tally:
    """Several workers at once on a PostgreSQL server, whose connections are ended too."""
    programs = postgres.programs()
    if programs is None:
        sys.exit("A PostgreSQL server must be there: install the system's, or `pip install pgserver`.")
    with postgres.server(programs) as url:
        place = url.format("postgres")
        return kill_crowd(
            arguments.kills, arguments.seed, folder, lambda: postgres.emptied(place), trials=arguments.trials
        )


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, help="of workers, at random moments")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trials", type=int, help="of each of a job's two tasks, on average")
    parser.add_argument("--crowd", action="store_true", help="three workers at once, on PostgreSQL")
    parser.add_argument("--slice", type=int, help="trials between two choices of a task")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
