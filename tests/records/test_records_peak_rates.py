import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import CostModelError
from costmodel.records import Device, find_device
from costmodel.records._peak_rates import peak_rates

pytestmark = pytest.mark.white_box

H100 = find_device("H100 SXM")


def test_rates_of_a_part_by_hand() -> None:
    part = peak_rates(H100, 32)
    assert part.sms == 32
    assert part.fp32_tflops == pytest.approx(32 * 128 * 2 * 1.98e9 / 1e12)
    assert part.tensor_tflops == pytest.approx(32 * 4096 * 1.98e9 / 1e12)
    assert part.bandwidth_gb_s == 3352.3


@given(st.integers(1, H100.sms))
def test_arithmetic_follows_the_granted_sms_and_the_memory_is_shared(sms: int) -> None:
    part, whole = peak_rates(H100, sms), peak_rates(H100)
    share = sms / H100.sms
    assert part.fp32_tflops == pytest.approx(share * whole.fp32_tflops)
    assert part.tensor_tflops == pytest.approx(share * whole.tensor_tflops)
    assert part.bandwidth_gb_s == whole.bandwidth_gb_s


def test_unknown_rates_stay_unknown() -> None:
    rates = peak_rates(Device("GPU", "cuda", "sm_90", sms=2, clock_mhz=1000.0))
    assert rates.tensor_tflops == rates.bandwidth_gb_s == 0


@pytest.mark.parametrize("sms", [-1, 0, 133])
def test_more_or_fewer_sms_than_there_are_is_refused(sms: int) -> None:
    with pytest.raises(CostModelError, match=f"must be a whole number from 1 to 132, but got {sms}"):
        peak_rates(H100, sms)
