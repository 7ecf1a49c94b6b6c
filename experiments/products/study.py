"""Measurements of products as a learner sees them, and how a model of products is fitted to them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from scipy.optimize import least_squares

from costmodel.arrays import FloatArray
from costmodel.products._columns import COLUMNS, KIND_PLACES
from costmodel.products._core import Rates, time_terms
from costmodel.products._measured import Measured, without_lists
from costmodel.products._model import ProductModel
from costmodel.products._product import OPERAND_BYTES, Kernel

sys.path.append(str(Path(__file__).parents[1]))
from kit.trees import complete_trees

H100_L2_BYTES, H200_L2_BYTES = 50 << 20, 60 << 20
H100_BYTES_PER_S, H200_BYTES_PER_S = 3.35e12, 4.8e12
FAMILIES = (
    ("llama",), ("qwen", "bert"), ("mixtral", "gpt2", "convolution"), ("deepseek", "dlrm"),
    ("attention", "any"),
)  # fmt: skip
"""Families that are held out together."""
Rows = NDArray[np.bool_]
_DEPTH, _TREES, _RATE = 8, 250, 0.12
# Kernels near the best of their task weigh most. Those that take at most 1.5 times as long count as near, and
# of them and of the others trees learn from these shares.
_POWER, _NEAR, _NEAR_SHARE, _FAR_SHARE = 1.5, 1.5, 0.5, 0.12
# Of products that are not of half precision, or not aligned, twice the share, with half as much weight again.
_RARE_SHARE, _RARE_WEIGHT = 2.0, 1.5
# Where a fit of the rates begins, an H100's by hand, and by what factor it may leave it.
_FLOPS = {
    "float16": 7.3e12, "bfloat16": 7.3e12, "tfloat32": 3.6e12, "float32": 4.5e11, "float8_e4m3": 1.4e13,
    "int8": 1.4e13,
}  # fmt: skip
_SMS_AT_FULL_CLOCK = 100
_START = {
    "l2_bytes_per_sm": 1e11, "l2_bytes_per_s": 1e13,
    "memory_bytes_per_s": 2.9e12, "memory_bytes_per_sm": 8e10,
    "latency_s": 7e-7, "start_s": 6e-7, "launch_s": 2e-6,
}  # fmt: skip
_FACTOR, _FLOPS_FACTOR = 3.0, 1.35


def fit_rates(
    measured: Measured, whole: int, l2_bytes: float, seed: int, most: int = 250
) -> dict[str, Rates]:
    """Fit the rates of a device to the kernels of some tasks, robustly and in logarithms."""
    draw = np.random.default_rng(seed)
    chosen = draw.permutation(len(measured.products))[:most]
    samples = []
    for i in chosen.tolist():
        rows = np.arange(len(measured.kernels))[measured.task(i)]
        rows = rows[np.argsort(measured.rows.seconds.to_numpy()[rows])[:8]]
        samples.append((measured.products[i], [measured.kernels[j] for j in rows], measured.sms[i], rows))
    log_s = np.concatenate([np.log(measured.rows.seconds.to_numpy()[rows]) for *_, rows in samples])
    dtypes = list(OPERAND_BYTES)
    flops = [_FLOPS[dtype] for dtype in dtypes]
    start = np.log([*flops, *(_SMS_AT_FULL_CLOCK * each for each in flops), *_START.values()])
    reach = np.log([*[_FLOPS_FACTOR] * (2 * len(dtypes)), *[_FACTOR] * len(_START)])

    def rates_of(x: FloatArray) -> dict[str, Rates]:
        values = np.exp(x).tolist()
        rest = dict(zip(_START, values[2 * len(dtypes) :], strict=True))
        each = zip(dtypes, values, values[len(dtypes) :], strict=False)
        return {name: Rates(one, every, **rest, l2_bytes=l2_bytes) for name, one, every in each}

    def errors(x: FloatArray) -> FloatArray:
        rates = rates_of(x)
        parts = [time_terms(p, k, s, rates[p.dtype], whole)[:, 0] for p, k, s, _ in samples]
        prior = x - start  # rates that no kernel is bound by stay where they begin
        return np.concatenate([np.log(np.concatenate(parts)) - log_s, prior])

    bounds = start - reach, start + reach
    found = least_squares(
        errors, start, bounds=bounds, loss="soft_l1", f_scale=0.2, max_nfev=12, diff_step=0.02
    )
    return rates_of(found.x)


def carry_to_h100(rates: dict[str, Rates]) -> dict[str, Rates]:
    """Return what an H200's rates would be on an H100 by datasheet: less memory bandwidth, less L2."""
    return {
        dtype: each._replace(
            memory_bytes_per_s=each.memory_bytes_per_s * H100_BYTES_PER_S / H200_BYTES_PER_S,
            l2_bytes=H100_L2_BYTES,
        )
        for dtype, each in rates.items()
    }


@dataclass(frozen=True, eq=False)
class Learned:
    """What trees learn from: every row of a GPU, and cuBLASLt's once more as they are known without its list.

    Attributes:
        measured: The rows.
        X: ``(n, len(COLUMNS))``.
        X_blind: The same of kernels as they are known without asking cuBLASLt.
        analytic_s: ``(n,)`` analytic seconds.
        blind_s: Likewise.
        is_library: ``(n,)`` whether the two differ.
    """

    measured: Measured
    X: FloatArray
    X_blind: FloatArray
    analytic_s: FloatArray
    blind_s: FloatArray
    is_library: Rows

    @classmethod
    def of(cls, measured: Measured, rates: dict[str, Rates], whole: int) -> "Learned":
        """Describe what was measured."""
        X, analytic_s = measured.columns(rates, whole)
        blind = without_lists(measured.kernels)
        X_blind, blind_s = measured.columns(rates, whole, blind)
        is_library = np.array([a != b for a, b in zip(blind, measured.kernels, strict=True)])
        return cls(measured, X, X_blind, analytic_s, blind_s, is_library)

    @property
    def log_s(self) -> FloatArray:
        """``(n,)`` log of the measured seconds."""
        found: FloatArray = np.log(self.measured.rows.seconds.to_numpy(np.float64))
        return found

    @property
    def families(self) -> "np.ndarray[Any, Any]":
        """``(n,)`` family of each row's product."""
        return self.measured.rows.family.to_numpy()

    @property
    def layers(self) -> "np.ndarray[Any, Any]":
        """``(n,)`` a number for each pair of n and k."""
        rows = self.measured.rows
        return rows.n.to_numpy(np.int64) << 32 | rows.k.to_numpy(np.int64)

    def _is_rare(self) -> Rows:
        """``(n,)`` whether products are of a kind of which little was measured, and much is wrong."""
        rare = np.array([not product.is_aligned_half for product in self.measured.products])
        found: Rows = np.repeat(rare, np.diff(self.measured.starts))
        return found

    def draw(self, rows: Rows, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draw what trees see of some rows, fewer of those far from the best; cuBLASLt's come in both ways.

        Returns:
            Columns, log of measured over analytic seconds, and weights.
        """
        weights, rare = weigh(self.measured), self._is_rare()
        shares = np.where(weights < _NEAR**-_POWER, _FAR_SHARE, _NEAR_SHARE) * np.where(rare, _RARE_SHARE, 1)
        weights = weights * np.where(rare, _RARE_WEIGHT, 1)
        rows = rows & (np.random.default_rng(seed).random(len(rows)) < shares)
        twice = rows & self.is_library
        known, blind = self.log_s - np.log(self.analytic_s), self.log_s - np.log(self.blind_s)
        return (
            np.concatenate([self.X[rows], self.X_blind[twice]]),
            np.concatenate([known[rows], blind[twice]]),
            np.concatenate([weights[rows], weights[twice]]),
        )

    def predict(self, booster: xgb.Booster, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return the log seconds of rows, knowing cuBLASLt's list and without."""
        found = []
        for X, seconds in ((self.X, self.analytic_s), (self.X_blind, self.blind_s)):
            found.append(np.log(seconds[rows]) + booster.predict(xgb.DMatrix(X[rows].astype(np.float32))))
        return found[0], found[1]


def fit_gpus(parts: Sequence[tuple[Learned, Rows]], seed: int, trees: int = _TREES) -> xgb.Booster:
    """Fit trees to some rows of each GPU."""
    drawn = [learned.draw(rows, seed) for learned, rows in parts]
    X, log_ratio, weights = (np.concatenate(each) for each in zip(*drawn, strict=True))
    return fit_trees(X, log_ratio, weights, seed, trees)


def hold_out(
    asked: Sequence[Learned], known: Sequence[Learned], seed: int, trees: int = _TREES
) -> list[tuple[FloatArray, FloatArray]]:
    """Return what trees that never saw a product's family, nor its layer elsewhere, say of each row.

    Args:
        asked: Rows of some GPUs.
        known: GPUs that are learned from.
        seed: Of what is drawn.
        trees: How many.

    Returns:
        Of each GPU log seconds: knowing cuBLASLt's list of algorithms, and without.
    """
    found = [np.full((2, len(each.families)), np.nan) for each in asked]
    for names in FAMILIES:
        places = [np.isin(each.families, names) for each in asked]
        layers = np.unique(
            np.concatenate([each.layers[rows] for each, rows in zip(asked, places, strict=True)])
        )
        parts = [(each, ~np.isin(each.families, names) & ~np.isin(each.layers, layers)) for each in known]
        booster = fit_gpus(parts, seed, trees)
        for each, rows, said in zip(asked, places, found, strict=True):
            if rows.any():
                said[:, rows] = each.predict(booster, rows)
    return [(listed, blind) for listed, blind in found]


def fit_trees(
    X: FloatArray, log_ratio: FloatArray, weights: FloatArray, seed: int, trees: int = _TREES
) -> xgb.Booster:
    """Fit trees to the log of measured over analytic seconds."""
    settings = {
        "max_depth": _DEPTH, "eta": _RATE, "subsample": 0.7, "colsample_bynode": 0.6, "min_child_weight": 3.0,
        "lambda": 2.0, "max_bin": 128, "base_score": 0.0, "seed": seed, "nthread": 1, "tree_method": "hist",
    }  # fmt: skip
    return xgb.train(settings, xgb.DMatrix(X.astype(np.float32), label=log_ratio, weight=weights), trees)


def weigh(measured: Measured) -> FloatArray:
    """Weight of each row: kernels near the best of their task decide what is chosen."""
    seconds = measured.rows.seconds.to_numpy(dtype=np.float64)
    best = measured.rows.groupby("task").seconds.transform("min").to_numpy(dtype=np.float64)
    found: FloatArray = (best / seconds) ** _POWER
    return found


def complete(booster: xgb.Booster) -> tuple[Any, Any, Any]:
    """Splits, thresholds and leaves of complete trees; leaves are kept in half precision."""
    splits, thresholds, leaves = complete_trees([booster], _DEPTH, np.float32)
    return splits, thresholds, leaves.astype(np.float16)


def as_model(
    booster: xgb.Booster, devices: dict[str, tuple[int, dict[str, Rates]]], spread: FloatArray
) -> ProductModel:
    """Put a model together."""
    rates = np.array([[rates[dtype] for dtype in OPERAND_BYTES] for _, rates in devices.values()], np.float64)
    splits, thresholds, leaves = complete(booster)
    sms = np.array([sms for sms, _ in devices.values()])
    return ProductModel(np.array([*devices]), sms, rates, splits, thresholds, leaves, spread)


def spread_of(kernels: Sequence[Kernel], log_error: FloatArray, most: float = 0.9) -> FloatArray:
    """Where ``most`` of the log errors of each kind of kernel lie, ``(kinds, 2)``; few count with all."""
    kinds = np.array([KIND_PLACES[kernel[:2]] for kernel in kernels])
    ends = [(1 - most) / 2, (1 + most) / 2]
    found = np.tile(np.quantile(log_error, ends), (len(KIND_PLACES), 1))
    for kind in range(len(KIND_PLACES)):
        if np.count_nonzero(kinds == kind) >= 200:
            found[kind] = np.quantile(log_error[kinds == kind], ends)
    return found


assert len(COLUMNS) < 256  # positions are bytes
