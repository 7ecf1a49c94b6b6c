"""How many evaluations does a session of Kernel Tuner need with each strategy? See README.md here."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import CONSENSUS, OURS, draw, markdown, summary
from rich.progress import track

from costmodel.files import write_json, write_whole

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

# Nothing is drawn in two; scipy's basin hopping takes more time than all others together.
_SEEDS = {CONSENSUS: 1, "brute_force": 1, "basinhopping": 5}


def main() -> None:
    """Make the sessions that were not made yet, and compare all."""
    arguments = parse()
    names = [OURS, CONSENSUS, *arguments.strategies]
    arguments.out.mkdir(parents=True, exist_ok=True)
    cases = sorted(arguments.data.glob("*/*/*.json.gz"))
    rows: list[dict[str, Any]] = []
    for case in track(cases, "tuning"):
        for name in names:
            seeds = min(arguments.seeds, _SEEDS.get(name, arguments.seeds))
            rows += sessions(case, name, seeds, arguments.evaluations, arguments.out)
    table = summary(rows, names, arguments.evaluations)
    print(markdown(table, arguments.evaluations))
    if arguments.json:
        write_json(arguments.json, table)
    if arguments.plot:
        draw(rows, names, arguments.evaluations, arguments.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--strategies", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--evaluations", type=int, help="after which a session ends, whatever it found")
    parser.add_argument("--out", type=Path, required=True, help="results; goes on with what is there")
    parser.add_argument("--json", type=Path, help="where to write the table")
    parser.add_argument("--plot", type=Path, help="where to draw the best so far")
    return parse_options(parser, __file__, argv)


def sessions(case: Path, name: str, seeds: int, evaluations: int, out: Path) -> list[dict[str, Any]]:
    """What each session with a strategy found; read where it was made before."""
    kernel = f"{case.parent.parent.name}/{case.parent.name}"
    words = re.findall(r"[a-z0-9]+", f"{kernel} {case.name.partition('.')[0]} {name}".lower())
    file = out / f"{'-'.join(words)}-{seeds}x{evaluations}.json"
    if not file.exists():
        from methods import device_of, method_of, sources
        from sessions import Space, simulate

        space, method = Space.read(case), method_of(name, case)
        about: dict[str, Any] = {"kernel": kernel, "device": device_of(case), "method": name}
        if name == OURS:
            about["sources"] = [device_of(path) for path in sources(case)]
        ratios = [simulate(space, method(), seed, evaluations) for seed in range(seeds)]
        made = [{**about, "seed": seed, "ratios": found} for seed, found in enumerate(ratios)]
        write_whole(file, json.dumps(made).encode())
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return found


if __name__ == "__main__":
    main()
