"""Describe how hard the pool is to choose from, without looking at the part that is kept for one report."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import costmodel
from costmodel.collector import find_campaign
from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

CAMPAIGN = "sampled-sm-budgets"
# Of the campaign's list. The rest is kept for the report.
PARTS = {"learn": slice(0, 64), "choose": slice(64, 112)}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the mean score of a random kernel and of the whole-device choice, by part and SM budget."""
    args = parse(argv)
    names = find_campaign(CAMPAIGN).workloads
    rows = costmodel.load_dataset(args.dataset).rows
    found = []
    for part, slice_ in PARTS.items():
        of_part = rows[rows["workload"].isin(names[slice_])]
        scores = [
            score
            for _, task in of_part.groupby(["workload", "device"])
            for score in score_choices(task, args.whole)
        ]
        for sms in sorted({row["sms"] for row in scores}):
            here = [row for row in scores if row["sms"] == sms]
            found.append(
                {
                    "part": part,
                    "sms": sms,
                    "tasks": len(here),
                    "random": float(np.mean([row["random"] for row in here])),
                    "whole_device_choice": float(np.mean([row["whole"] for row in here])),
                }
            )
    if args.json:
        write_json(args.json, {"rows": found})
    for row in found:
        print(row)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options; ``config.toml`` has their defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="name or folder of the pool")
    parser.add_argument("--whole", type=int, help="SMs of the whole device")
    parser.add_argument("--json", type=Path, help="file to write")
    return parse_options(parser, __file__, argv)


def score_choices(task: pd.DataFrame, whole: int) -> list[dict[str, float]]:
    """Score a random kernel and the whole-device choice of a workload on a device, at each SM budget.

    Kernels that failed count with a score of 0; a task of one kernel tells nothing and is left out.
    """
    latency_s = task.pivot_table(index="candidate", columns="sms_granted", values="latency_s", dropna=False)
    if whole not in latency_s or len(latency_s) < 2:
        return []
    score = (latency_s.min() / latency_s).fillna(0.0)
    chosen = latency_s[whole].idxmin()
    return [
        {"sms": int(sms), "random": score[sms].mean(), "whole": score.loc[chosen, sms]} for sms in latency_s
    ]


if __name__ == "__main__":
    main()
