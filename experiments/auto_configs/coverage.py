"""Which of the author's recorded configs may be in a list made from the kernel alone? See README.md."""

import argparse
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from open_families import ARCHITECTURE, AUTHORS

from costmodel.dataset import load_dataset
from costmodel.files import write_json
from costmodel.kernels.triton.proposing._open_family import OpenFamily
from costmodel.kernels.triton.proposing._open_space import STAGES, WARPS, OpenSpace
from costmodel.records import Config, Measurement, Workload

DATASET = "kernels-at-large"
USUAL_STAGES = 3  # where they do nothing


def main(argv: Sequence[str] | None = None) -> None:
    """Print how many of the best recorded configs are in the open spaces, and what the others are worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    rows = [row for task in tasks() if (row := judge(task))]
    table = pd.DataFrame(rows)
    found = {
        "tasks": len(table),
        "best_is_held": float(table.held.mean()),
        "share_of_configs": float(table.share.mean()),
        **{f"score_{name}": float(value) for name, value in quantiles(table.score).items()},
    }
    print("\n".join(f"{name}: {value:.3f}" for name, value in found.items()))
    worst = table.groupby("kernel").score.mean().sort_values()[:12]
    print(worst.round(3).to_string())
    if args.json:
        write_json(args.json, found)


def quantiles(scores: "pd.Series[float]") -> Mapping[str, float]:
    return {"median": scores.median(), "mean": scores.mean(), "10th": scores.quantile(0.1)}


def tasks() -> list[list[Measurement]]:
    """Recorded measurements by kernel, size and platform."""
    found: dict[tuple[str, str], list[Measurement]] = {}
    for each in load_dataset(DATASET).to_measurements():
        if each.latencies_s:
            found.setdefault((each.candidate.workload.name, each.platform.name), []).append(each)
    return list(found.values())


def judge(task: Sequence[Measurement]) -> dict[str, Any] | None:
    """Best recorded over the best of those that the open space holds."""
    name = task[0].candidate.workload.kind.partition(".")[2]
    if name not in AUTHORS:
        return None
    space = opened(task[0].candidate.workload, task[0].platform.sms_granted)
    held = [holds(space, each.candidate.config) for each in task]
    latency_s = np.array([each.latency_s for each in task])
    inside = latency_s[held]
    best = latency_s.min()
    return {
        "kernel": name,
        "sms": task[0].platform.sms_granted,
        "held": bool(held[int(latency_s.argmin())]),
        "share": float(np.mean(held)),
        "score": float(best / inside.min()) if len(inside) else 0.0,
    }


@cache
def opened(workload: Workload, sms: int) -> OpenSpace:
    family = AUTHORS[workload.kind.partition(".")[2]]
    return OpenFamily(family, workload, ARCHITECTURE, sms).launch().space()


def holds(space: OpenSpace, config: Config) -> bool:
    """Tell whether a config is in a space.

    Registers are not limited there, stages that do nothing are 3, and programs that stay may be of any number
    between the least and the most.
    """
    told = {name: value for name, value in config.decisions.items() if name != "maxnreg"}
    if config.decisions.get("maxnreg", 0) or (STAGES not in space.choices and told.pop(STAGES, 0) < 0):
        return False
    told = {WARPS: 4, **told}
    told |= {
        name: min(choices, key=lambda each: abs(each - told[name]))
        for name, choices in space.choices.items()
        if name == "PROGRAMS" and choices[0] <= told.get(name, 0) <= choices[-1]
    }
    return all(
        told.get(name, USUAL_STAGES) in choices for name, choices in space.choices.items()
    ) and space.fits(told)


if __name__ == "__main__":
    main()
