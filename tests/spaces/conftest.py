import pytest

from costmodel.spaces import Pool
from costmodel.testing import gpu_landscape, landscape_platform

WORKLOAD = "matmul-m512-n512-k512"


@pytest.fixture(scope="session")
def pool() -> Pool:
    """Kernels of one workload of the landscape on 32 SMs."""
    platform = landscape_platform(32)
    records = gpu_landscape(sms=(32,), workloads=(WORKLOAD,)).to_measurements()
    return Pool([m.candidate for m in records], platform)
