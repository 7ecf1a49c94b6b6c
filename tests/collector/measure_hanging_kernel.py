"""Measures a kernel that never ends and prints "hanging" when it has begun; its caller kills this process."""

import planted_faults

from costmodel.collector import CpuRunner
from costmodel.collector.build import BuildJobs
from costmodel.records import Candidate, Config, Workload


def main() -> None:
    candidate = Candidate(Workload.parse("matmul-m8-n8-k8"), "fake-1", Config({"planted": "kernel hangs"}))
    jobs = BuildJobs(build=planted_faults.build)
    with CpuRunner(run_timeout_s=600.0, build_jobs=jobs) as runner:
        runner.measure([candidate], runner.platform(1))


if __name__ == "__main__":
    main()
