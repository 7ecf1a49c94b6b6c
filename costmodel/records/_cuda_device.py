"""A GPU as the CUDA driver describes it."""

from collections.abc import Mapping

from costmodel.records._device_table import known_architectures
from costmodel.records._platform import Device

# What is asked of the driver: attributes by their names behind ``CU_DEVICE_ATTRIBUTE_``.
CUDA_ATTRIBUTES = (
    "CLOCK_RATE",
    "MEMORY_CLOCK_RATE",
    "GLOBAL_MEMORY_BUS_WIDTH",
    "L2_CACHE_SIZE",
    "MAX_THREADS_PER_MULTIPROCESSOR",
    "COMPUTE_CAPABILITY_MAJOR",
    "COMPUTE_CAPABILITY_MINOR",
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "MAX_BLOCKS_PER_MULTIPROCESSOR",
)
# float32 lanes of an SM of an architecture that the table of devices lacks: those of each since Ampere but
# the A100's.
_USUAL_LANES = 128


def cuda_device(name: str, sms: int, attributes: Mapping[str, int]) -> Device:
    """A GPU as its driver describes it.

    Args:
        name: Its name.
        sms: SMs of the whole device.
        attributes: Values of ``CUDA_ATTRIBUTES``.

    Example:
        >>> h100 = (1_980_000, 2_619_000, 5120, 52_428_800, 2048, 9, 0, 233_472, 65_536, 32)
        >>> cuda_device("H100", 132, dict(zip(CUDA_ATTRIBUTES, h100))).bandwidth_gb_s
        3352.3
    """
    architecture = f"sm_{attributes['COMPUTE_CAPABILITY_MAJOR']}{attributes['COMPUTE_CAPABILITY_MINOR']}"
    known = known_architectures().get(architecture)
    # Two transfers a clock: the attributes give the memory's clock (kHz) and bus width (bits).
    bytes_per_s = 2 * attributes["MEMORY_CLOCK_RATE"] * 1e3 * attributes["GLOBAL_MEMORY_BUS_WIDTH"] / 8
    return Device(
        name=name,
        kind="cuda",
        architecture=architecture,
        sms=sms,
        clock_mhz=attributes["CLOCK_RATE"] / 1e3,
        bandwidth_gb_s=round(bytes_per_s / 1e9, 1),
        l2_bytes=attributes["L2_CACHE_SIZE"],
        shared_bytes_per_sm=attributes["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"],
        registers_per_sm=attributes["MAX_REGISTERS_PER_MULTIPROCESSOR"],
        max_threads_per_sm=attributes["MAX_THREADS_PER_MULTIPROCESSOR"],
        max_blocks_per_sm=attributes["MAX_BLOCKS_PER_MULTIPROCESSOR"],
        fp32_lanes_per_sm=known.fp32_lanes_per_sm if known else _USUAL_LANES,
        tensor_flops_per_sm_clock=known.tensor_flops_per_sm_clock if known else 0,
    )
