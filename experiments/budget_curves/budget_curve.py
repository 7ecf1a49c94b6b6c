"""A kernel's latency at SM budgets where it was not measured, from two where it was.

What holds a kernel to its pace is the SM with most blocks: ``rounds = ceil(blocks / SMs)`` of them, one after
the other or sharing the SM. Two measurements give the line ``latency = a + b x rounds``, and trees that
learned from other workloads give how far from that line kernels like this one are.

Of ``datasets/sm-budgets``, from 16 SMs and the whole device: waves of
``ceil(blocks / (blocks per SM x SMs))``, the usual model (cuSync, arXiv:2305.13450), which take an SM full of
blocks to need no longer than one block alone, are worse than the line over 1 / SMs (Amdahl's law); rounds are
better than both.

Notations:
    n: kernels. k: SM budgets.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray


@dataclass(frozen=True)
class BudgetReplicates:
    """What is known of n kernels.

    Attributes:
        blocks: ``(n,)`` thread blocks of the grid, of its slowest launch where it has several.
        blocks_per_sm: ``(n,)`` blocks that an SM can hold at once.
        sms: The two SM budgets that they were measured at, ascending; the second is the whole device.
        latency_s: ``(n, 2)`` their latencies there, finite.
        columns: ``(n, c)`` what else ``BudgetCurves`` is told of them, such as their resources and what
            bounds their time; None for nothing.

    Raises:
        ValueError: The shapes disagree, or the budgets do not ascend.
    """

    blocks: FloatArray
    blocks_per_sm: FloatArray
    sms: tuple[int, int]
    latency_s: FloatArray
    columns: FloatArray | None = None

    def __post_init__(self) -> None:
        n = len(self.blocks)
        if self.blocks.shape != (n,) or self.blocks_per_sm.shape != (n,) or self.latency_s.shape != (n, 2):
            raise ValueError(
                "blocks, blocks_per_sm and latency_s must have shapes (n,), (n,) and (n, 2), but got "
                f"{self.blocks.shape}, {self.blocks_per_sm.shape} and {self.latency_s.shape}"
            )
        if not 0 < self.sms[0] < self.sms[1]:
            raise ValueError(f"0 < sms[0] < sms[1] must hold, but got {self.sms}")
        if self.columns is not None and len(self.columns) != n:
            raise ValueError(f"columns must have {n} rows, as blocks does, but got {len(self.columns)}")

    def part(self, taken: NDArray[Any]) -> "BudgetReplicates":
        """Some of the kernels, by position or mask."""
        columns = None if self.columns is None else self.columns[taken]
        return BudgetReplicates(
            self.blocks[taken], self.blocks_per_sm[taken], self.sms, self.latency_s[taken], columns
        )


def inverse_curve(known: BudgetReplicates, sms: FloatArray) -> FloatArray:
    """``(n, k)`` latency ``a + b / SMs`` through both measurements: a part scales, one does not."""
    return _line(known, sms, lambda s: np.broadcast_to(1.0 / s, (len(known.blocks), s.size)))


def waves_curve(known: BudgetReplicates, sms: FloatArray) -> FloatArray:
    """``(n, k)`` latency ``a + b x waves`` through both, ``waves = ceil(blocks / (blocks per SM x SMs))``."""
    at_once = (known.blocks / known.blocks_per_sm)[:, None]
    return _line(known, sms, lambda s: np.ceil(at_once / s))


def rounds_curve(known: BudgetReplicates, sms: FloatArray) -> FloatArray:
    """``(n, k)`` latency ``a + b x rounds`` through both measurements, rounds being ``ceil(blocks / SMs)``.

    Where both have as many rounds, or the first is the faster, the latency is that of the whole device.

    Args:
        known: The kernels.
        sms: ``(k,)`` SM budgets.
    """
    return _line(known, sms, lambda s: np.ceil(known.blocks[:, None] / s))


def smallest_budget(latency_s: FloatArray, sms: FloatArray, within: float = 0.1) -> FloatArray:
    """``(n,)`` fewest SMs at which a kernel is as fast as on the most, or slower by ``within`` at most.

    Args:
        latency_s: ``(n, k)``.
        sms: ``(k,)`` SM budgets, ascending; the last is the whole device.
        within: 0.1 accepts a latency up to 10 % above that of the whole device.
    """
    fast = latency_s <= (1.0 + within) * latency_s[:, -1:]
    return np.asarray(sms[fast.argmax(axis=1)], dtype=np.float64)


class BudgetCurves:
    """``rounds_curve``, and boosted trees for what it is off by, learned from kernels of other workloads.

    Besides the columns given, the trees see the latency on the whole device and numbers without a unit: the
    line's value against those of other models of scaling, rounds and waves at the budget and at both that
    were measured, how full the last round and wave are, and how the kernel scaled.

    Args:
        trees: Boosted trees.
        depth: Depth of a tree.
        learning_rate: Weight of a tree.
        seed: Seed of the rows and columns that each tree sees.
        n_jobs: Threads.
    """

    def __init__(
        self,
        *,
        trees: int = 300,
        depth: int = 7,
        learning_rate: float = 0.08,
        seed: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate
        self.seed = seed
        self.n_jobs = n_jobs

    def fit(self, known: BudgetReplicates, sms: FloatArray, latency_s: FloatArray) -> Self:
        """Learn from kernels that were measured at k budgets more, at best all there are.

        Args:
            known: The kernels, measured at the budgets that others are going to be.
            sms: ``(k,)`` other budgets.
            latency_s: ``(n, k)`` latencies there, finite.

        Raises:
            MissingExtraError: XGBoost is not installed.
        """
        import xgboost

        off = np.log(latency_s / rounds_curve(known, sms))
        rows = xgboost.QuantileDMatrix(_features(known, sms), off.ravel(), nthread=self.n_jobs)
        settings = {
            # What is judged is the median error.
            "objective": "reg:absoluteerror",
            "max_depth": self.depth,
            "eta": self.learning_rate,
            "subsample": 0.7,
            "colsample_bytree": 0.6,
            "min_child_weight": 20,
            "seed": self.seed,
            "nthread": self.n_jobs,
        }
        self.booster_: Any = xgboost.train(settings, rows, num_boost_round=self.trees)
        return self

    def predict(self, known: BudgetReplicates, sms: FloatArray) -> FloatArray:
        """``(n, k)`` latency at SM budgets; at both that were measured, what was measured."""
        off = self.booster_.inplace_predict(_features(known, sms)).astype(np.float64)
        curve = rounds_curve(known, sms) * np.exp(off).reshape(-1, len(sms))
        for i, measured_at in enumerate(known.sms):
            curve[:, sms == measured_at] = known.latency_s[:, i : i + 1]
        return np.asarray(curve)


def _line(known: BudgetReplicates, sms: FloatArray, load: Any) -> FloatArray:
    """The line over ``load(SMs)`` through both measurements, level where it would fall with less load."""
    at_sms, at_known = load(sms), load(np.asarray(known.sms, dtype=np.float64))
    rise = known.latency_s[:, 0] - known.latency_s[:, 1]
    run = at_known[:, 0] - at_known[:, 1]
    slope = np.where(run > 0.0, np.maximum(0.0, rise) / np.where(run > 0.0, run, 1.0), 0.0)
    line = known.latency_s[:, 1:] + slope[:, None] * (at_sms - at_known[:, 1:])
    # Beyond the whole device the line may cross 0; a kernel never does.
    return np.asarray(np.maximum(line, 0.01 * known.latency_s[:, 1:]))


def _features(known: BudgetReplicates, sms: FloatArray) -> FloatArray:
    """``(n x k, c)`` what the trees see."""
    budgets = np.asarray([*known.sms, *sms], dtype=np.float64)
    share = known.blocks[:, None] / budgets
    full = share / known.blocks_per_sm[:, None]
    rounds, waves = np.ceil(share), np.ceil(full)
    here = slice(2, None)
    base = rounds_curve(known, sms)
    scaled = known.latency_s[:, :1] / known.latency_s[:, 1:]
    columns = [
        np.log(sms)[None, :],
        *(np.log(curve(known, sms) / base) for curve in (inverse_curve, waves_curve)),
        np.log(base / known.latency_s[:, 1:]),
        *(np.log(values[:, here]) for values in (share, full, rounds, waves)),
        (rounds / share)[:, here],
        (waves / full)[:, here],
        *(np.log(v[:, here] / v[:, i : i + 1]) for v in (rounds, waves) for i in (0, 1)),
        np.log(scaled),
        np.log(known.latency_s[:, 1:]),
        np.log(known.blocks)[:, None],
        np.log(known.blocks_per_sm)[:, None],
    ]
    shape = base.shape
    seen = np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1).reshape(base.size, -1)
    return seen if known.columns is None else np.hstack([seen, np.repeat(known.columns, shape[1], axis=0)])
