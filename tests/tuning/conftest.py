import pytest

from costmodel.spaces import Pool
from costmodel.testing import gpu_landscape, landscape_platform

WORKLOAD = "matmul-m512-n512-k512"


@pytest.fixture(scope="session")
def records():
    dataset = gpu_landscape(seed=5, workloads=[WORKLOAD], configs_per_workload=60, sms=(32, 132))
    return dataset.to_measurements()


@pytest.fixture(scope="session")
def pool(records):
    platform = landscape_platform(32)
    return Pool([m.candidate for m in records if m.platform == platform], platform)
