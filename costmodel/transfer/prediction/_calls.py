"""What a library's call takes on a GPU, in each framework that is known to make it.

Calls are predicted where a GPU can make them, with intervals where generations that were left out back them.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from costmodel.errors import CostModelError
from costmodel.reading import read_json
from costmodel.records._library_calls import CALL_KINDS, MAY_BE_ZERO, CallWork, find_format
from costmodel.records._peak_rates import tensor_flops_with_float32_sums
from costmodel.records._platform import Device, compute_capability
from costmodel.records._workload import Workload
from costmodel.transfer._call_latency import CallModel, LibraryCalls, shipped_call_models, spans_of
from costmodel.transfer.prediction._lane_products import is_lane_product, predict_lane_product

# Products of ours are calls, too.
_SUITE, _OURS = "aiconfigurator", {"float16": "bfloat16"}
_LANES = "cublas"  # computes products in float32 on lanes
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
    _check_vendor(device)
    name = types.split(".", maxsplit=1)[0]
    least = find_format(name).least_capability
    if compute_capability(device.architecture) < least:
        raise CostModelError(
            f"A GPU that multiplies {name} must be of sm_{least} or later, but got {device.name}, of "
            f"{device.architecture or 'an architecture that is not told'}."
        )


def _check_vendor(device: Device) -> None:
    if device.kind != "cuda":
        raise CostModelError(
            f"Calls are predicted on NVIDIA GPUs alone, but got {device.name}: other vendors have other "
            "libraries, and what was learned does not hold there."
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


class CallPrediction(NamedTuple):
    """What a call takes in a framework.

    Attributes:
        framework: Its name.
        latency_s: Seconds, the median.
        low_s: Lower end of a 90 % interval; None if none is known to hold.
        high_s: Upper end.
        note: Why there is no interval; empty if there is one.
    """

    framework: str
    latency_s: float
    low_s: float | None
    high_s: float | None
    note: str = ""


class MeasuredCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that was measured.

    Attributes:
        call: Its workload.
        framework: In which framework.
        latency_s: Seconds.
    """

    call: str
    framework: str
    latency_s: Annotated[float, msgspec.Meta(gt=0.0, lt=1e6)]


def read_measured_calls(path: Path) -> list[MeasuredCall]:
    """Read measured calls from a JSON list of objects with ``call``, ``framework`` and ``latency_s``.

    Raises:
        CostModelError: The file is none.
    """
    found: list[MeasuredCall] = read_json(path, list[MeasuredCall], "a list of measured calls")
    return found


def is_call(workload: Workload) -> bool:
    """Tell whether a workload is a call whose latency the shipped models know."""
    return _name_parts(workload)[0] in CALL_KINDS or is_lane_product(workload)


def predict_call(
    workload: Workload, device: Device, measured: Sequence[MeasuredCall] = ()
) -> list[CallPrediction]:
    """Predict a call on all SMs of a GPU, the fastest framework first.

    Args:
        workload: The call, such as ``aiconfigurator.gemm.fp8-m64-n4096-k4096``,
            ``matmul-m64-n4096-k4096-float16`` or, on lanes, ``matmul-m512-n4096-k4096``.
        device: The GPU, which may be hypothetical.
        measured: LibraryCalls of this kind that were measured on it, in which framework, and their seconds.

    Raises:
        CostModelError: It is no call, no framework makes it, too little is known of the GPU, or the GPU
            cannot make it.
    """
    if is_lane_product(workload):
        _check_vendor(device)
        return [_predict_on_lanes(workload, device, measured)]
    kind, types = _name_parts(workload)
    if kind not in CALL_KINDS:
        raise CostModelError(
            f"A call must be a product in float16 or float32, or of {', '.join(CALL_KINDS)} "
            f"with its types and sizes as in {_SUITE}.gemm.fp8-m64-n4096-k4096, but got {workload.name}."
        )
    model = shipped_call_models()[kind]
    groups = _groups(model, types)
    if not groups:
        known = sorted({".".join(map(_spell, each.split("|")[1:])) for each in model.groups.tolist()})
        raise CostModelError(f"The types of {kind} must be one of {', '.join(known)}, but got {types}.")
    check_can_make(device, types)
    asked = _calls([(workload, group) for group in groups], kind, device)
    if measured:
        seen = [(Workload.parse(each.call), each.framework) for each in measured]
        pairs = [(each, _group(model, each, framework)) for each, framework in seen]
        seconds = np.array([each.latency_s for each in measured])
        found = model.predict(asked, _calls(pairs, kind, device), seconds)
    else:
        found = model.predict(asked)
    predictions = []
    for group, latency_s, low_s, high_s in zip(
        groups, found.latency_s, found.low_s, found.high_s, strict=True
    ):
        note, framework = why_no_interval(model, group, device), group.split("|")[0]
        low, high = (None, None) if note else (float(low_s), float(high_s))
        predictions.append(CallPrediction(framework, float(latency_s), low, high, note))
    return sorted(predictions, key=lambda each: each.latency_s)


def _predict_on_lanes(workload: Workload, device: Device, measured: Sequence[MeasuredCall]) -> CallPrediction:
    if wrong := [each for each in measured if each.framework != _LANES]:
        raise CostModelError(
            f"A measured product in float32 must be a call of {_LANES}, but got {wrong[0].framework!r}."
        )
    seen = [(Workload.parse(each.call), each.latency_s) for each in measured]
    return CallPrediction(_LANES, *predict_lane_product(workload, device, seen))


def compare_devices(
    workload: Workload, recorded: Device, device: Device
) -> tuple[float, float, float] | None:
    """Return how many times as long a call takes on another GPU: at least, in the median, and at most.

    It is the geometric mean over frameworks. The ends are those of 90 % intervals there. None where one of
    the two has no interval, cannot make the call, or is not known well enough: then other rules tell.
    """
    shipped_call_models()  # a damaged file is told, and no reason to take other rules
    try:
        here, there = (
            {each.framework: each for each in predict_call(workload, where)} for where in (recorded, device)
        )
    except CostModelError:
        return None
    ratios = [
        [math.log(end / here[name].latency_s) for end in (each.low_s, each.latency_s, each.high_s)]
        for name, each in there.items()
        if each.low_s and each.high_s and not here[name].note
    ]
    return tuple(np.exp(np.mean(ratios, axis=0)).tolist()) if ratios else None


def _name_parts(workload: Workload) -> tuple[str, str]:
    """Kind of a call and its types, joined by dots; two empty texts for what is none."""
    if workload.is_foreign:
        suite, _, rest = workload.kind.partition(".")
        kind, _, types = rest.partition(".")
        return (kind, types) if suite == _SUITE else ("", "")
    is_product = workload.kind == "matmul" and workload.dtype in _OURS
    return ("gemm", _OURS[workload.dtype]) if is_product else ("", "")


def _groups(model: CallModel, types: str) -> list[str]:
    """Groups of these types."""
    return [each for each in model.groups.tolist() if ".".join(map(_spell, each.split("|")[1:])) == types]


def _group(model: CallModel, workload: Workload, framework: str) -> str:
    """Return the group of a call in a framework.

    Raises:
        CostModelError: The framework is not known to make it, or it is a call of another kind.
    """
    groups = {each.split("|")[0]: each for each in _groups(model, _name_parts(workload)[1])}
    if framework not in groups:
        raise CostModelError(
            f"{workload.name} must be a call of the kind asked for, in {', '.join(groups) or 'none'}, "
            f"but got {framework!r}."
        )
    return groups[framework]


def _spell(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII)


def _calls(pairs: Iterable[tuple[Workload, str]], kind: str, device: Device) -> LibraryCalls:
    """Make the calls of workloads of one kind, each in a group.

    Raises:
        CostModelError: A size is missing.
    """
    workloads, groups = zip(*pairs, strict=True)
    each = [_work(workload, group, kind) for workload, group in zip(workloads, groups, strict=True)]
    columns = {
        field.name: np.concatenate([getattr(work, field.name) for work in each]) for field in fields(CallWork)
    }
    return LibraryCalls(np.array(groups), CallWork(**columns), device)


def _work(workload: Workload, group: str, kind: str) -> CallWork:
    letters = CALL_KINDS[kind].sizes
    needed = {letter for name, letter in letters.items() if name not in MAY_BE_ZERO}
    if missing := sorted(needed - workload.dims.keys()):
        raise CostModelError(f"{workload.name} must have the sizes {', '.join(missing)}.")
    sizes = {
        name: np.array([workload.dims.get(letter, 0)], dtype=np.float64) for name, letter in letters.items()
    }
    return CALL_KINDS[kind].work(sizes, tuple(group.split("|")[1:]))
