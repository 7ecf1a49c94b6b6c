"""The CUDA runner: an NVIDIA GPU, whole or partitioned by green contexts."""

from importlib.util import find_spec
from typing import Any

from costmodel.collect._tvm_runner import TvmRunner
from costmodel.errors import MissingExtraError


class CudaRunner(TvmRunner):
    """Measures on the first visible NVIDIA GPU; an SM budget is a green context.

    The driver rounds a budget up to what it can grant (on Hopper a multiple of 8); the granted number is
    recorded.

    Raises:
        CostModelError: There is no GPU, or TVM or cuda-bindings is not installed.
    """

    isolation = "green_context"

    def __init__(self, **settings: Any) -> None:
        """Open the GPU; settings are those of ``TvmRunner``."""
        if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
            raise MissingExtraError("Measuring on an NVIDIA GPU", "cuda")
        super().__init__("cuda", **settings)

    def _cannot_open(self, error: Exception) -> str:
        return (
            f"The cuda runner must have an NVIDIA GPU with a driver for CUDA 13, but none can be opened here "
            f"({error}). Use the cpu runner, or replay recorded measurements with `costmodel tune`."
        )
