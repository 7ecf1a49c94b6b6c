"""Tune the parameters of any function that can be timed. Here: the tile of a transpose, on this CPU."""

import time

import numpy as np
import optuna
from optuna.distributions import IntDistribution

import costmodel

space = costmodel.DeclaredSpace(
    "transpose",
    {"rows": IntDistribution(16, 512, step=16), "columns": IntDistribution(16, 512, step=16)},
    constraints=[lambda config: config["rows"] * config["columns"] <= 65536],
)
x, y = np.ones((1024, 1024)), np.empty((1024, 1024))


def latency_s(trial: optuna.Trial) -> float:
    """Time one transpose, in seconds, with the tile that the sampler proposes."""
    config = space.suggest(trial).decisions
    rows, columns = config["rows"], config["columns"]
    start = time.perf_counter()
    for i in range(0, 1024, rows):
        for j in range(0, 1024, columns):
            y[j : j + columns, i : i + rows] = x[i : i + rows, j : j + columns].T
    return time.perf_counter() - start


study = optuna.create_study(sampler=costmodel.ModelSampler(space, seed=0))
study.optimize(latency_s, n_trials=16)
print(f"{study.best_value * 1e3:.2f} ms with {study.best_trial.params}")
