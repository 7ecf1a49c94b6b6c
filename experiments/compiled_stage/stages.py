"""Replay searches of `tune` in stages, and without, at equal numbers of measurements. See README.md here."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import costmodel
from costmodel.arrays import FloatArray
from costmodel.collector import ReplayRunner
from costmodel.files import write_json
from costmodel.records import Measurement
from costmodel.tuning import Prior, SearchSettings

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "sampled_pool"))
from judge import SMALL
from kit.results import markdown_table, rounded
from shortlist import DECIDED, LEARNED, compiled, fitted

TRIALS = (1, 2, 4, 8)
PER_TRIAL = {"decisions alone": 1, "4 compiled for each measured": 4}


def main(argv: Sequence[str] | None = None) -> None:
    """Search for each workload on each number of SMs, and print how good the best of what was measured is."""
    args = parse(argv)
    rows = pd.DataFrame(searches(args.part, args.seeds, args.models, args.every))
    found = {"part": args.part, "seeds": args.seeds, "rows": summary(rows)}
    print(as_markdown(found["rows"]))
    if args.json:
        write_json(args.json, rounded(found, 4))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=list(LEARNED), help="part of the pool, or pool, to search")
    parser.add_argument("--seeds", type=int, default=1, help="fits of each model")
    parser.add_argument(
        "--every", type=int, default=1, help="search one of so many tasks, others for each seed"
    )
    parser.add_argument("--models", type=Path, help="folder of fitted models")
    parser.add_argument("--json", type=Path, help="file to write")
    return parser.parse_args(argv)


def searches(part: str, seeds: int, kept: Path | None, every: int) -> Iterator[dict[str, Any]]:
    """How far the best that a search measured is from the best of its task, after some trials."""
    pool, code = compiled(part)
    tasks = [
        (name, ReplayRunner(records, code), sms)
        for name in sorted(pool.rows["workload"].unique())
        for records in _by_device(pool.to_measurements(name))
        for sms in sorted({m.platform.sms_granted for m in records})
    ]
    for seed in range(seeds):
        start = time.perf_counter()
        decided, looked = DECIDED.fitted(seed, kept), fitted(part, seed, kept)
        for name, runner, sms in tasks[seed % every :: every]:
            known = runner.known_latencies(name)
            assert known is not None
            if len(known.get(sms, {})) < 2:
                continue
            prior = Prior(model=decided, compiled=looked)
            facts = {"workload": name, "sms": sms, "seed": seed, **_whole_device(known, sms)}
            for recipe, per_trial in PER_TRIAL.items():
                settings = SearchSettings(seed=seed, compiled_per_trial=per_trial)
                for trials, taken_s in _measured(name, sms, runner, prior, settings):
                    ran = taken_s[np.isfinite(taken_s)]
                    reached_s = ran.min() if ran.size else max(known[sms].values())
                    excess = float(np.log(reached_s / min(known[sms].values())))
                    yield {**facts, "recipe": recipe, "trials": trials, "excess": excess}
        print(f"seed {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr)


def _by_device(measurements: Sequence[Measurement]) -> Iterator[list[Measurement]]:
    """Measurements of each GPU."""
    for name in sorted({m.platform.device.name for m in measurements}):
        yield [m for m in measurements if m.platform.device.name == name]


def _whole_device(known: Mapping[int, Mapping[str, float]], sms: int) -> dict[str, float]:
    """How far the whole device's choice is from the best on so many SMs; NaN on the whole device."""
    whole, here = known[max(known)], known[sms]
    runs_here = {id_: latency_s for id_, latency_s in whole.items() if id_ in here}
    if sms == max(known) or not runs_here:
        return {"whole_excess": np.nan}
    choice = min(runs_here, key=runs_here.__getitem__)
    return {"whole_excess": float(np.log(here[choice] / min(here.values())))}


def _measured(
    name: str, sms: int, runner: ReplayRunner, prior: Prior, settings: SearchSettings
) -> Iterator[tuple[int, FloatArray]]:
    """Latencies that a search of so many trials measured; one without stages goes on from the one before."""
    taken_s = np.empty(0)
    for trials in sorted(TRIALS, reverse=True):
        if settings.compiled_per_trial > 1 or not taken_s.size:
            result = costmodel.tune(name, sms=sms, trials=trials, on=runner, prior=prior, search=settings)
            taken_s = np.array([trial.latency_s[0] for trial in result.trials])
        yield trials, taken_s[:trials]


def summary(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean score of the best measured, and the share of the budget gap recovered, by recipe and trials."""
    found = []
    for (recipe, trials), part in rows.groupby(["recipe", "trials"], sort=True):
        small = part[part["sms"] <= SMALL]
        found.append(
            {
                "recipe": recipe,
                "measured": int(trials),
                "score": float(np.exp(-part["excess"]).mean()),
                "p10": float(np.exp(-part["excess"]).quantile(0.1)),
                "gap": _gap(part),
                "gap_small": _gap(small),
                "searches": len(part),
            }
        )
    return found


def _gap(part: pd.DataFrame) -> float:
    """Share of what the whole device's choice loses that a search wins back, pooled over tasks."""
    known = part[part["whole_excess"].notna()]
    return float(1.0 - known["excess"].sum() / known["whole_excess"].sum())


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of the README."""
    header = ["search", "measured", "best of them", "10th percentile", "gap", "gap on 8 to 32 SMs"]
    cells = [
        [
            each["recipe"],
            str(each["measured"]),
            *(f"{each[name]:.3f}" for name in ("score", "p10")),
            *(f"{each[name]:.2f}" for name in ("gap", "gap_small")),
        ]
        for each in rows
    ]
    return markdown_table(header, cells)


if __name__ == "__main__":
    main()
