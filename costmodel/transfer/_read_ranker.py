"""Tells which configs of a kernel will be fast by what was read of each, whatever kernel it is.

All configs of a launch are known together. What counts is by how much they differ: columns and latencies are
logarithms less their means over the configs, so that nothing is asked of how long kernels take. A learner
must not look at its batch mates; this one does nothing else, and is therefore none. Trees that were boosted
elsewhere (``experiments/kernels_at_large/train.sh``) are walked in NumPy alone.

Times are told relative to the geometric mean of a launch's configs, and in seconds once one of them was
timed. An interval is as wide as the predictions of the launch are spread: where configs differ more, more can
be wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.features._ir import READ_COLUMNS, compute_least_seconds, extract_read
from costmodel.files import write_arrays
from costmodel.kernels._read_facts import ReadFacts
from costmodel.learners._complete_trees import are_trees, walk_trees
from costmodel.reading import read_arrays
from costmodel.records._platform import Platform

SHIPPED = Path(__file__).with_name("read_ranker.npz")
_ARRAYS = ("columns", "splits", "thresholds", "leaves")
_MOST_DEPTH = 12
_LARGEST = 6e4  # that a float16 holds, nearly
# Half of an interval, in log latency, over ``doubt``: what covers nine in ten configs relative to their mean,
# and relative to those that were timed. Kinds of kernels left out (experiments/kernels_at_large/judge.sh).
HALF_WIDTH, HALF_WIDTH_IN_SECONDS = 1.1, 1.5
_LEAST_DOUBT = 0.1
# Of the GPUs that it learned from and was judged on.
LEARNED_ARCHITECTURE = "sm_90"


@dataclass(frozen=True, eq=False)
class ReadRanker:
    """Complete trees (``walk_trees``) over columns of what was read of configs, each less its mean over them.

    Attributes:
        columns: ``(c,)`` names of the columns, of group ``ir``.
        splits: ``(t, 2**depth - 1)`` position of the column that a node looks at.
        thresholds: Value that it compares with, likewise; float16, as columns are.
        leaves: ``(t, 2**depth)`` what a leaf adds to the log of the latency.
    """

    columns: NDArray[Any]
    splits: NDArray[Any]
    thresholds: NDArray[Any]
    leaves: NDArray[Any]

    def __post_init__(self) -> None:
        """Check that the arrays are trees.

        Raises:
            CostModelError: They are not, or look at columns that this version does not compute.
        """
        fits = (
            (self.columns.ndim, self.columns.dtype.kind) == (1, "U")
            and are_trees(self.splits, self.thresholds, self.leaves, len(self.columns))
            and self.splits.size > 0
            and self.splits.shape[1] < 2**_MOST_DEPTH
        )
        if not fits:
            raise CostModelError(
                "The arrays of a ranker must be complete, finite trees over its columns, but are not."
            )
        if unknown := set(self.columns.tolist()) - {each.name for each in READ_COLUMNS}:
            raise CostModelError(
                f"Columns of a ranker must be of group ir, but these are not: {sorted(unknown)[:3]}. Train "
                "it again with this version of costmodel."
            )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a ranker from a file, which can run nothing.

        Raises:
            CostModelError: The file is none.
        """
        remedy = "Make it with experiments/kernels_at_large/train.sh."
        return cls(**read_arrays(path, _ARRAYS, "a ranker", remedy=remedy))

    def save(self, path: Path) -> None:
        """Write the ranker to a file; the same trees give the same bytes."""
        write_arrays(path, {name: getattr(self, name) for name in _ARRAYS})

    def predict(self, facts: Sequence[ReadFacts | None], platform: Platform) -> FloatArray:
        """Return the log of each config's latency over their geometric mean, as expected; lower is better.

        Args:
            facts: What was read of each config of one launch; None for one that was not read.
            platform: Where they would run.

        Returns:
            ``(n,)``; NaN for configs that were not read.
        """
        table = extract_read(facts, [platform] * len(facts))
        names = {column.name: i for i, column in enumerate(table.columns)}
        return self.predict_relative(
            relative_columns(table.values[:, [names[each] for each in self.columns.tolist()]])
        )

    def predict_relative(self, X: NDArray[np.float16]) -> FloatArray:
        """Return what ``predict`` does for ``relative_columns``, of one launch or of several."""
        found = walk_trees(X, self.splits, self.thresholds, self.leaves)
        return np.where(np.isnan(X).all(axis=1), np.nan, found)


def relative_columns(X: FloatArray) -> NDArray[np.float16]:
    """Return columns of configs of one launch less their means; 0 for what is not known of a config.

    Args:
        X: ``(n, c)``; a row of NaN is of a config that was not read, and stays so.
    """
    known = ~np.isnan(X)
    count = known.sum(axis=0)
    mean = np.where(known, X, 0.0).sum(axis=0) / np.maximum(1, count)
    centred = np.where(known, X - mean, 0.0)
    centred[~known.any(axis=1)] = np.nan
    return np.clip(centred, -_LARGEST, _LARGEST).astype(np.float16)


@dataclass(frozen=True, order=True)
class ExpectedTime:
    """What a config is expected to take; nine in ten take between ``low`` and ``high``.

    Attributes:
        expected: The time.
        low: Lower end of the interval.
        high: Upper end.
        in_seconds: Whether these are seconds, as a config of the launch was timed. Else they are relative to
            the geometric mean of the launch's configs.
    """

    expected: float
    low: float
    high: float
    in_seconds: bool

    def __str__(self) -> str:
        """Such as ``0.62 (0.41 to 0.94) of the mean``."""
        scale, unit = (1e6, "us") if self.in_seconds else (1.0, "of the mean")
        low, expected, high = (f"{scale * each:.3g}" for each in (self.low, self.expected, self.high))
        return f"{expected} {unit}" if low == high else f"{expected} ({low} to {high}) {unit}"


def expect_times(
    facts: Sequence[ReadFacts | None], platform: Platform, timed_s: FloatArray
) -> list[ExpectedTime | None]:
    """Tell what the configs of one launch are expected to take.

    Args:
        facts: What was read of each; None for one that was not read.
        platform: Where they would run.
        timed_s: ``(n,)`` what some of them took there; NaN for the others.

    Returns:
        What a config took, else what it is expected to take, no less than the hardware allows. None where
        neither can be told: it was not read, or others were timed of which nothing was read.
    """
    log_s, is_timed = shipped_ranker().predict(facts, platform), np.isfinite(timed_s)
    if not np.isfinite(log_s).any():
        log_s = np.full(len(facts), np.nan)
    in_seconds = bool(is_timed.any())
    anchors = log_s[is_timed] - np.log(timed_s[is_timed]) if in_seconds else log_s
    anchors = anchors[np.isfinite(anchors)]
    width = (HALF_WIDTH_IN_SECONDS if in_seconds else HALF_WIDTH) * doubt(log_s)
    middle = np.exp(log_s - (anchors.mean() if anchors.size else np.nan))
    least_s = compute_least_seconds(facts, platform) if in_seconds else np.zeros(len(facts))
    ends = [np.maximum(least_s, middle * each) for each in (1.0, np.exp(-width), np.exp(width))]
    told = np.where(is_timed, timed_s, np.array(ends)).T
    return [
        None if np.isnan(expected) else ExpectedTime(expected, low, high, in_seconds)
        for expected, low, high in told.tolist()
    ]


def doubt(log_s: FloatArray) -> float:
    """Tell how far predictions of one launch may be off, but for a factor: more where they differ more.

    Args:
        log_s: ``(n,)`` as ``ReadRanker.predict`` tells; NaN for configs that were not read.
    """
    told = log_s[np.isfinite(log_s)]
    return _LEAST_DOUBT + (float(told.std(ddof=1)) if told.size > 1 else 0.0)


@cache
def shipped_ranker() -> ReadRanker:
    """Return the ranker that comes with the package, which knows many kinds of kernels."""
    return ReadRanker.load(SHIPPED)
