"""Kernels on devices that were made up: what a model says of the real one, carried over."""

from collections.abc import Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._platform import Device, Platform, part_of
from costmodel.transfer.hardware._carry import carry_over
from costmodel.transfer.hardware._spread import Spread
from costmodel.transfer.prediction._monotone import Predict, Predictions, without_rises

# Of kernels of sm-budgets, cuda-sm-budgets and triton-sm-budgets that were carried over from each platform to
# each other (experiments/another_gpu).
SPREAD = Spread((0.053, 0.123, 0.67), -2.6, 2.5)


def known_part(platform: Platform) -> Platform:
    """Where a kernel on a platform is carried over from: as many SMs of the real device, or all that it has.

    It is the platform itself if its device is real.
    """
    device = platform.device
    if not isinstance(device, HypotheticalDevice):
        return platform
    return part_of(device.of, min(platform.sms_granted, device.of.sms))


def carried_predictions(
    predict: Predict, candidates: Sequence[Candidate], platforms: Sequence[Platform]
) -> dict[str, FloatArray]:
    """``(n,)`` latencies, scores and intervals that do not rise with SMs or bandwidth.

    On as many SMs as the real device has, or fewer, each prediction for a part of it is carried over to the
    other clock, bandwidth, cache and rates, and held so that it does not rise with SMs; from the latency on
    all of its SMs those on more are carried over. To the model's interval comes what such latencies were off
    by.

    Args:
        predict: The model, of real devices.
        candidates: n kernels.
        platforms: Where: parts of one hypothetical device.

    Raises:
        CostModelError: The model predicts no latencies.
    """
    known = [known_part(platform) for platform in platforms]
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
