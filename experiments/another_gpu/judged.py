"""How far predictions are off, without a measurement on the new hardware and with a few."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from costmodel.transfer._carry import Carried, Spread


@dataclass(frozen=True)
class Judged:
    """Errors of one way to predict.

    Attributes:
        log_error: ``(n,)`` log(measured / predicted).
        held: ``(n,)`` whether the measured latency lies in its interval; NaN where none is told.
    """

    log_error: np.ndarray
    held: np.ndarray

    @classmethod
    def plain(cls, measured: np.ndarray, predicted: np.ndarray) -> "Judged":
        error = np.log(measured / predicted)
        return cls(error, np.full(len(error), np.nan))

    @classmethod
    def joined(cls, parts: list["Judged"]) -> "Judged":
        return cls(
            np.concatenate([each.log_error for each in parts]), np.concatenate([each.held for each in parts])
        )

    def summary(self) -> dict[str, float | int | None]:
        known = np.isfinite(self.log_error)
        if not known.any():
            return {"rows": 0, "median_error": None, "p90_error": None, "coverage": None}
        error = np.abs(np.expm1(-self.log_error[known]))  # |predicted / measured - 1|
        held = self.held[known]
        told = np.isfinite(held)
        return {
            "rows": int(known.sum()),
            "median_error": round(float(np.median(error)), 4),
            "p90_error": round(float(np.quantile(error, 0.9)), 4),
            "coverage": round(float(held[told].mean()), 3) if told.any() else None,
        }


def within(log_error: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """``(n,)`` whether errors lie between the ends, as numbers; NaN where the error is not known."""
    return np.where(np.isfinite(log_error), (low <= log_error) & (log_error <= high), np.nan)


def judged(found: Carried, measured: np.ndarray, spread: Spread) -> Judged:
    """Errors of latencies that were carried over, with intervals."""
    error = np.log(measured / found.latency_s)
    return Judged(error, within(error, *spread.ends(found.distances)))


@dataclass(frozen=True)
class Shots:
    """How many kernels of a task are measured on the new hardware, and how often they are drawn."""

    count: int
    draws: int


def with_shots(log_error: np.ndarray, groups: np.ndarray, shots: Shots, level: float = 0.9) -> Judged:
    """Errors where so many kernels of each group were measured at random, their median error taken out.

    Intervals are those of a further draw from a normal distribution. Groups with fewer than twice as many
    kernels as are measured do not count.
    """
    return Judged.joined(list(_with_shots(log_error, groups, shots, level)))


def _with_shots(log_error: np.ndarray, groups: np.ndarray, shots: Shots, level: float) -> Iterator[Judged]:
    yield Judged(np.zeros(0), np.zeros(0))
    width = float(t.ppf((1 + level) / 2, shots.count - 1)) * np.sqrt(1 + 1 / shots.count)
    for group in np.unique(groups):
        known = log_error[(groups == group) & np.isfinite(log_error)]
        for draw in range(shots.draws if len(known) >= 2 * shots.count else 0):
            mixed = np.random.default_rng(draw).permutation(known)
            measured, others = mixed[: shots.count], mixed[shots.count :]
            rest = others - np.median(measured)
            end = np.full(len(rest), width * measured.std(ddof=1))
            yield Judged(rest, within(rest, -end, end))
