"""What is expected of kernels of a product, by the model that comes with the package."""

from collections.abc import Sequence

from costmodel.arrays import FloatArray
from costmodel.products._model import shipped_products
from costmodel.products._product import Kernel, Product, check_product

H200 = "NVIDIA H200"  # measured; of an H100 are known bandwidth and L2 alone


def predict_seconds(product: Product, kernels: Sequence[Kernel], sms: int, device: str = H200) -> FloatArray:
    """Return the seconds that kernels of one product are expected to take, ``(n,)``.

    Args:
        product: The product.
        kernels: Kernels that compute it.
        sms: SMs that are granted.
        device: Name of the device.

    Raises:
        CostModelError: The product is none, the device is unknown, or it has fewer SMs.

    Example:
        >>> kernels = [Kernel("torch"), Kernel("triton", "plain", 64, 64, 64, 4, 4)]
        >>> predict_seconds(Product(64, 4096, 4096), kernels, sms=32).shape
        (2,)
    """
    return shipped_products().predict(check_product(product), kernels, sms, device).seconds
