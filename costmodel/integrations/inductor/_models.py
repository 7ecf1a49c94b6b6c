"""Models that rank candidates of matrix products, and blocks of other kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.integrations.inductor._fused import (
    COLUMNS,
    BlockSizes,
    FusedKernel,
    fused_columns,
    possible_blocks,
)
from costmodel.learners._complete_trees import ArrayModel, are_trees, walk_trees
from costmodel.products._model import ProductModel
from costmodel.products._product import Kernel, Product

# The model of products that the package ships, boosted on with timings of Inductor's own kernels by
# experiments/inductor_budgets/fit.py.
FITTED = Path(__file__).with_name("model.npz")
# By fit_blocks.py there.
FITTED_BLOCKS = Path(__file__).with_name("fused.npz")
_MAKE_BLOCKS = "Make it with experiments/inductor_budgets/fit_blocks.py."
_TWINS = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")  # 132 SMs each, with other memories
_SUM_S, _SUM_BYTES = 2.5e-6, 2.2e10  # a small kernel, and bytes/s of one SM, of an H100


class RanksProducts(Protocol):
    """Predicts how long kernels of a matrix product take.

    Attributes:
        identity: Changes whenever predictions do; part of the keys of Inductor's caches.
    """

    identity: str

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        """Return the latency of each kernel, nan where nothing is known of it."""
        ...


class FittedRanking:
    """A model of products in a file; it knows nothing of kernels on other devices.

    Args:
        file: The file; that of Inductor's kernels if not given.
    """

    def __init__(self, file: Path = FITTED) -> None:
        self.identity = sha256(file.read_bytes()).hexdigest()[:12]
        self._model = ProductModel.load(file)

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        seconds = np.full(len(kernels), np.nan)
        split = [i for i, each in enumerate(kernels) if each.kind == "decompose-k"]
        whole = [i for i in range(len(kernels)) if i not in split]
        known = self._known(device)
        if known:
            asked = [kernels[i] for i in whole]
            seconds[whole] = self._model.predict(product, asked, sms, known, sizes_known=True).seconds
            seconds[split] = [self._decomposed(product, kernels[i].splits, sms, known) for i in split]
        return seconds

    def _known(self, device: str) -> str | None:
        """The device that the model knows: this one, or its twin, which ranks kernels almost alike."""
        known = self._model.devices.tolist()
        alike = [device, *(_TWINS if device in _TWINS else ())]
        return next((each for each in alike if each in known), None)

    def _decomposed(self, product: Product, splits: int, sms: int, device: str) -> float:
        """A batched product of parts of k, then a kernel that sums them."""
        parts = product._replace(k=product.k // splits, batch=product.batch * splits, epilogue="")
        multiplied_s = self._model.predict(parts, [Kernel("torch")], sms, device).seconds.item()
        summed_bytes = 4.0 * splits * product.m * product.n
        return float(multiplied_s) + _SUM_S + summed_bytes / (_SUM_BYTES * sms)


class _InductorsOrder:
    """Knows nothing but the order in which Inductor has its candidates."""

    identity = "inductor"

    def predict_seconds(
        self, product: Product, kernels: Sequence[Kernel], sms: int, device: str
    ) -> FloatArray:
        del product, sms, device
        return np.arange(len(kernels), dtype=np.float64)


def open_ranking(model: RanksProducts | str | None) -> RanksProducts:
    """Return the model that is asked for.

    Raises:
        CostModelError: There is none of this name.
    """
    if model is None:
        return _InductorsOrder()
    if not isinstance(model, str):
        return model
    if model != "default":
        raise CostModelError(f"model must be 'default', None or an object that predicts, but got {model!r}.")
    return _fitted()


@cache
def _fitted() -> FittedRanking:
    return FittedRanking()


@dataclass(frozen=True, eq=False)
class FusedModel(ArrayModel):
    """Trees that rank blocks of a kernel on a number of SMs.

    Attributes:
        devices: ``(d,)`` names of the GPUs that it has learned from.
        splits: Trees, see ``walk_trees``, over ``COLUMNS``.
        thresholds: Likewise.
        leaves: Likewise.
    """

    what = "a model of blocks"
    remedy = _MAKE_BLOCKS

    devices: NDArray[Any]
    splits: NDArray[Any]
    thresholds: NDArray[Any]
    leaves: NDArray[Any]

    def __post_init__(self) -> None:
        """Check that the arrays fit one another.

        Raises:
            CostModelError: They do not.
        """
        if self.devices.dtype.kind != "U" or not are_trees(
            self.splits, self.thresholds, self.leaves, len(COLUMNS)
        ):
            raise CostModelError(
                f"The arrays of a model of blocks must fit one another, but do not. {_MAKE_BLOCKS}"
            )

    @cached_property
    def identity(self) -> str:
        """Changes whenever choices do; part of the keys of Inductor's caches."""
        arrays = (self.devices, self.splits, self.thresholds, self.leaves)
        return sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()[:12]

    def knows(self, device: str) -> bool:
        """Whether it has learned from this GPU, or from its twin."""
        return device in self.devices or (device in _TWINS and bool({*_TWINS} & {*self.devices.tolist()}))

    def choose(self, kernel: FusedKernel, sms: int, most: int) -> list[BlockSizes]:
        """Return the blocks that should be fastest on a number of SMs, the best first."""
        blocks = possible_blocks(kernel)
        if not blocks:
            return []
        score = walk_trees(fused_columns(kernel, blocks, sms), self.splits, self.thresholds, self.leaves)
        return [blocks[i] for i in np.argsort(score, kind="stable")[:most]]


@cache
def shipped_blocks() -> FusedModel:
    """Return the model that comes with the package."""
    return FusedModel.load(FITTED_BLOCKS)
