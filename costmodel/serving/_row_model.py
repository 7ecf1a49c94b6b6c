"""How long rows of a table take, one beside another: what their time is made of, corrected by trees."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.learners._complete_trees import ArrayModel, are_trees, walk_trees
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.serving._kernel import PARAMETERS, Kernel, Row, ScaledProduct
from costmodel.serving._terms import COLUMNS, TiledProduct, product_of, row_columns

SHIPPED = Path(__file__).with_name("model.npz")
_REMEDY = "Make it with experiments/serving/fit.sh."


@dataclass(frozen=True, eq=False)
class RowModel(ArrayModel):
    """Seconds of configs relative to one another.

    Attributes:
        kinds: ``(k,)`` kinds of kernels that it learned, as ``kind_of_kernel`` has them.
        margins: ``(k,)`` log of how many times as long one config of each kind must be expected to take as
            another to be slower all but surely.
        architectures: ``(a,)`` architectures of GPUs that it learned.
        splits: Trees, see ``walk_trees``, over ``COLUMNS``; their sum is the log of the seconds over the
            analytic ones, less the same for all configs of a problem.
        thresholds: Likewise.
        leaves: Likewise.
        spread: ``(2,)`` 5th and 95th percentile of the log of a measured ratio over the expected one.
    """

    what = "a model of rows of tables"
    remedy = _REMEDY

    kinds: NDArray[Any]
    margins: NDArray[Any]
    architectures: NDArray[Any]
    splits: NDArray[Any]
    thresholds: NDArray[Any]
    leaves: NDArray[Any]
    spread: NDArray[Any]

    def __post_init__(self) -> None:
        """Check that the arrays fit one another.

        Raises:
            CostModelError: They do not.
        """
        fits = (
            are_trees(self.splits, self.thresholds, self.leaves, len(COLUMNS))
            and self.margins.shape == self.kinds.shape
            and self.spread.shape == (2,)
        )
        if not fits or not all(np.isfinite(each).all() for each in (self.margins, self.spread)):
            raise CostModelError(f"The arrays of a model of rows must fit one another, but do not. {_REMEDY}")

    def knows(self, kernel: Kernel, device: Device) -> bool:
        """Whether it learned kernels of this kind on GPUs of this architecture."""
        return (
            kind_of_kernel(kernel) in self.kinds.tolist()
            and device.architecture in self.architectures.tolist()
        )

    def margin_of(self, kernel: Kernel) -> float:
        """Return how far ahead a config must be expected to be; of a kind that it knows."""
        return float(self.margins[self.kinds.tolist().index(kind_of_kernel(kernel))])

    def log_seconds(self, X: FloatArray) -> FloatArray:
        """Return ``(n,)`` log of seconds of configs of one problem, up to what they have in common."""
        found: FloatArray = X[:, 0] * np.log(2) + walk_trees(X, self.splits, self.thresholds, self.leaves)
        return found

    def compare(
        self, kernel: Kernel, tokens: int, rows: Sequence[Row], sms: int, device: Device
    ) -> FloatArray:
        """Return ``(n,)`` log of the seconds of rows, up to what they have in common.

        Args:
            kernel: What they are for.
            tokens: Number of tokens.
            rows: Configs.
            sms: SMs that are granted.
            device: The GPU.
        """
        numbers = np.array([[row[name] for name in PARAMETERS] for row in rows])
        products = [_product_of(workload) for workload in kernel.workloads(tokens)]
        columns = [row_columns(product, numbers, sms, device) for product in products]
        found: FloatArray = np.logaddexp.reduce([self.log_seconds(X) for X in columns], axis=0)
        return found


def kind_of_kernel(kernel: Kernel) -> str:
    """Return what kernel it is, whatever its sizes: its types, whether scales are of blocks, and of what."""
    if isinstance(kernel, ScaledProduct):
        return "scaled"
    return f"{kernel.precision} of blocks" if kernel.precision and kernel.block else kernel.precision


@lru_cache(256)
def _product_of(workload: Workload) -> TiledProduct:
    product = product_of(workload)
    assert product
    return product


@cache
def shipped_rows() -> RowModel:
    """Return the model that comes with the package."""
    return RowModel.load(SHIPPED)
