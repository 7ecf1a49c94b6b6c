"""How good choices become as a task is measured: its first configs, and the model adapted to them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError
from costmodel.evaluation.judging._judge import KS, judge_interval, judge_latency, prediction_at
from costmodel.learners import Prediction
from costmodel.metrics import chosen_first, expected_log_excess, expected_n_eps, expected_score_at_k, n_eps
from costmodel.transfer import Predictor

Adapt = Callable[[FloatArray, FloatArray], Predictor]

# Measurements until within 5 % and within 1 % of the best.
N_EPS = {"n_eps": 0.05, "n_eps_1": 0.01}


@dataclass(frozen=True)
class FewShot:
    """How each tested task is measured.

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
    """What is said of one task and no measurement changes; as a start, and as what it is adapted to."""

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
        draws: ``(n,)`` numbers in [0, 1) by which configs are drawn at random.

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
            unmeasured = _rest(by, latency_s, measured)
            measured = np.concatenate([measured, unmeasured[: shots - measured.size]])
            prediction = adapt(X[measured], latency_s[measured]).predict(X)
        rest = _rest(prediction.score, latency_s, measured)
        order = np.concatenate([measured, rest])
        result = {"shots": shots, **_judge_order(latency_s[order], measured.size)}
        result |= judge_latency(prediction, latency_s)
        result |= judge_interval(prediction_at(prediction, rest), latency_s[rest])
        if shots == plan.shots[-1]:
            result |= {name: n_eps(latency_s[order], eps) for name, eps in N_EPS.items()}
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


def _rest(score: FloatArray, latency_s: FloatArray, measured: Positions) -> Positions:
    """Positions that are not measured, best first."""
    order = chosen_first(score, latency_s)
    return order[~np.isin(order, measured)]


def _judge_order(ordered_s: FloatArray, measured: int) -> dict[str, float]:
    """Scores of configs in the order in which they are chosen, of which the first few are measured."""
    best_s = float(ordered_s.min())
    tried = ordered_s[: max(1, measured)]
    running = tried[np.isfinite(tried)]
    # What failed is found out by measuring it, and the next of the list is tried.
    chosen_s = float(running.min()) if running.size else float(ordered_s[np.isfinite(ordered_s)][0])
    return {
        "score_after": best_s / float(tried.min()) if measured else np.nan,
        **{f"score_at_{k}": best_s / float(ordered_s[: measured + k].min()) for k in KS},
        "log_excess": float(np.log(chosen_s / best_s)),
    }
