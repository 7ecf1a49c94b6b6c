"""How long a tune takes with builders that take as long as recorded ones, here and at a former commit.

See README.md here. What proposes is real, so that it takes the time that it takes; builders and device sleep.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from proposals import DrawnLatencies

import costmodel
from costmodel.files import write_json
from costmodel.records import Candidate, Measurement, Platform
from costmodel.service import load_times
from costmodel.tuning import Prior

REPOSITORY = Path(__file__).parents[2]


class Sleepers(DrawnLatencies):
    """Builders and a device that only take their time, which is that of the kernel, whoever asks for it."""

    def __init__(self, builders: int) -> None:
        super().__init__(builders)
        self._times = load_times("h100")
        self._pool = ThreadPoolExecutor(builders)
        self._built: dict[str, Future[None]] = {}
        self.begun = 0.0

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        self.begun = self.begun or time.perf_counter()
        for each in candidates:
            if each.candidate_id not in self._built:
                seconds = self._seconds(each, self._times.build_s)
                self._built[each.candidate_id] = self._pool.submit(time.sleep, seconds)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        self.prefetch(candidates)
        for _ in as_completed({self._built[each.candidate_id] for each in candidates}):
            time.sleep(float(np.median(self._times.measure_s)))
        return super().measure(candidates, platform, visit=visit)

    @staticmethod
    def _seconds(candidate: Candidate, drawn_from: Sequence[float]) -> float:
        return float(np.random.default_rng(int(candidate.candidate_id[:8], 16)).choice(drawn_from))


def main() -> None:
    """Tune each workload here and at the former commit, in turns; or only here, for the other process."""
    args = parse()
    if args.one:
        print(json.dumps(tuned(args.one, args)))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        former = Path(folder) / "former"
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "--detach", "-q", str(former), args.against], check=True)
        try:
            for workload in args.workload:
                row = {name: apart(root, workload, args) for name, root in arms(former).items()}
                rows.append({"workload": workload, **row})
                print(line(rows[-1]), flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(former)], check=True)
    ratios = [row["former"]["seconds"] / row["now"]["seconds"] for row in rows]
    result = {"against": args.against, "builders": args.builders, "trials": args.trials, "rows": rows}
    result["ratio"] = round(float(np.exp(np.mean(np.log(ratios)))), 3)
    print(f"former / now: {result['ratio']}")
    if args.json:
        write_json(args.json, result)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", help="what to compare with")
    parser.add_argument("--workload", nargs="+", default=["conv2d_bias_relu-n2-c48-h30-w30-o96-k3-s2"])
    parser.add_argument("--builders", type=int, default=13)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    parser.add_argument("--one", metavar="WORKLOAD", help="tune this one with the package that is imported")
    return parser.parse_args()


def arms(former: Path) -> dict[str, Path]:
    """Where the package of each arm is."""
    return {"former": former, "now": REPOSITORY}


def apart(root: Path, workload: str, args: argparse.Namespace) -> dict[str, float]:
    """What a process found that imports the package from a checkout."""
    options = ["--one", workload, "--builders", str(args.builders), "--trials", str(args.trials)]
    ran = subprocess.run(
        [sys.executable, __file__, *options],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def tuned(workload: str, args: argparse.Namespace) -> dict[str, float]:
    """Seconds from the first build on until a quarter of the trials, and all, are measured."""
    runner, told = Sleepers(args.builders), []
    costmodel.tune(
        workload,
        trials=args.trials,
        on=runner,
        prior=Prior(),
        on_trial=lambda _: told.append(time.perf_counter() - runner.begun),
    )
    return {"quarter": round(told[len(told) // 4 - 1], 2), "seconds": round(told[-1], 2)}


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [f"{row[arm]['quarter']}; {row[arm]['seconds']}" for arm in ("former", "now")]
    ratio = row["former"]["seconds"] / row["now"]["seconds"]
    return f"| {row['workload']} | {' | '.join(cells)} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
