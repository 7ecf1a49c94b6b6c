"""Which calls a GPU can make, and where intervals of calls are backed by generations that were left out."""

from costmodel.errors import CostModelError
from costmodel.records._library_calls import find_format
from costmodel.records._peak_rates import tensor_flops_with_float32_sums
from costmodel.records._platform import Device, compute_capability
from costmodel.transfer._call_latency import CallModel, spans_of

# The oldest generation that was measured, and so could be left out: Ampere.
_OLDEST = 80
# How far a device may lie beyond all that were measured, as a factor. Of generations that were left out, the
# L40S had 1/2.1 of the bandwidth of all others and the B200 2.2 times their Tensor rate.
_BEYOND = 2
_QUANTITIES = "SMs", "bandwidth", "Tensor rate"


def check_can_make(device: Device, types: str) -> None:
    """Check that a GPU is one of NVIDIA's that can multiply what a call multiplies.

    Args:
        device: The GPU.
        types: Of the call, joined by dots: the first says how it multiplies.

    Raises:
        CostModelError: It is of another vendor, or its Tensor Cores do not know the type.
    """
    if device.kind != "cuda":
        raise CostModelError(
            f"Calls are predicted on NVIDIA GPUs alone, but got {device.name}: other vendors have other "
            "libraries, and what was learned does not hold there."
        )
    name = types.split(".", maxsplit=1)[0]
    least = find_format(name).least_capability
    if compute_capability(device.architecture) < least:
        raise CostModelError(
            f"A GPU that multiplies {name} must be of sm_{least} or later, but got {device.name}, of "
            f"{device.architecture or 'an architecture that is not told'}."
        )


def why_no_interval(model: CallModel, group: str, device: Device) -> str:
    """Tell why no interval holds for calls of a group on a device; empty if generations left out back it."""
    if compute_capability(device.architecture) < _OLDEST:
        return "no GPU before Ampere was measured"
    if tensor_flops_with_float32_sums(device) < device.tensor_flops_per_sm_clock:
        return "no GeForce was measured, whose Tensor Cores have half of their rate with sums in float32"
    for name, value, (least, most) in zip(_QUANTITIES, spans_of(device), model.spans.tolist(), strict=True):
        if value < least / _BEYOND:
            return f"it has less than 1/{_BEYOND} of the {name} of any GPU that was measured"
        if value > most * _BEYOND:
            return f"it has more than {_BEYOND} times the {name} of any GPU that was measured"
    if model.generations[model.groups.tolist().index(group)] < 2:
        return "these types were measured on one generation alone"
    return ""
