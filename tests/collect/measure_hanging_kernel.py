"""Measures a kernel that never ends and prints "hanging" when it has begun; its caller kills this process."""

from unittest import mock

import planted_faults

from costmodel.collect import CpuRunner
from costmodel.records import Candidate, Config, Workload


def main() -> None:
    candidate = Candidate(Workload.parse("matmul-m8-n8-k8"), "fake-1", Config({"planted": "kernel hangs"}))
    with (
        mock.patch("costmodel.collect.build._builders.build_kernel", planted_faults.build),
        CpuRunner(run_timeout_s=600.0) as runner,
    ):
        runner.measure([candidate], runner.platform(1))


if __name__ == "__main__":
    main()
