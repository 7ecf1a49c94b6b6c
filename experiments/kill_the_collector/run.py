"""How many records does kill -9 cost? See README.md."""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path += [str(TESTS / "collector"), str(TESTS / "records")]

from append_until_killed import measurement  # noqa: E402
from collect_until_killed import Say, Tally, Witness, kill_campaigns  # noqa: E402

from costmodel.records import Measurement, RecordStore  # noqa: E402

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options  # noqa: E402

_LARGEST_BATCH = 200  # lines of 2.3 KB: long enough to be killed in
_RECORDS = 3000  # of a store, before the next one is begun


def kill_writers(kills: int, seed: int, root: Path, seconds: float = 0.05) -> Tally:
    """Kill a process that does nothing but write batches of records to a store."""
    chance, tally = random.Random(seed), Tally()
    while tally.kills < kills:
        path = root / f"{tally.kills}.jsonl"
        witness = Witness(path, tally)

        def write(say: Say, path: Path = path, sizes: int = chance.getrandbits(32)) -> None:
            with RecordStore(path) as store:
                for batch in batches(store, random.Random(sizes)):
                    for record in batch:
                        say(f"begin {record.key}")
                    store.append(batch)
                    for record in batch:
                        say(f"stored {record.key}")

        while tally.kills < kills and witness.run_and_kill(write, chance, seconds):
            pass
        witness.close()
    return tally


def batches(store: RecordStore, chance: random.Random) -> Iterator[list[Measurement]]:
    """What is missing of a store, in batches of any size."""
    number = len(store.keys())
    while number < _RECORDS:
        size = chance.randint(1, _LARGEST_BATCH)
        yield [measurement(i) for i in range(number, number + size)]
        number += size


def main() -> None:
    arguments = parse()
    found = {}
    for name, kill in (("campaign", kill_campaigns), ("writer", kill_writers)):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = tally = kill(arguments.kills, arguments.seed, Path(folder))
        print(
            f"{name}: {tally.kills} kills at random moments and {tally.cuts} in the middle of a write, "
            f"{tally.torn} left a torn tail, {tally.repaired} of these repaired; "
            f"{tally.committed} records committed, {tally.lost} lost, {tally.doubled} doubled, "
            f"{tally.again} measured again",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, help="at random moments, of each of the two")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
