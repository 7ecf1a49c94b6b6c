"""Describe how hard the pool is to choose from, without looking at the part that is kept for one report."""

import argparse
import json
from pathlib import Path

import numpy as np

import costmodel
from costmodel.collector import find_campaign

CAMPAIGN = "sampled-sm-budgets"
# Of the campaign's list. The rest is kept for the report.
PARTS = {"learn": slice(0, 64), "choose": slice(64, 112)}
WHOLE = 132


def main() -> None:
    """Write the mean score of a random kernel and of the whole-device choice, by part and SM budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default=CAMPAIGN)
    parser.add_argument("--json", type=Path, default=Path(__file__).with_name("result.json"))
    args = parser.parse_args()
    names = find_campaign(CAMPAIGN).workloads
    rows = costmodel.load_dataset(args.dataset).rows
    found = []
    for part, slice_ in PARTS.items():
        of_part = rows[rows["workload"].isin(names[slice_])]
        scores = [
            score for _, task in of_part.groupby(["workload", "device"]) for score in score_choices(task)
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
    args.json.write_text(json.dumps({"rows": found}, indent=1) + "\n")
    for row in found:
        print(row)


def score_choices(task) -> list[dict[str, float]]:
    """Score a random kernel and the whole-device choice of a workload on a device, at each SM budget.

    Kernels that failed count with a score of 0; a task of one kernel tells nothing and is left out.
    """
    latency_s = task.pivot_table(index="candidate", columns="sms_granted", values="latency_s", dropna=False)
    if WHOLE not in latency_s or len(latency_s) < 2:
        return []
    score = (latency_s.min() / latency_s).fillna(0.0)
    chosen = latency_s[WHOLE].idxmin()
    return [
        {"sms": int(sms), "random": score[sms].mean(), "whole": score.loc[chosen, sms]} for sms in latency_s
    ]


if __name__ == "__main__":
    main()
