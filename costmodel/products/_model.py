"""A model of matrix products: rates of a GPU, and trees that correct what follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.learners._complete_trees import ArrayModel, are_trees, walk_trees
from costmodel.products._columns import COLUMNS, KIND_PLACES, kernel_columns
from costmodel.products._core import Rates, time_terms
from costmodel.products._product import OPERAND_BYTES, Kernel, Product, check_product
from costmodel.records._device_table import find_among

SHIPPED = Path(__file__).with_name("model.npz")
H200 = "NVIDIA H200"  # where most was measured
_MAKE_IT = "Make it with experiments/products/fit.sh."


class Predicted(NamedTuple):
    """Seconds, each ``(n,)``: expected, and the ends of the 90 % interval."""

    seconds: FloatArray
    low_s: FloatArray
    high_s: FloatArray


@dataclass(frozen=True, eq=False)
class ProductModel(ArrayModel):
    """Seconds of kernels of products on a number of SMs.

    Attributes:
        devices: ``(d,)`` names of the GPUs that are known.
        sms: ``(d,)`` SMs of each.
        rates: ``(d, len(OPERAND_BYTES), len(Rates._fields))``.
        splits: Trees, see ``walk_trees``, over ``COLUMNS``; their sum is the log of the seconds over the
            analytic ones.
        thresholds: Likewise.
        leaves: Likewise.
        spread: ``(len(KIND_PLACES), 2)`` 5th and 95th percentile of the log of measured over predicted
            seconds, on products that were held out, by kind of kernel.
    """

    what = "a model of products"
    remedy = _MAKE_IT

    devices: NDArray[Any]
    sms: NDArray[Any]
    rates: NDArray[Any]
    splits: NDArray[Any]
    thresholds: NDArray[Any]
    leaves: NDArray[Any]
    spread: NDArray[Any]

    def __post_init__(self) -> None:
        """Check that the arrays fit one another.

        Raises:
            CostModelError: They do not.
        """
        count = len(self.devices)
        fits = (
            self.sms.shape == (count,)
            and self.rates.shape == (count, len(OPERAND_BYTES), len(Rates._fields))
            and are_trees(self.splits, self.thresholds, self.leaves, len(COLUMNS))
            and self.spread.shape == (len(KIND_PLACES), 2)
        )
        if not fits or not all(np.isfinite(each).all() for each in (self.rates, self.spread)):
            raise CostModelError(
                f"The arrays of a model of products must fit one another, but do not. {_MAKE_IT}"
            )

    def place_of(self, device: str) -> int:
        """Position of a device, by its name as drivers or people write it.

        Raises:
            CostModelError: It is unknown.
        """
        known: list[str] = self.devices.tolist()
        if device not in known:
            what = f"one whose products were measured ({', '.join(known)})"
            return known.index(find_among(device, known, what))
        return known.index(device)

    def predict(
        self,
        product: Product,
        kernels: Sequence[Kernel],
        sms: int,
        device: str,
        *,
        sizes_known: bool = False,
    ) -> Predicted:
        """Return the seconds of kernels of one product; a kernel's do not depend on the others.

        Args:
            product: The product.
            kernels: Kernels that compute it.
            sms: SMs that are granted, at most the device's.
            device: Name of the device.
            sizes_known: Whether Triton's kernels have the sizes compiled in, and so know of all alignment.

        Raises:
            CostModelError: The device is unknown, or has fewer SMs.
        """
        place = self.place_of(device)
        whole = int(self.sms[place])
        if not 1 <= sms <= whole:
            raise CostModelError(f"The SMs must be 1 to {whole}, all that {device} has, but got {sms}.")
        rates = Rates(*self.rates[place, list(OPERAND_BYTES).index(product.dtype)].tolist())
        terms = time_terms(product, kernels, sms, rates, whole)
        X = kernel_columns(product, kernels, sms, terms, sizes_known=sizes_known)
        log_s = np.log(terms[:, 0]) + walk_trees(X, self.splits, self.thresholds, self.leaves)
        spread = self.spread[[KIND_PLACES[kernel[:2]] for kernel in kernels]]
        seconds, (low, high) = np.exp(log_s), np.exp(log_s[:, None] + spread).T
        return Predicted(seconds, low, high)


@cache
def shipped_products() -> ProductModel:
    """Return the model that comes with the package."""
    return ProductModel.load(SHIPPED)


def predict_seconds(
    product: Product,
    kernels: Sequence[Kernel],
    sms: int,
    device: str = H200,
    *,
    sizes_known: bool = False,
) -> FloatArray:
    """Return the seconds that kernels of one product are expected to take, ``(n,)``.

    Args:
        product: The product.
        kernels: Kernels that compute it.
        sms: SMs that are granted.
        device: Name of the device.
        sizes_known: Whether Triton's kernels have the sizes compiled in, and so know of all alignment.

    Raises:
        CostModelError: The product is none, the device is unknown, or it has fewer SMs.

    Example:
        >>> kernels = [Kernel("torch"), Kernel("triton", "plain", 64, 64, 64, 4, 4)]
        >>> predict_seconds(Product(64, 4096, 4096), kernels, sms=32).shape
        (2,)
    """
    return (
        shipped_products()
        .predict(check_product(product), kernels, sms, device, sizes_known=sizes_known)
        .seconds
    )


def meant_gpu(name: str) -> str:
    """Return the name of a GPU whose products were measured where a name may mean one; else the name.

    Of several devices that people call alike, such as an H100, that is the one that predictions know best.

    Example:
        >>> meant_gpu("h100"), meant_gpu("H100 PCIe"), meant_gpu("A100")
        ('NVIDIA H100 80GB HBM3', 'H100 PCIe', 'A100')
    """
    known: list[str] = shipped_products().devices.tolist()
    try:
        return find_among(name, known, "measured")
    except CostModelError:
        return name
