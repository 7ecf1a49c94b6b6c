"""Count the recorded kernels whose launches, estimated from decisions, are not those that lowering told."""

import argparse
import json
from pathlib import Path

import numpy as np

from costmodel.dataset import load_dataset
from costmodel.files import write_json
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.records import Candidate
from costmodel.records._candidate import KernelLaunch, config_batches

DATASETS = ("h100-sm-budgets", "sm-budgets", "wide-sm-budgets")  # of operators that are known
FIELDS = KernelLaunch.__struct_fields__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="where to write the counts")
    options = parser.parse_args()
    kernels = recorded_kernels()
    differing = dict.fromkeys(FIELDS, 0)
    different = 0
    for places, batch in config_batches(kernels):
        estimated = estimate_launches(batch)
        wrong = np.zeros(batch.size, dtype=bool)
        for field in FIELDS:
            recorded = [[getattr(launch, field) for launch in kernels[i].launches] for i in places]
            differs = (estimated[field] != np.array(recorded)).any(axis=1)
            differing[field] += int(differs.sum())
            wrong |= differs
        different += int(wrong.sum())
    counts = {"kernels": len(kernels), "different": different, "by field": differing}
    print(json.dumps(counts))
    write_json(options.json, counts)


def recorded_kernels() -> list[Candidate]:
    """The different kernels of MetaSchedule whose launches were recorded."""
    found = (candidate for name in DATASETS for candidate in load_dataset(name).candidates)
    return list({each.candidate_id: each for each in found if each.launches}.values())


if __name__ == "__main__":
    main()
