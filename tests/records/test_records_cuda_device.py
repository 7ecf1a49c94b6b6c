import pytest

from costmodel.records import find_device
from costmodel.records._device_table import CUDA_ATTRIBUTES, cuda_device

pytestmark = pytest.mark.white_box

# What the driver of an H100 says, in the order of CUDA_ATTRIBUTES.
H100 = (1_980_000, 2_619_000, 5120, 52_428_800, 2048, 9, 0, 233_472, 65_536, 32)


def test_a_gpu_described_by_its_driver_is_the_one_of_the_table() -> None:
    name = "NVIDIA H100 80GB HBM3"
    assert cuda_device(name, 132, dict(zip(CUDA_ATTRIBUTES, H100, strict=True))) == find_device(name)


@pytest.mark.parametrize(("major", "lanes"), [(8, 64), (99, 128)])
def test_lanes_are_those_of_the_architecture_or_the_usual_ones(major: int, lanes: int) -> None:
    attributes = dict(zip(CUDA_ATTRIBUTES, H100, strict=True)) | {"COMPUTE_CAPABILITY_MAJOR": major}
    device = cuda_device("X", 8, attributes)
    assert (device.architecture, device.fp32_lanes_per_sm) == (f"sm_{major}0", lanes)
    assert (device.tensor_flops_per_sm_clock == 0) is (major == 99)
