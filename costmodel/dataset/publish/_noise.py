"""How much equal measurements differ."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from costmodel.dataset.table._lists import lengths_of, reduced

_TIME_UNITS = (("s", 0), ("ms", -3), ("us", -6), ("ns", -9))


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of relative differences; 0.01 means 1 %. All are NaN if there are none.

    Attributes:
        count: How many differences.
        median: 50th percentile.
        p90: 90th percentile.
        p99: 99th percentile.
        max: Largest.
    """

    count: int
    median: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Noise:
    """How far equal measurements differ.

    Attributes:
        repeats: (slowest - fastest) / median over the repeats of one measurement.
        visits: abs(median of visit 1 / median of visit 0 - 1) of candidates that met a platform twice (A/A).
        visits_by_latency: The same by decade of the latency, such as "10 us - 100 us", shortest first.
    """

    repeats: Quantiles
    visits: Quantiles
    visits_by_latency: dict[str, Quantiles]


def describe_noise(repeats: ArrayLike, shifts: pd.DataFrame) -> Noise:
    """Noise of a dataset, of its ``repeat_spreads`` and ``visit_shifts``."""
    decades = np.floor(np.log10(shifts["latency_s"])).astype(int)
    return Noise(
        repeats=quantiles(repeats),
        visits=quantiles(shifts["shift"]),
        visits_by_latency={
            f"{_power_of_ten(decade)} - {_power_of_ten(decade + 1)}": quantiles(group)
            for decade, group in shifts["shift"].groupby(decades)
        },
    )


def repeat_spreads(measurements: pd.DataFrame) -> NDArray[np.float64]:
    """(slowest - fastest) / median over the repeats of each measurement that is ok."""
    ok = measurements[measurements["outcome"] == "ok"]
    spreads: NDArray[np.float64] = reduced(pa.array(ok["latencies_s"]), _width) / ok["latency_s"].to_numpy()
    return spreads


def _width(latencies_s: NDArray[np.float64]) -> NDArray[np.float64]:
    width: NDArray[np.float64] = latencies_s.max(axis=1) - latencies_s.min(axis=1)
    return width


def visit_shifts(measurements: pd.DataFrame) -> pd.DataFrame:
    """For each candidate that met a platform twice, ``latency_s`` of visit 0 and the relative ``shift``."""
    alone = lengths_of(pa.array(measurements["co_runners"])) == 0
    ok = measurements[(measurements["outcome"] == "ok") & alone]
    visits = ok.groupby(["candidate", "platform", "visit"])["latency_s"].mean().unstack()
    pairs = visits.reindex(columns=[0, 1]).dropna()
    return pd.DataFrame({"latency_s": pairs[0], "shift": (pairs[1] / pairs[0] - 1).abs()})


def quantiles(differences: ArrayLike) -> Quantiles:
    """Quantiles of some relative differences."""
    values = np.asarray(differences, dtype=np.float64)
    points = np.quantile(values, [0.5, 0.9, 0.99, 1.0]) if values.size else np.full(4, np.nan)
    return Quantiles(values.size, *map(float, points))


def _power_of_ten(exponent: int) -> str:
    """Ten to this power in seconds, such as ``100 us``."""
    unit, base = next((unit, base) for unit, base in _TIME_UNITS if exponent >= base or unit == "ns")
    return f"{10 ** (exponent - base):g} {unit}"
