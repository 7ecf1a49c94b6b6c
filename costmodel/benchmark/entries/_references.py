"""References: what chance, the author, the whole GPU, or a task's measurements alone would choose."""

from typing import Any

import msgspec
import numpy as np
import pandas as pd

from costmodel.arrays import Positions
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._learner import LearnerEntry
from costmodel.columns import Column
from costmodel.learners._base import Prediction
from costmodel.transfer._base import TransferModel
from costmodel.transfer.models._residual import FromScratch


class Chance(BenchEntry):
    """Chooses at random: equal scores count as the exact expectation over all orders."""

    name, made_by = "random", "reference"
    about = "Any kernel; the exact expectation."

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """The same score for all."""
        return Prediction(np.zeros(len(question.asked)))


class FirstConfig(BenchEntry):
    """Takes the first config of a declared space: the lowest value of each parameter in turn."""

    name, made_by = "first-config", "reference"
    about = (
        "The first config of the declared space: the lowest value of the first parameter, then of the next."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where authors declared parameters."""
        return question.name == "kernels"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Minus the place in the order of the values."""
        rows = question.rows.iloc[question.asked]
        values = rows["config"].map(_in_order)
        return Prediction(-values.groupby(rows["task"]).rank(method="min").to_numpy(dtype=np.float64))


class WholeGpuOrder(BenchEntry):
    """Takes on a part of a GPU the kernel that is fastest on the whole of it; latency grows as SMs fall."""

    name, made_by = "whole-gpu-order", "reference"
    about = "What every tuner without budgets does: the order of the whole GPU, its latency times SMs lost."

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where the whole GPU is known."""
        return question.name == "budgets"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Latency on the whole GPU x its SMs / those granted; what failed there comes last."""
        whole, sms = whole_gpu(question), question.rows["sms_granted"].to_numpy(dtype=np.float64)
        whole_s = question.latency_s[whole]
        latency_s = np.where(np.isfinite(whole_s), whole_s, 1.0) * sms[whole] / sms[question.asked]
        return Prediction(-latency_s, latency_s)


class TaskAlone(LearnerEntry):
    """Learns from the measurements of the task alone."""

    def make(self, columns: tuple[Column, ...], seed: int) -> TransferModel:
        """A Gaussian process that forgets all but the scale of the columns."""
        return FromScratch()


def _in_order(config: str) -> tuple[tuple[bool, Any], ...]:
    """Values of a config, numbers before texts."""
    return tuple((isinstance(value, str), value) for value in msgspec.json.decode(config).values())


def whole_gpu(question: BenchQuestion) -> Positions:
    """Return the row of each asked kernel where most SMs were granted, ``(a,)``; its own if none is known."""
    rows, keys = question.rows, ["device", "workload", "config"]
    known = rows.iloc[question.known]
    whole = known[known["sms_granted"] == known["sms_granted"].max()].drop_duplicates(keys)
    places = pd.Series(whole.index, pd.MultiIndex.from_frame(whole[keys]), name="place")
    found = rows.iloc[question.asked][keys].join(places, on=keys)["place"]
    return found.fillna(pd.Series(question.asked, found.index)).to_numpy(np.intp)


ENTRIES = (
    Chance(),
    FirstConfig(),
    WholeGpuOrder(),
    TaskAlone(
        "from-nothing",
        "",
        without=("ir", "compiled"),
        made_by="reference",
        about="A Gaussian process on the task's measurements alone; transfer must not be worse.",
    ),
)
