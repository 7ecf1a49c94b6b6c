"""Models that rank candidates of matrix products."""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.products._model import ProductModel
from costmodel.products._product import Kernel, Product

# The model of products that the package ships, boosted on with timings of Inductor's own kernels by
# experiments/inductor_budgets/fit.py.
FITTED = Path(__file__).with_name("model.npz")
TWINS = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")  # 132 SMs each, with other memories
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
        alike = [device, *(TWINS if device in TWINS else ())]
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
