"""What an ask costs after many trials: time and memory of our sampler beside Optuna's TPE. See README.md."""

import argparse
import json
import multiprocessing
import resource
import sys
import time
from pathlib import Path

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import TPESampler

from costmodel.files import write_json
from costmodel.records import Config
from costmodel.search import DeclaredSpace, ModelSampler

# One of each kind of parameter, ten in all, and far too many combinations to list.
SPACE = DeclaredSpace(
    "ten",
    {f"int{i}": IntDistribution(1, 64) for i in range(4)}
    | {f"log{i}": FloatDistribution(1e-4, 1.0, log=True) for i in range(3)}
    | {f"size{i}": CategoricalDistribution([8, 16, 32, 64]) for i in range(2)}
    | {"kind": CategoricalDistribution(["a", "b", "c"])},
)
SAMPLERS = {"TPE": lambda: TPESampler(seed=0), "ModelSampler": lambda: ModelSampler(SPACE, seed=0)}
ASKS = 5
MIB = 2**20


def main() -> None:
    """Measure each number of trials with each sampler in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", nargs="+", type=int, default=[100, 500, 1000, 5000])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [cost(trials) for trials in arguments.trials]
    for row in rows:
        print(json.dumps(row))
    if arguments.json:
        write_json(arguments.json, rows)


def cost(trials: int) -> dict[str, float]:
    """Median seconds and added memory of an ask after so many trials, beside TPE's."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        ours, theirs = (pool.map(measure, [(name, trials)])[0] for name in ("ModelSampler", "TPE"))
    return {
        "trials": trials,
        "ask_s": round(ours[0], 3),
        "memory_mib": round(ours[1]),
        "tpe_ask_s": round(theirs[0], 3),
        "tpe_memory_mib": round(theirs[1]),
        "ratio": round(ours[0] / theirs[0], 1),
    }


def measure(case: tuple[str, int]) -> tuple[float, float]:
    """Median processor seconds of an ask, and what it adds to the peak memory, in MiB."""
    name, trials = case
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng = np.random.default_rng(0)
    study = optuna.create_study(sampler=SAMPLERS[name]())
    for config in SPACE.draw(trials, rng).configs:
        study.add_trial(
            optuna.create_trial(
                params=SPACE.params(config), distributions=SPACE.distributions, value=_value(config)
            )
        )
    before = _peak_mib()
    seconds = []
    for _ in range(ASKS):
        start = time.process_time()
        trial = study.ask(SPACE.distributions)
        seconds.append(time.process_time() - start)
        study.tell(trial, 1.0 + rng.random())
    return float(np.median(seconds)), _peak_mib() - before


def _value(config: Config) -> float:
    row = SPACE.features([config])[0, 0]
    return float(np.exp(np.square(row - 0.3).sum()))


def _peak_mib() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB


if __name__ == "__main__":
    main()
