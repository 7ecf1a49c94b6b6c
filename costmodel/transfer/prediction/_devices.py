"""The device to predict for, and the kernels that cannot run on it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.decoding import convert
from costmodel.errors import CostModelError
from costmodel.kernels.metaschedule._estimate import estimate_launches
from costmodel.products._model import meant_gpu
from costmodel.reading import read_toml, refusing
from costmodel.records._candidate import Candidate, config_batches
from costmodel.records._device_table import find_among, find_device
from costmodel.records._platform import Device

# Spaces of MetaSchedule are called by what runs their kernels; such kernels run on nothing else.
_SPACES = {"metaschedule-cuda": "cuda", "metaschedule-cpu": "cpu"}


NEVER_MEASURED = "never measured on this device"


class UnmeasuredDeviceWarning(UserWarning):
    """The model has no measurements of the device that it predicts for."""


def device_named(name: str | None, learned: Sequence[Device]) -> Device:
    """A device by its name: one that was learned from, else one of the table that ships.

    Args:
        name: Its name or alias; None for the only one that was learned from.
        learned: The devices that were learned from.

    Raises:
        CostModelError: No device has this name, or none is named and the model knows none or several.
    """
    by_name = {device.name: device for device in learned}
    if name is None:
        if len(by_name) != 1:
            raise CostModelError(
                "The device must be named if a model learned from several devices or from none, but no name "
                f"was given. This one learned from {', '.join(by_name) or 'none'}."
            )
        return learned[0]
    with suppress(CostModelError):
        return by_name[find_among(name, by_name, "one that was learned from")]
    try:
        return find_device(meant_gpu(name))
    except CostModelError as error:
        raise CostModelError(
            f"{error} You can describe your own device as a table [device] in a TOML file for `--own`, or "
            "as a `costmodel.Device`."
        ) from None


def read_device(path: Path, name: str | None = None) -> Device:
    """A device of one's own.

    Args:
        path: TOML file with a table ``[device]`` that has the fields of ``Device``, or with a list of
            ``[[devices]]`` as in ``costmodel/records/devices.toml``.
        name: Which of the list.

    Raises:
        CostModelError: The file cannot be read, or describes no such device.
    """
    what = "a TOML file with a table [device]"
    described: dict[str, Any] = read_toml(path, dict[str, Any], what)
    if "devices" in described and name is not None:
        return find_device(name, path)
    remedy = f"Its fields are {', '.join(Device.__struct_fields__)}; those after clock_mhz may be left out."
    with refusing(path, what, remedy, form="toml"):
        device: Device = convert(described.get("device", {}), Device)
    if device.sms < 1 or not device.clock_mhz > 0:
        raise CostModelError(
            f"{path}: [device] must have sms and clock_mhz above 0, but got {device.sms} and "
            f"{device.clock_mhz}."
        )
    return device


def outdone(device: Device, learned: Sequence[Device]) -> list[Device]:
    """Those of the devices learned from that are better in nothing, as far as is known, than this one."""
    return [
        each
        for each in learned
        if each.kind == device.kind
        and all(own >= other for own, other in zip(_means(device), _means(each), strict=True))
    ]


def refusals(candidates: Sequence[Candidate], device: Device, learned: Sequence[Device]) -> list[str]:
    """Why each kernel cannot run on a device; empty for one that can, as far as is known.

    Args:
        candidates: The kernels.
        device: Where they would run.
        learned: Devices that were learned from: kernels that no space's name tells of run on their kinds.
    """
    kinds: set[str] = {each.kind for each in learned}
    found = [_refused_by_kind(candidate, device, kinds) for candidate in candidates]
    for rows, batch in config_batches(candidates):
        launches = estimate_launches(batch)
        shared, threads = (
            np.nan_to_num(launches[fact]).max(axis=1) for fact in ("shared_bytes", "threads_per_block")
        )
        for row, needed, block in zip(rows, shared, threads, strict=True):
            found[row] = found[row] or _refused_by_size(needed, block, device)
    return found


def _means(device: Device) -> tuple[float, ...]:
    """Return what makes kernels fast, the more the faster; 0 where it is unknown."""
    clocks = device.sms * device.clock_mhz
    return (
        device.sms,
        clocks * device.fp32_lanes_per_sm,
        clocks * device.tensor_flops_per_sm_clock,
        device.bandwidth_gb_s,
        device.l2_bytes,
        device.shared_bytes_per_sm,
        device.registers_per_sm,
        device.max_threads_per_sm,
    )


def _refused_by_kind(candidate: Candidate, device: Device, learned: set[str]) -> str:
    kind = next((kind for space, kind in _SPACES.items() if candidate.space.startswith(space)), None)
    kinds = {kind} if kind else learned
    if not kinds or device.kind in kinds:
        return ""
    return f"kernels of {' or '.join(sorted(kinds))} cannot run on {device.name}, which runs {device.kind}"


def _refused_by_size(shared_bytes: float, threads: float, device: Device) -> str:
    if device.kind == "cpu":
        return ""
    if 0 < device.shared_bytes_per_sm < shared_bytes:
        return (
            f"needs {shared_bytes / 1024:.0f} KiB of shared memory, and an SM of {device.name} has "
            f"{device.shared_bytes_per_sm / 1024:.0f} KiB"
        )
    if 1 < device.max_threads_per_sm < threads:
        return f"needs {threads:.0f} threads, and an SM of {device.name} holds {device.max_threads_per_sm}"
    return ""
