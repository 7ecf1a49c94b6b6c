"""What physics says of predicted latencies where no measurement holds them in check.

None is below what the hardware allows. On a device that was never measured, real or made up, they are carried
over from one that was, and none rises with SMs.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._peak_rates import least_latency_s
from costmodel.records._platform import Device, Platform, part_of
from costmodel.records._workload import Workload
from costmodel.transfer._carry import Spread, carry_over

# SMs that green contexts are granted by, and fewer, as MPS grants them.
_STEP, _FEW = 8, (1, 2, 4)
# Sources whose kernels may round float32 to TF32.
_TF32 = ("triton", "library")
SECONDS = ("latency_s", "low_s", "high_s")

Predictions = Mapping[str, FloatArray]
# What a model says of kernels, each on the platform at its place.
Predict = Callable[[Sequence[Candidate], Sequence[Platform]], Predictions]


def budget_grid(device: Device) -> list[int]:
    """Numbers of SMs, ascending: every eighth, some fewer than that, and the whole device."""
    return sorted({*(sms for sms in _FEW if sms < device.sms), *range(_STEP, device.sms, _STEP), device.sms})


def least_latencies(candidates: Sequence[Candidate], platforms: Sequence[Platform]) -> FloatArray:
    """``(n,)`` seconds below which no kernel can be, each on the platform at its position.

    See ``least_latency_s``; a kernel of Triton or of the library may round float32 to TF32.
    """
    found: dict[tuple[Workload, Device, int, bool], float] = {}
    asked = [
        (candidate.workload, platform.device, platform.sms_granted, candidate.source in _TF32)
        for candidate, platform in zip(candidates, platforms, strict=True)
    ]
    for workload, device, sms, is_tf32 in dict.fromkeys(asked):
        found[workload, device, sms, is_tf32] = least_latency_s(workload, device, sms, is_tf32=is_tf32)
    return np.array([found[each] for each in asked])


def without_rises(
    predict: Predict, candidates: Sequence[Candidate], platforms: Sequence[Platform]
) -> dict[str, FloatArray]:
    """``(n,)`` latencies and scores that do not rise with SMs, nearest to a model's in the square of the log.

    Isotonic regression of each kernel over ``budget_grid`` (Barlow et al., "Statistical Inference under Order
    Restrictions", 1972), whichever budgets are asked for, so that those asked for apart agree too; between
    them the log latency is linear in the log of the number of SMs. Intervals move with their latency, and the
    score is -log latency.

    Args:
        predict: The model, which tells ``latency_s``.
        candidates: n kernels.
        platforms: Where: parts of one device, of which it is known how many SMs it has.
    """
    from scipy.optimize import isotonic_regression

    device = platforms[0].device
    grid, kernels = budget_grid(device), {each.candidate_id: each for each in candidates}
    parts = [part_of(device, sms) for sms in grid]
    said = predict([each for each in kernels.values() for _ in parts], parts * len(kernels))
    log_s = {name: np.log(said[name]).reshape(-1, len(grid)) for name in SECONDS if name in said}
    fitted = [isotonic_regression(row, increasing=False).x for row in log_s["latency_s"]]
    moved = np.array(fitted) - log_s["latency_s"]
    row = dict(zip(kernels, range(len(kernels)), strict=True))
    rows = np.array([row[each.candidate_id] for each in candidates])
    asked = np.log([platform.sms_granted for platform in platforms])
    place = np.interp(asked, np.log(grid), np.arange(len(grid)))
    found = {name: np.exp(_between(values + moved, rows, place)) for name, values in log_s.items()}
    return {**found, "rank_score": -np.log(found["latency_s"])}


def _between(table: FloatArray, rows: FloatArray, place: FloatArray) -> FloatArray:
    """``(n,)`` values of a table in these rows at these places between its columns, linear between them."""
    left, right = np.floor(place).astype(np.intp), np.ceil(place).astype(np.intp)
    share = place - left
    return np.asarray((1.0 - share) * table[rows, left] + share * table[rows, right])


# Of kernels of sm-budgets, cuda-sm-budgets and triton-sm-budgets that were carried over from each platform to
# each other (experiments/another_gpu).
SPREAD = Spread((0.053, 0.123, 0.67), -2.6, 2.5)


def base_of(device: Device, measured: Sequence[Device]) -> Device | None:
    """Return the device that kernels are carried over from.

    It is what a hypothetical device is made of, or the nearest that was measured, which has the same
    architecture, if one of them has, and whose rates are the least apart. None where the device was measured
    itself, where no device of its kind was, and where its rates are not known.

    Args:
        device: Where kernels are to be predicted.
        measured: Devices that a model learned from.
    """
    if isinstance(device, HypotheticalDevice):
        return device.of
    if device.name in {each.name for each in measured} or not _rates(device):
        return None
    alike = [each for each in measured if each.kind == device.kind and each.sms and _rates(each)]

    def distance(other: Device) -> tuple[bool, float]:
        apart = np.log(_rates(other)) - np.log(_rates(device))
        return other.architecture != device.architecture, float(np.abs(apart).sum())

    return min(alike, key=distance, default=None)


def _rates(device: Device) -> tuple[float, ...]:
    """Rates of the lanes of all SMs and of the memory of a GPU; empty where one is unknown."""
    lanes = device.fp32_lanes_per_sm if device.fp32_lanes_per_sm > 1 and device.kind != "cpu" else 0
    rates = (device.sms * device.clock_mhz * lanes, device.bandwidth_gb_s)
    return rates if all(rates) else ()


def real_part(platform: Platform) -> Platform:
    """Return as many SMs of the real device as a part of a hypothetical one has, or all of it."""
    device = platform.device
    return _part_of_base(platform, device.of) if isinstance(device, HypotheticalDevice) else platform


def _part_of_base(platform: Platform, base: Device) -> Platform:
    return part_of(base, min(platform.sms_granted, base.sms))


def carried_predictions(
    predict: Predict, candidates: Sequence[Candidate], platforms: Sequence[Platform], base: Device
) -> dict[str, FloatArray]:
    """``(n,)`` latencies, scores and intervals that do not rise with SMs or bandwidth.

    On as many SMs as the base has, or fewer, each prediction for a part of it is carried over to the other
    clock, bandwidth, cache and rates, and held so that it does not rise with SMs; from the latency on all of
    its SMs those on more are carried over. To the model's interval comes what such latencies were off by.

    Args:
        predict: The model, of real devices.
        candidates: n kernels.
        platforms: Where: parts of one device that was never measured.
        base: What they are carried over from, see ``base_of``.

    Raises:
        CostModelError: The model predicts no latencies.
    """
    known = [_part_of_base(platform, base) for platform in platforms]
    said = predict(candidates, known)
    if "latency_s" not in said:
        raise CostModelError(
            "A model must predict latencies to tell what a hypothetical device brings, but this one predicts "
            "scores alone. Train one whose learner does."
        )
    device = platforms[0].device
    few = [_granted(device, platform.sms_granted) for platform in known]

    def carried(kernels: Sequence[Candidate], parts: Sequence[Platform]) -> Predictions:
        to = [_granted(device, part.sms_granted) for part in parts]
        return {"latency_s": carry_over(predict(kernels, parts)["latency_s"], kernels, parts, to).latency_s}

    held = without_rises(carried, candidates, known)["latency_s"]
    latency_s = carry_over(held, candidates, few, platforms).latency_s
    distances = carry_over(said["latency_s"], candidates, known, platforms).distances
    own = [np.log(said[name] / said["latency_s"]) for name in ("low_s", "high_s") if name in said]
    ends = [
        latency_s * np.exp(sign * np.hypot(mine, other))
        for sign, mine, other in zip((-1, 1), own, SPREAD.ends(distances), strict=False)
    ]
    intervals = dict(zip(("low_s", "high_s"), ends, strict=False))
    return {"rank_score": -np.log(latency_s), "latency_s": latency_s, **intervals}


def _granted(device: Device, sms: int) -> Platform:
    """So many SMs as if a device had as many, whatever it has."""
    return Platform(device, "green_context", sms, sms)
