"""Where a model is asked about and a runner measures, and the TVM target that kernels are made for."""

import json
from typing import Any

from costmodel.collector.runners._devices import CpuRunner, CudaRunner
from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.kernels.metaschedule._choices import plain_json
from costmodel.records._device_table import find_device
from costmodel.records._platform import Platform, TargetKind, part_of

RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}
_KINDS: dict[str, TargetKind] = {"cuda": "cuda", "llvm": "cpu"}


def local_platform(kind: TargetKind, sms: int | None = None) -> Platform:
    """Return the platform with ``sms`` SMs of this machine's device, opening the device in a process.

    This takes seconds.

    Args:
        kind: Kind of device.
        sms: Number of SMs (threads on a CPU). Default: the whole device.

    Raises:
        CostModelError: If there is no such device, or it cannot grant this number of SMs.
    """
    try:
        runner = RUNNERS[kind](build_workers=1)
    except DeviceUnavailableError as error:
        raise CostModelError(
            f"The platform must be known, but no {kind} device can be opened here. Name one: "
            f"platform=named_platform('NVIDIA H100 80GB HBM3', sms=32). ({error})"
        ) from error
    with runner:
        return runner.platform(sms)


def platform_for(target: Any, sms: int | None = None) -> Platform:
    """The platform of this machine that a TVM target is for.

    Raises:
        CostModelError: The target is for no kind of device that is known, or ``local_platform`` finds none.
    """
    kind = target_kind(target)
    if kind is None:
        raise CostModelError(
            "The target must be of kind cuda or llvm so that its device can be found, but got "
            f"{target.kind.name}. Give the platform."
        )
    return local_platform(kind, sms)


def refuse_other_sms(sms: int | None, platform: Platform | None) -> None:
    """Refuse SMs that are not those of the platform beside which they are given.

    Raises:
        CostModelError: They are not.
    """
    if sms is not None and platform is not None and sms != platform.sms_granted:
        raise CostModelError(
            f"sms must be left out if a platform is given, which has {platform.sms_granted}, but got {sms}."
        )


def named_platform(device: str, sms: int | None = None) -> Platform:
    """Return a platform on a named device, which need not be in this machine.

    Args:
        device: Name of a device; ``costmodel devices`` lists them.
        sms: Number of SMs of a green context (threads on a CPU). Default: the whole device.

    Raises:
        CostModelError: If no device has this name, or it has fewer SMs.
    """
    return part_of(find_device(device), sms)


def target_kind(target: Any) -> TargetKind | None:
    """Kind of device of a TVM target; None for one that no runner of ours can measure on."""
    return _KINDS.get(str(target.kind.name))


def target_json(target: Any) -> str:
    """Canonical JSON of a target's fields, from which ``tvm.target.Target`` can be made again."""
    return json.dumps(plain_json(target.export()), sort_keys=True)


def drop_host(target: str) -> str:
    """The canonical JSON without the host: kernels of a device are the same whoever launches them."""
    fields = json.loads(target)
    fields.pop("host", None)
    return json.dumps(fields, sort_keys=True)
