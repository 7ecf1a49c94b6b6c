"""What a number of SMs of a device can do at most."""

from dataclasses import dataclass

from costmodel.errors import CostModelError
from costmodel.records._platform import Device


@dataclass(frozen=True)
class PeakRates:
    """Upper bounds for granted SMs, at the highest clock.

    Attributes:
        sms: The granted SMs.
        fp32_tflops: 1e12 float32 operations a second; a multiply-add counts as two.
        tensor_tflops: The same in float16 on Tensor Cores; 0 where there are none, or it is unknown.
        bandwidth_gb_s: 1e9 bytes a second of device memory; 0 where unknown. It is the whole device's:
            setting SMs apart does not divide the memory, and other SMs draw on it too.
    """

    sms: int
    fp32_tflops: float
    tensor_tflops: float
    bandwidth_gb_s: float


def peak_rates(device: Device, sms: int | None = None) -> PeakRates:
    """Peak rates of ``sms`` SMs of a device, of all if None.

    Raises:
        CostModelError: The device does not have as many SMs.

    Example:
        >>> gpu = Device("A GPU", "cuda", "sm_90", sms=132, clock_mhz=1000.0, fp32_lanes_per_sm=128)
        >>> peak_rates(gpu, 100).fp32_tflops
        25.6
    """
    granted = device.sms if sms is None else sms
    if not 1 <= granted <= device.sms:
        raise CostModelError(f"The SMs must be 1 to {device.sms}, all that {device.name} has, but got {sms}.")
    tera_clocks = granted * device.clock_mhz * 1e6 / 1e12
    return PeakRates(
        sms=granted,
        fp32_tflops=2 * device.fp32_lanes_per_sm * tera_clocks,
        tensor_tflops=device.tensor_flops_per_sm_clock * tera_clocks,
        bandwidth_gb_s=device.bandwidth_gb_s,
    )
