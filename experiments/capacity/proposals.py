"""Processor seconds in which a tune on an H100 starts and proposes batches: see README.md here."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import costmodel
from costmodel.collector import Runner
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload
from costmodel.search import KernelSpace, SearchSpace

sys.path.append(str(Path(__file__).parents[1]))
from pipeline_throughput.run import parse as parse_pipeline
from stopwatch import HostWatch, Watched


class DrawnLatencies(Runner):
    """A device that takes no time and draws latencies: proposing takes as long, whatever they are."""

    description = "Nothing is measured."
    repeats = False

    def __init__(self, builders: int) -> None:
        dataset = costmodel.load_dataset("h100-sm-budgets")
        self._platform = max(dataset.platforms, key=lambda platform: platform.sms_granted)
        self._rng = np.random.default_rng(0)
        self._builders = builders

    @property
    def in_flight(self) -> int:
        return 1 + self._builders

    @property
    def budgets(self) -> tuple[int, ...]:
        return (self._platform.sms_granted,)

    def platform(self, sms: int | None = None) -> Platform:
        return self._platform

    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        return ("metaschedule",)

    def space(
        self, workload: Workload | str, platforms: Sequence[Platform], *, source: str | None = None
    ) -> SearchSpace:
        parsed = Workload.parse(workload) if isinstance(workload, str) else workload
        return KernelSpace(MetaSchedule().space(parsed, "cuda"), *platforms)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        return [
            Measurement(
                candidate=candidate,
                platform=platform,
                outcome=Outcome.OK,
                latencies_s=(1e-4 * float(self._rng.lognormal()),),
                runs_per_repeat=1,
                visit=visit,
                measured_at=datetime.now(UTC).isoformat(),
            )
            for candidate in candidates
        ]


class WatchedRunner(Watched, DrawnLatencies):
    """Says what is asked of it."""


def main() -> None:
    """Tune each workload of experiments/pipeline_throughput as on 16 cores."""
    args = parse()
    pipeline = parse_pipeline(["--json", str(args.json)])
    watch = HostWatch(time.thread_time)
    for workload in pipeline.workload:
        runner = WatchedRunner(args.builders)
        runner.watch = watch
        watch.begin()
        costmodel.tune(workload, trials=args.trials, on=runner)
        print(workload, watch.start_s, watch.propose_s, file=sys.stderr, flush=True)
    args.json.write_text(json.dumps({"start_s": watch.start_s, "propose_s": watch.propose_s}) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the seconds go")
    parser.add_argument("--builders", type=int, default=15, help="build processes that the tune believes in")
    parser.add_argument("--trials", type=int, default=128, help="of each tune")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
