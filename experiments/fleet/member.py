"""A process of the fleet, as `costmodel jobs builders` and `jobs work` start it: see README.md here."""

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from costmodel.service import JobStore, work
from costmodel.service._building import serve_builders
from costmodel.service._work import Slice


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("builders", "work"))
    parser.add_argument("--store", required=True)
    parser.add_argument("--engine", required=True, help="address of the builders")
    parser.add_argument("--count", type=int, help="builders")
    parser.add_argument("--source", help="of the kernels that builders build")
    parser.add_argument("--runner", help="of a worker")
    parser.add_argument("--records", type=Path, help="of a worker")
    args = parser.parse_args()
    with suppress(KeyboardInterrupt):
        if args.role == "builders":
            serve_builders(args.engine, args.count, JobStore(args.store), say, [args.source])
        else:
            work(
                JobStore(args.store),
                runner=args.runner,
                records=args.records,
                engine=args.engine,
                on_slice=tell,
            )


def tell(done: Slice) -> None:
    say(f"{done.name}: {done.progress.answer.sentences[0] if done.progress else done.reason}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
