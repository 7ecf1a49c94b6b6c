import pytest

from costmodel.errors import CostModelError
from costmodel.records import Device
from costmodel.records._platform import part_of

pytestmark = pytest.mark.white_box

GPU = Device("Test GPU", "cuda", "sm_90", 132, 1980.0)
UNKNOWN = Device("Unknown", "cuda", "", 0, 0.0)
CPU = Device("Test CPU", "cpu", "x86_64", 8, 3000.0)


@pytest.mark.parametrize(
    ("device", "sms", "name"),
    [
        (GPU, None, "Test GPU/whole/132"),
        (GPU, 132, "Test GPU/whole/132"),
        (GPU, 32, "Test GPU/green_context/32"),
        (GPU, 1, "Test GPU/green_context/1"),
        (CPU, 2, "Test CPU/threads/2"),
        (UNKNOWN, 16, "Unknown/green_context/16"),
        (UNKNOWN, None, "Unknown/whole/0"),
        (UNKNOWN, 0, "Unknown/whole/0"),
    ],
)
def test_the_part_is_set_apart_as_its_kind_of_device_can(device: Device, sms: int | None, name: str) -> None:
    part = part_of(device, sms)
    assert part.name == name
    assert part.sms_requested == part.sms_granted
    assert part.software == {}


@pytest.mark.parametrize("sms", [0, -1, 133])
def test_more_or_fewer_than_a_device_has_are_refused(sms: int) -> None:
    with pytest.raises(
        CostModelError, match=f"sms of Test GPU must be a whole number from 1 to 132, but got {sms}"
    ):
        part_of(GPU, sms)


def test_fewer_than_none_of_an_unknown_number_are_refused() -> None:
    with pytest.raises(
        CostModelError, match="sms of Unknown must be a whole number of at least 1, but got -1"
    ):
        part_of(UNKNOWN, -1)
