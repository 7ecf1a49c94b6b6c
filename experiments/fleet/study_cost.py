"""What a study costs: the same searches in a shared database, and in a journal that one process has."""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import optuna
from sqlalchemy import event
from sqlalchemy.engine import Engine

from costmodel.collector import Runner
from costmodel.files import write_json
from costmodel.kernels._sources import open_sources
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload
from costmodel.search import ModelSampler, open_study, tune
from costmodel.search.spaces._kernel import KernelSpace
from costmodel.testing import landscape_platform

WORKLOADS = [f"matmul-m{m}-n1024-k1024-float16" for m in range(512, 1024, 64)]
TRIALS = 12
WRITES = ("INSERT", "UPDATE", "DELETE")


class Instant(Runner):
    """Takes no time for a kernel, which has a latency of its own by its id."""

    description = "A formula."
    budgets = (32,)

    def platform(self, sms: int | None = None) -> Platform:
        return landscape_platform(sms or 32)

    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        return ("triton",)

    def space(
        self, workload: Workload | str, platforms: Sequence[Platform], *, source: str | None = None
    ) -> KernelSpace:
        (triton,) = open_sources(["triton"])
        named = Workload.parse(workload) if isinstance(workload, str) else workload
        return KernelSpace(triton.space(named, "cuda"), *platforms)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        return [
            Measurement(
                candidate=each,
                platform=platform,
                outcome=Outcome.OK,
                latencies_s=(1e-5 * (1 + int(each.candidate_id[:8], 16) / 2**32),),
                measured_at="2026-11-27T10:00:00+00:00",
            )
            for each in candidates
        ]


@dataclass
class Counted:
    """What was asked of a database; ``held_s`` are processor seconds of transactions from the first write."""

    statements: int = 0
    writing: int = 0
    held_s: float = 0.0


@contextmanager
def counting() -> Iterator[Counted]:
    """Count what all engines of this process are asked."""
    counted, begun = Counted(), dict[int, float]()

    def asked(connection, _cursor, statement, *_) -> None:  # type: ignore[no-untyped-def]
        counted.statements += 1
        if statement.lstrip().upper().startswith(WRITES):
            begun.setdefault(id(connection), time.thread_time())

    def ended(connection) -> None:  # type: ignore[no-untyped-def]
        if (since := begun.pop(id(connection), None)) is not None:
            counted.writing += 1
            counted.held_s += time.thread_time() - since

    event.listen(Engine, "before_cursor_execute", asked)
    event.listen(Engine, "commit", ended)
    try:
        yield counted
    finally:
        event.remove(Engine, "before_cursor_execute", asked)
        event.remove(Engine, "commit", ended)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    searched(Path(tempfile.mkdtemp()), WORKLOADS[:1], shared=True)  # imports, and what is made once
    found = {}
    for name, shared in (("in a shared database", True), ("in a journal of its own", False)):
        with tempfile.TemporaryDirectory() as folder, counting() as counted:
            begun = time.process_time()
            searched(Path(folder), WORKLOADS, shared=shared)
            trials = TRIALS * len(WORKLOADS)
            found[name] = {
                "statements": round(counted.statements / trials, 1),
                "writing_transactions": round(counted.writing / trials, 1),
                "held_ms": round(1e3 * counted.held_s / trials, 1),
                "processor_ms": round(1e3 * (time.process_time() - begun) / trials, 1),
            }
    write_json(args.json, found)
    print(f"| study | {' | '.join(next(iter(found.values())))} |")
    for name, row in found.items():
        print(f"| {name} | {' | '.join(map(str, row.values()))} |")


def searched(folder: Path, workloads: Sequence[str], *, shared: bool) -> None:
    """Search for a kernel of each workload, without a model of what is known."""
    runner = Instant()
    for workload in workloads:
        sampler = ModelSampler(runner.space(workload, [runner.platform()]))
        place = folder / ("jobs.db" if shared else f"{workload}.journal")
        study = open_study(str(place), workload, shared=shared)
        tune(runner, sampler, TRIALS, study=study)


if __name__ == "__main__":
    main()
