"""For how long a kernel takes the device from all others: see README.md here."""

import argparse
import sys
from pathlib import Path

from costmodel.collector import CpuRunner, CudaRunner
from costmodel.collector._meter import METER
from costmodel.files import write_json
from costmodel.kernels import sample_candidates
from costmodel.records import Workload

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say

RUNNERS = {"cpu": CpuRunner, "cuda": CudaRunner}


def main() -> None:
    """Measure kernels of each workload, one after the other, and print for how long the device was taken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", choices=RUNNERS, default="cuda")
    parser.add_argument("--sms", type=int, default=32)
    parser.add_argument("--kernels", type=int, default=6, help="of each workload")
    parser.add_argument("--workload", nargs="+", default=["softmax-m2048-n4096", "matmul-m64-n64-k64"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    args = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with RUNNERS[args.runner](build_workers=1) as runner:
        platform = runner.platform(args.sms)
        for name in args.workload:
            candidates = runner.draw(sample_candidates, Workload.parse(name), args.kernels + 1, 0).result()
            runner.measure(candidates[:1], platform)  # whatever starts, starts
            runner.prefetch(candidates)
            runs, before = 0, taken()
            for candidate in candidates[1:]:
                (measured,) = runner.measure([candidate], platform)
                runs += measured.outcome == "ok"
            taken_s = (taken() - before) / args.kernels
            found[name] = {"kernels": runs, "taken_ms": round(1e3 * taken_s, 1)}
            say(f"{name}: {found[name]}")
    if args.json:
        write_json(args.json, found)


def taken() -> float:
    """Seconds for which this process has had the device so far."""
    return sum(tally.busy_s for stage, tally in METER.totals().items() if stage.name == "device")


if __name__ == "__main__":
    main()
