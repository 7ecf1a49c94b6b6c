"""Time the kernels that ``choose.py`` chose, and say what came out of each family."""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from costmodel.records._measurement import Measurement
from costmodel.tuning import collect


def main() -> None:
    """Measure what is missing of the campaign in the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaign", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--devices", type=int, default=1)
    options = parser.parse_args()
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def count(measurement: Measurement) -> None:
        outcomes[measurement.candidate.workload.kind][measurement.outcome.value] += 1

    result = collect(
        options.campaign,
        options.folder,
        time_limit_s=options.seconds,
        devices=options.devices,
        on_measurement=count,
    )
    print(result.measured_on)
    print(result.sentence)
    for kind, found in sorted(outcomes.items()):
        print(kind, ", ".join(f"{count} {outcome}" for outcome, count in found.most_common()))


if __name__ == "__main__":
    main()
