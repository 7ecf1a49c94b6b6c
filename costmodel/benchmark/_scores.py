"""Scores of answers: what each is of a task, and of many tasks with its interval.

Each score of many tasks is a ratio of two sums over them, so that one bootstrap serves all: whole workloads
are drawn, the same for all entries, and differences from a baseline are of the same draws.

Notations:
    t: tasks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.benchmark._question import Posed
from costmodel.learners._base import Prediction
from costmodel.learners._metrics import covered, listed_first, log_excess, score_at_k
from costmodel.learners._statistics import draw_ratios, percentile_interval

NO_HARM = 1.1  # times the latency that learning from nothing would have chosen, at most


@dataclass(frozen=True)
class ScoreRule:
    """What a score means.

    Attributes:
        meaning: In a sentence.
        goes: ``up`` if more is better, ``down`` if less is, ``to 0.9`` where that is right.
    """

    meaning: str
    goes: str = "up"


SCORES: Mapping[str, ScoreRule] = {
    "score_at_1": ScoreRule(
        "Mean over tasks of the best latency / that of the kernel chosen first; of it and those measured."
    ),
    "score_at_8": ScoreRule("The same of the best of eight chosen."),
    "gap_recovered": ScoreRule(
        "1 for the best kernel of every part of the GPU, 0 for the whole GPU's choice, pooled over tasks."
    ),
    "latency_error": ScoreRule(
        "Mean over tasks of the median |log(predicted / measured)|: 0.1 is 10 %.", "down"
    ),
    "coverage": ScoreRule("Share of latencies within their interval, which is meant to hold 90 %.", "to 0.9"),
    "log_width": ScoreRule("Mean over tasks of the median log(upper / lower end of the interval).", "down"),
    "no_harm": ScoreRule(
        f"Share of tasks whose choice takes at most {NO_HARM:g} times as long as that of a model which "
        "learns from the task's measurements alone; each task is one run."
    ),
}
"""Each score by name."""


@dataclass(frozen=True, eq=False)
class Judged:
    """What was found of each task.

    Attributes:
        workloads: ``(t,)`` workload of each task; workloads are drawn whole.
        terms: For each score the two ``(t,)`` arrays whose sums make it; NaN where a task does not tell it.
    """

    workloads: NDArray[Any]
    terms: Mapping[str, tuple[FloatArray, FloatArray]]

    @classmethod
    def mean(cls, runs: Sequence["Judged"]) -> "Judged":
        """Return the mean of several runs of an entry, which differ by seed."""
        first = runs[0]
        terms = {
            name: (np.mean([run.terms[name][0] for run in runs], axis=0), below)
            for name, (_, below) in first.terms.items()
        }
        return cls(first.workloads, terms)

    def value(self, score: str) -> float:
        """Return a score over all tasks; NaN if no task tells it."""
        above, below = (np.nansum(terms) for terms in self._told(score))
        return float(above / below) if below > 0.0 else float("nan")

    def interval(self, score: str) -> tuple[float, float]:
        """Return the ends of the 95 % interval of a score."""
        return percentile_interval(self._drawn(score))

    def difference(self, other: "Judged", score: str) -> tuple[float, float, float]:
        """Return by how much a score is above another entry's on the same tasks, with its 95 % interval."""
        low, high = percentile_interval(self._drawn(score) - other._drawn(score))
        return self.value(score) - other.value(score), low, high

    def _told(self, score: str) -> tuple[FloatArray, FloatArray]:
        above, below = self.terms[score]
        known = np.isfinite(above) & np.isfinite(below)
        return np.where(known, above, 0.0), np.where(known, below, 0.0)

    def _drawn(self, score: str) -> FloatArray:
        """The score of each draw of workloads."""
        return draw_ratios(*self._told(score), self.workloads)


def judge_answer(posed: Posed, answer: Prediction, alone: Prediction | None = None) -> Judged:
    """Judge an answer task by task, by every score.

    Ties count as chosen at random, and a choice that fails scores 0. What was measured of a task counts as
    chosen before.

    Args:
        posed: The question and its key.
        answer: What an entry said of the asked rows.
        alone: What learning from nothing said, for ``no_harm``; None if that is not asked.
    """
    workloads, found = [], []
    rows = posed.question.rows["workload"].to_numpy()
    for places, asked, measured in posed.question.asked_tasks():
        workloads.append(str(rows[asked[0]]))
        task = _Task(
            posed.question.latency_s[measured], posed.key.latency_s[places], posed.key.whole_s[places]
        )
        terms = task.choice(answer.score[places]) | task.seconds(answer, places)
        if alone is not None:
            terms["no_harm"] = task.no_harm(answer.score[places], alone.score[places])
        found.append(terms)
    terms_of = {
        name: tuple(np.array([each[name][side] for each in found]) for side in (0, 1)) for name in found[0]
    }
    return Judged(np.array(workloads), terms_of)  # type: ignore[arg-type]  # two sides


@dataclass(frozen=True)
class _Task:
    """Latencies of one task: of what was measured, and of what is asked, there and on the whole GPU."""

    measured_s: FloatArray
    asked_s: FloatArray
    whole_s: FloatArray

    def choice(self, score: FloatArray) -> dict[str, tuple[float, float]]:
        return {
            "score_at_1": (self._score(score, 1), 1.0),
            "score_at_8": (self._score(score, 8), 1.0),
            "gap_recovered": self._gap(score),
        }

    def no_harm(self, score: FloatArray, alone: FloatArray) -> tuple[float, float]:
        return float(self._score(score, 1) * NO_HARM >= self._score(alone, 1)), 1.0

    def seconds(self, answer: Prediction, places: NDArray[np.intp]) -> dict[str, tuple[float, float]]:
        found = dict.fromkeys(("latency_error", "coverage", "log_width"), (np.nan, np.nan))
        ran = np.isfinite(self.asked_s)
        if answer.latency_s is not None and ran.any():
            errors = np.abs(np.log(answer.latency_s[places][ran] / self.asked_s[ran]))
            found["latency_error"] = float(np.median(errors)), 1.0
        if answer.low_s is not None and answer.high_s is not None and ran.any():
            low_s, high_s = answer.low_s[places], answer.high_s[places]
            found["coverage"] = float(covered(low_s, high_s, self.asked_s).sum()), float(ran.sum())
            found["log_width"] = float(np.median(np.log(high_s / low_s))), 1.0
        return found

    def _score(self, score: FloatArray, k: int) -> float:
        """Best latency / best of those measured and the k chosen then."""
        count = self.measured_s.size
        by = listed_first(np.concatenate([np.zeros(count), score]), np.arange(count))
        return score_at_k(by, np.concatenate([self.measured_s, self.asked_s]), count + k)

    def _gap(self, score: FloatArray) -> tuple[float, float]:
        known = np.isfinite(self.whole_s).any() and not np.array_equal(self.whole_s, self.asked_s)
        if self.measured_s.size or not known:
            return np.nan, np.nan
        gap = log_excess(-self.whole_s, self.asked_s)
        return gap - log_excess(score, self.asked_s), gap
