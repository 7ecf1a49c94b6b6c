"""Results of one task: for a prediction, as it is measured and the model adapts, and for two rules.

Every learner stands beside the rules: choosing at random, and the whole device's choice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset.splits._folds import select_whole_device
from costmodel.errors import CostModelError
from costmodel.evaluation._sides import NOVELTY
from costmodel.learners._base import Prediction
from costmodel.learners._metrics import (
    check_columns,
    covered,
    expected_log_excess,
    expected_n_eps,
    expected_score_at_k,
    listed_first,
    log_excess,
    median_width,
    ranked_n_eps,
    regret_error,
    relative_error,
    score_at_k,
)
from costmodel.transfer._base import Predictor

RANDOM = "random"
WHOLE_DEVICE = "whole device"
KS = (1, 5, 10, 25)
EPS = 0.05


def whole_device_latency(rows: pd.DataFrame) -> FloatArray:
    """``(n,)`` latency of each row's candidate at its device's largest SM budget; inf if not measured."""
    keys = ["device", "candidate"]
    latency_of = rows[select_whole_device(rows)].groupby(keys)["latency_s"].min()
    latencies = latency_of.reindex(pd.MultiIndex.from_frame(rows[keys]))
    return latencies.fillna(np.inf).to_numpy(dtype=np.float64)


def judge_random(latency_s: FloatArray) -> dict[str, Any]:
    """Exact expectations of one task's results for configs drawn at random.

    The regret is that of the expected log excess, over configs that run; scores count failures as 0.
    """
    excess = expected_log_excess(latency_s)
    return {
        **{f"score_at_{k}": expected_score_at_k(latency_s, k) for k in KS},
        "regret_error": float(np.expm1(excess)),
        "n_eps": expected_n_eps(latency_s, EPS),
        "log_excess": excess,
        **judge_latency(Prediction(np.zeros(latency_s.size)), latency_s),
    }


def judge(
    prediction: Prediction, latency_s: ArrayLike, first: NDArray[np.intp] | None = None
) -> dict[str, Any]:
    """One task's results for configs chosen by a prediction, after those that the model lists first.

    Configs with the same score count as in random order, see ``tie_groups``. A choice that fails
    scores 0 and has infinite regret, but it is found out before it is ever used: the log excess is that of
    the first choice that runs, as it is for a choice at random.

    Raises:
        InvalidArgumentError: See ``tie_groups``, or no latency is finite.
    """
    _, seconds = check_columns(score=prediction.score, latency_s=latency_s)
    by = prediction.score if first is None else listed_first(prediction.score, first)
    return {
        **{f"score_at_{k}": score_at_k(by, seconds, k) for k in KS},
        "regret_error": regret_error(by, seconds),
        "n_eps": ranked_n_eps(by, seconds, EPS),
        "log_excess": log_excess(by, seconds),
        **judge_latency(prediction, seconds),
    }


def judge_latency(prediction: Prediction, latency_s: FloatArray) -> dict[str, Any]:
    """Judge a prediction's seconds and its intervals; NaN for what it does not tell."""
    ran, predicted_s = np.isfinite(latency_s), prediction.latency_s
    result = {"latency_error": np.nan, "log_bias": np.nan}
    if predicted_s is not None:
        result["latency_error"] = relative_error(predicted_s, latency_s)
        # What all of them are off by.
        result["log_bias"] = float(np.log(predicted_s[ran] / latency_s[ran]).mean())
    return result | judge_interval(prediction, latency_s)


def judge_interval(prediction: Prediction, latency_s: FloatArray) -> dict[str, float]:
    """Count configs that ``ran`` and those of them that are ``covered``, with the median ``interval_width``.

    The width is high / low; what a prediction does not tell, or nothing ran for, is NaN.
    """
    low_s, high_s = prediction.low_s, prediction.high_s
    ran = int(np.isfinite(latency_s).sum())
    if low_s is None or high_s is None or not ran:
        return {"ran": ran, "covered": np.nan, "interval_width": np.nan}
    within = covered(low_s, high_s, latency_s)
    return {"ran": ran, "covered": float(within.sum()), "interval_width": median_width(low_s, high_s)}


def prediction_at(prediction: Prediction, at: NDArray[np.intp]) -> Prediction:
    """Return what a prediction says of the candidates at these positions."""
    fields = (prediction.latency_s, prediction.low_s, prediction.high_s)
    return Prediction(prediction.score[at], *(None if values is None else values[at] for values in fields))


_FACTS = ("workload", "kind", "device", "sms_granted", "whole_device", *NOVELTY)


@dataclass(frozen=True)
class TestedTask:
    """A task that a fold tests.

    Attributes:
        facts: What it is, by column of ``EvaluationReport.tasks``.
        at: ``(n,)`` positions of its rows among those that the fold tests.
        latency_s: ``(n,)`` their latencies; inf for a failure.
    """

    facts: dict[str, Any]
    at: NDArray[np.intp]
    latency_s: FloatArray


def tested_tasks(rows: pd.DataFrame) -> Iterator[TestedTask]:
    """Each task of these rows that tells of choosing: it has two configs or more, of which one ran."""
    latencies = rows["latency_s"].to_numpy(dtype=np.float64)
    columns = {name: rows[name].to_numpy() for name in _FACTS if name in rows}
    for task, indices in rows.groupby("task", sort=False).indices.items():
        at = np.asarray(indices, dtype=np.intp)
        if len(at) > 1 and np.isfinite(latencies[at]).any():
            facts = {name: values[at[0]] for name, values in columns.items()}
            yield TestedTask({"task": task, "configs": len(at), **facts}, at, latencies[at])


def judge_tasks(name: str, prediction: Prediction, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Results of a learner's predictions for these rows, task by task, as in ``EvaluationReport.tasks``."""
    for task in tested_tasks(rows):
        found = judge(prediction_at(prediction, task.at), task.latency_s)
        yield {"learner": name, **task.facts, **found}


Adapt = Callable[[FloatArray, FloatArray], Predictor]

# Measurements until within 5 % and within 1 % of the best.
N_EPS = {"n_eps": 0.05, "n_eps_1": 0.01}


@dataclass(frozen=True)
class FewShot:
    """Plan by which each tested task is measured.

    Attributes:
        shots: Numbers of measurements to judge after, ascending; the model is adapted after each.
        first: What is measured: ``own``, the next of the model's list as it then is, or ``random``, the same
            draws for every model.
        seed: Seed of the draws.

    Raises:
        CostModelError: The numbers do not ascend or one is below 0.
    """

    shots: tuple[int, ...] = (0, 1, 2, 4, 8, 16, 32, 64)
    first: Literal["own", "random"] = "own"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.shots or min(self.shots) < 0 or sorted(set(self.shots)) != list(self.shots):
            raise CostModelError(
                "Shots must be numbers of measurements of at least 0, ascending, as in 0,1,2,4,8, but got "
                f"{','.join(map(str, self.shots))}."
            )
        if self.first not in ("own", "random"):
            raise CostModelError(f"What is measured first must be own or random, but got {self.first!r}.")


@dataclass(frozen=True)
class Fixed:
    """A prediction for one task that no measurement changes; as a start, and as what it is adapted to."""

    prediction: Prediction

    def predict(self, X: FloatArray) -> Prediction:
        """The prediction."""
        return self.prediction

    def adapt(self, X: FloatArray, y: FloatArray) -> "Fixed":
        """The same."""
        return self


def measure_in_turn(  # noqa: PLR0913 (one task, and how it is measured)
    start: Predictor, adapt: Adapt, X: FloatArray, latency_s: FloatArray, *, plan: FewShot, draws: FloatArray
) -> Iterator[dict[str, Any]]:
    """Results of one task after each number of shots.

    Every config counts, those that were measured too: they come first, and the choice among them is known.

    Args:
        start: What scores configs before any is measured.
        adapt: Gives what scores them once some are.
        X: ``(n, d)`` all configs of the task.
        latency_s: ``(n,)`` their latencies.
        plan: How it is measured.
        draws: ``(n,)`` numbers in [0, 1) by which configs are drawn at random, and among equal scores.

    Yields:
        ``shots``, ``score_after`` (best / best measured; NaN without), ``score_at_k`` (of these and k more of
        the list), ``log_excess`` (of the best measured that runs, else of the first of the list that does)
        and what ``judge_latency`` and, of the configs that are not measured, ``judge_interval`` give. The
        last has ``n_eps`` and ``n_eps_1`` too, of the whole order.
    """
    measured: Positions = np.zeros(0, dtype=np.intp)
    prediction = start.predict(X)
    for shots in plan.shots:
        if shots > measured.size:
            by = prediction.score if plan.first == "own" else -draws
            unmeasured = _rest(by, draws, measured)
            measured = np.concatenate([measured, unmeasured[: shots - measured.size]])
            prediction = adapt(X[measured], latency_s[measured]).predict(X)
        rest = _rest(prediction.score, draws, measured)
        ranked = listed_first(prediction.score, measured)
        result = {"shots": shots, **_judge_ranked(ranked, latency_s, measured)}
        result |= judge_latency(prediction, latency_s)
        result |= judge_interval(prediction_at(prediction, rest), latency_s[rest])
        if shots == plan.shots[-1]:
            result |= {name: ranked_n_eps(ranked, latency_s, eps) for name, eps in N_EPS.items()}
        yield result


def measure_at_random(latency_s: FloatArray, plan: FewShot) -> Iterator[dict[str, Any]]:
    """Exact expectations of ``measure_in_turn`` for configs drawn at random, with nothing learned of them."""
    blind = judge_latency(Prediction(np.zeros(latency_s.size)), latency_s)
    for shots in plan.shots:
        result = {
            "shots": shots,
            "score_after": expected_score_at_k(latency_s, shots) if shots else np.nan,
            **{f"score_at_{k}": expected_score_at_k(latency_s, shots + k) for k in KS},
            "log_excess": expected_log_excess(latency_s, max(1, shots)),
            **blind,
        }
        if shots == plan.shots[-1]:
            result |= {name: expected_n_eps(latency_s, eps) for name, eps in N_EPS.items()}
        yield result


def _rest(score: FloatArray, draws: FloatArray, measured: Positions) -> Positions:
    """Positions that are not measured, best first, and among equal scores the lowest draw."""
    order = np.lexsort((draws, -score))
    return order[~np.isin(order, measured)]


def _judge_ranked(ranked: FloatArray, latency_s: FloatArray, measured: Positions) -> dict[str, float]:
    """Scores of configs that are chosen by these scores, of which the first few are measured.

    What failed is found out by measuring it, and the next of the list is tried.
    """
    tried = latency_s[measured]
    running = tried[np.isfinite(tried)]
    best_s = float(latency_s.min())
    return {
        "score_after": best_s / float(tried.min()) if tried.size else np.nan,
        **{f"score_at_{k}": score_at_k(ranked, latency_s, tried.size + k) for k in KS},
        "log_excess": (
            float(np.log(running.min() / best_s)) if running.size else log_excess(ranked, latency_s)
        ),
    }
