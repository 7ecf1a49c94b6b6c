"""What a search finds that chooses knowing all but 14, or all but 28, of its results: see README.md here."""

import argparse
from pathlib import Path
from unittest.mock import patch

import numpy as np

import costmodel
from costmodel.collector import ReplayRunner
from costmodel.files import write_json
from costmodel.tuning import Replay, SearchSettings

DATASET, SMS, TRIALS, SEED = "sm-budgets", 32, 64, 0
IN_FLIGHT = 14  # as with 13 builders
ARMS = {"14 in flight": (7, 2), "28 in flight": (7, 4)}  # kernels in a batch, and batches
AFTER = (8, 14, 16, 24, 32, 48, 64)


class LikeADevice(ReplayRunner):
    """A replay that works on as many candidates at once as a device with builders."""

    in_flight = IN_FLIGHT


def main() -> None:
    """Replay tunes of the workloads with the most kernels, each with both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=180, help="least number recorded of a workload")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    args = parser.parse_args()
    rows = []
    for workload, device, count in pools(args.kernels):
        found = {name: best_so_far(workload, device, batches) for name, batches in ARMS.items()}
        rows.append({"workload": workload, "kernels": count, **found})
        print(workload, flush=True)
        if args.json:
            write_json(args.json, rows)
    print("| best so far / best of both | " + " | ".join(map(str, AFTER)) + " |")
    for name in ARMS:
        ratios = [[row[name][k - 1] / min(row[arm][-1] for arm in ARMS) for k in AFTER] for row in rows]
        cells = " | ".join(f"{ratio:.4f}" for ratio in np.exp(np.mean(np.log(ratios), axis=0)))
        print(f"| {name} | {cells} |")


def pools(least: int) -> list[tuple[str, str, int]]:
    """Workloads and devices with at least so many recorded kernels, each workload once, the most first."""
    rows = costmodel.load_dataset(DATASET).to_pandas()
    counts = rows[rows["sms_granted"] == SMS].groupby(["workload", "device"], observed=True).size()
    found: dict[str, tuple[str, int]] = {}
    for (workload, device), count in counts[counts >= least].sort_values().iloc[::-1].items():
        found.setdefault(workload, (device, int(count)))
    return [(workload, device, count) for workload, (device, count) in found.items()]


def best_so_far(workload: str, device: str, batches: tuple[int, int]) -> list[float]:
    """The latency of the best kernel after each trial, in seconds."""
    told: list[float] = []
    with (
        patch("costmodel.tuning._places.ReplayRunner", LikeADevice),
        patch("costmodel.search._search.batches_in_flight", lambda *_: batches),
    ):
        costmodel.tune(
            workload,
            sms=SMS,
            trials=TRIALS,
            on=Replay(DATASET, device),
            search=SearchSettings(seed=SEED),
            on_trial=lambda trial: told.append(trial.latency_s[0]),
        )
    return [float(latency_s) for latency_s in np.minimum.accumulate(told)]


if __name__ == "__main__":
    main()
