"""Logs of real measurements: campaigns in the order of their time stamps, and searches trial by trial."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from kit.held_out import predict_held_out

from costmodel.collector import ReplayRunner
from costmodel.dataset import SplitRecipe, load_dataset, make_split
from costmodel.search import ModelSampler, tune
from costmodel.search._study import quiet_optuna
from costmodel.transfer import LearningRows, make_model
from costmodel.tuning._knowledge import known_from


@dataclass(frozen=True)
class Log:
    """What was measured, in order.

    Attributes:
        title: Of the campaign or search.
        kernels: A row each: ``task``, ``log_ratio`` of measured over predicted, ``measurements``.
        again: Log of second measurements over first ones, in no order.
    """

    title: str
    kernels: pd.DataFrame
    again: np.ndarray


def campaigns(name: str, learner: str, folds: int) -> Iterator[Log]:
    """The log of each board that measured a dataset, of workloads that the model never saw."""
    data = load_dataset(name)
    made = data.measurements.assign(workload=np.asarray(data.measured_workloads).astype(str))
    made["predicted_s"] = _predicted(data, learner, folds)
    made["device"] = [data.platforms[i].device.name for i in made["platform"]]
    alone = made["co_runners"].map(len) == 0
    made = made[alone & np.isfinite(made["latency_s"]) & made["predicted_s"].notna()]
    for (device, board), log in made.groupby(["device", "board"]):
        if board or (made["board"] == "").all():  # a few rows of a campaign that nobody named the board of
            ordered = log.sort_values("measured_at", kind="stable")
            yield Log(f"{name}, {device} {board}".strip(), _by_kernel(ordered), _again(log))


def searches(name: str, sms: int, trials: int, count: int, seed: int) -> Iterator[Log]:
    """The logs of searches for workloads that the model never saw; second measurements are the campaign's."""
    data = load_dataset(name)
    runner = ReplayRunner(data.to_measurements())
    platform, again = runner.platform(sms), _again(data.measurements)
    some = np.random.default_rng(seed).choice(len(data.columns.workloads), count, replace=False)
    for workload in (data.columns.workloads[i] for i in sorted(some)):
        space = runner.space(workload, [platform])
        known = known_from(data, workload, platform.device.name, space.family, keep_twins_apart=False)
        sampler = ModelSampler(space.in_columns(known.columns), known.model, seed=seed)
        with quiet_optuna():
            told = tune(runner, sampler, trials).trials
        ran = [trial for trial in told if trial.predicted_latency_s and np.isfinite(trial.value)]
        log_ratio = [np.log(trial.value / trial.predicted_latency_s[0]) for trial in ran]
        kernels = pd.DataFrame({"task": workload.name, "log_ratio": log_ratio, "measurements": 1})
        yield Log(workload.name, kernels, again)


def _predicted(data, learner: str, folds: int) -> np.ndarray:
    """Seconds of each measurement as predicted without its workload; NaN where the split leaves it out."""
    rows, split = LearningRows.of(data), SplitRecipe("leave-one-workload-out", folds=folds)
    said = predict_held_out(rows, make_split(data, split).folds, partial(make_model, learner))
    keys = ["candidate", "platform"]
    known = rows.rows[keys].assign(predicted_s=said.latency_s)
    return data.measurements[keys].merge(known, on=keys, how="left")["predicted_s"].to_numpy()


def _by_kernel(log: pd.DataFrame) -> pd.DataFrame:
    """One row a kernel, in the order of their first measurements."""
    first = log[log["visit"] == 0].copy()
    first["log_ratio"] = np.log(first["latency_s"] / first["predicted_s"])
    kernels = first.groupby("candidate", sort=False).agg(
        task=("workload", "first"), log_ratio=("log_ratio", "mean"), measurements=("log_ratio", "size")
    )
    return kernels.reset_index(drop=True)


def _again(log: pd.DataFrame) -> np.ndarray:
    """Log of each second measurement over the first of the same kernel on the same board and platform."""
    ran = log[np.isfinite(log["latency_s"]) & (log["visit"] < 2)]
    keys = ["candidate", "board", "platform"]
    visits = ran.pivot_table(index=keys, columns="visit", values="latency_s")
    return np.log(visits[1] / visits[0]).dropna().to_numpy()
