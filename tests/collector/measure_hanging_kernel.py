"""Measures a kernel that never ends and prints "hanging" when it has begun; its caller kills this process."""

import tempfile
from pathlib import Path

import planted_faults

from costmodel.collector import CpuRunner
from costmodel.records import Candidate, Config, Workload


def main() -> None:
    candidate = Candidate(
        Workload.parse("matmul-m8-n8-k8"), "metaschedule-1", Config({"planted": "kernel hangs"})
    )
    source = planted_faults.PlantedSource(Path(tempfile.mkdtemp()))
    with CpuRunner(run_timeout_s=600.0, sources=[source]) as runner:
        runner.measure([candidate], runner.platform(1))


if __name__ == "__main__":
    main()
