"""Runs the fake campaign into a folder; its caller kills it.

Prints the key of each measurement once the campaign reports it, and logs each that is begun to a file, so
that the caller sees what was measured twice.
"""

import os
import sys
from pathlib import Path

import msgspec
from fake_collector import CONFIG, FakeCollector

from costmodel.collect import Campaign, KernelPlan
from costmodel.records import Measurement

PLAN = KernelPlan(random=40, rounds=3, per_round=20, parents=3, parents_at=(8, 132))
LONG = msgspec.structs.replace(CONFIG, kernels=PLAN)


def main(folder: Path, log: Path, seconds: float) -> None:
    begun = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    collector = FakeCollector(seconds, on_measure=lambda key: os.write(begun, f"{key}\n".encode()))

    def acknowledge(measurement: Measurement) -> None:
        print(measurement.key, flush=True)

    print("start", flush=True)
    Campaign(LONG, collector, folder).run(on_measurement=acknowledge)
    print("end", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
