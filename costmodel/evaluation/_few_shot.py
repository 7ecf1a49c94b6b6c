"""Few-shot evaluation: quality of choices as a task is measured and the model adapts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError
from costmodel.evaluation._judge import KS, judge_interval, judge_latency, prediction_at
from costmodel.learners._base import Prediction
from costmodel.learners._metrics import (
    expected_log_excess,
    expected_n_eps,
    expected_score_at_k,
    listed_first,
    log_excess,
    ranked_n_eps,
    score_at_k,
)
from costmodel.transfer._base import Predictor

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
