"""What other people's whole GPUs tell of our kernels on parts of an H100 and an H200: see README.md here."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from costmodel.dataset import Dataset, load_dataset, read_files
from costmodel.metrics import score_at_k
from costmodel.metrics._expected import expected_score_at_k
from costmodel.records import Config

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

# Our family: the folder of the caches that have its parameters.
CACHES = {"cuda.conv2d": "hub/convolution_milo", "cuda.gemm": "single-team/gemm"}
# Parameters with one value, which a cache may leave out.
FIXED = {"GEMMK": 0, "KREG": 1, "PRECISION": 32}
MEAN, WHOLE, RANDOM = "mean over theirs", "ours, whole device", "random"

Times = Mapping[str, float]  # seconds by config


def main() -> None:
    args = parse()
    data = load_dataset(args.dataset)
    rows = [row for family, caches in CACHES.items() for row in judged(data, family, args.data / caches)]
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of Kernel Tuner's caches")
    parser.add_argument("--dataset", help="what was measured on parts of a GPU")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def judged(data: Dataset, family: str, caches: Path) -> list[dict[str, Any]]:
    """Every way to choose, on each part of each device."""
    theirs = {path.name.partition(".")[0]: recorded(read_files([path])) for path in sorted(caches.iterdir())}
    found = []
    for (workload, device), group in data.rows[data.rows["kind"] == family].groupby(["workload", "device"]):
        by_sms = {
            int(sms): {
                key(data.candidates[i].config): s
                for i, s in zip(part["candidate"], part["latency_s"], strict=True)
            }
            for sms, part in group.groupby("sms_granted")
        }
        whole = by_sms[max(by_sms)]
        for sms, times in by_sms.items():
            place = {"workload": workload, "device": device, "sms": sms}
            found += [{**place, **scores} for scores in chosen(times, theirs, whole)]
    return found


def recorded(data: Dataset) -> Times:
    """Seconds of the configs of a cache; inf where one failed."""
    return {
        key(data.candidates[i].config): float(s)
        for i, s in zip(data.rows["candidate"], data.rows["latency_s"], strict=True)
    }


def key(config: Config) -> str:
    """The parameters that vary."""
    return json.dumps({name: v for name, v in config.decisions.items() if name not in FIXED}, sort_keys=True)


def chosen(times: Times, theirs: Mapping[str, Times], whole: Times) -> list[dict[str, Any]]:
    """Scores of each ranking of the configs that all of them know."""
    known = [each for each in times if all(each in source for source in theirs.values())]
    ours = np.array([times[each] for each in known])
    logs = {name: np.log([source[each] for each in known]) for name, source in theirs.items()}
    relative = [each - each[np.isfinite(each)].min() for each in logs.values()]
    rankings = {**logs, MEAN: np.mean(relative, axis=0), WHOLE: np.log([whole[each] for each in known])}
    scored = [{"way": way, "configs": len(known), **scores(-log, ours)} for way, log in rankings.items()]
    at = {k: expected_score_at_k(ours, k) for k in (1, 10)}
    return [*scored, {"way": RANDOM, "configs": len(known), "at_1": at[1], "at_10": at[10], "rho": 0.0}]


def scores(predicted: np.ndarray, latency_s: np.ndarray) -> dict[str, float]:
    """Score@1, Score@10, and the rank correlation."""
    finite = np.nan_to_num(predicted, neginf=-1e9)
    return {
        "at_1": score_at_k(finite, latency_s, 1),
        "at_10": score_at_k(finite, latency_s, 10),
        "rho": float(spearmanr(finite, -latency_s).statistic),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Means over devices and parts of them, a row a family, size and way to choose."""
    lines = [
        "| workload | chosen by | Score@1 | at 8 SMs | Score@10 | rank correlation |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for workload, way in dict.fromkeys((row["workload"], row["way"]) for row in rows):
        own = [row for row in rows if (row["workload"], row["way"]) == (workload, way)]
        mean = {name: np.mean([row[name] for row in own]) for name in ("at_1", "at_10", "rho")}
        few = np.mean([row["at_1"] for row in own if row["sms"] == 8])
        numbers = f"{mean['at_1']:.3f} | {few:.3f} | {mean['at_10']:.3f} | {mean['rho']:.2f}"
        lines.append(f"| {workload} | {way} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
