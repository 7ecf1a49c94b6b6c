"""The task of an auto_scheduler record: what was measured, and what its target says of where."""

import json
import re
from functools import lru_cache
from typing import Any

from costmodel.dataset.importers._entry import EntryError
from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._identity import content_id
from costmodel.records._platform import Device, DeviceKind, Platform
from costmodel.records._workload import Workload

_KINDS: dict[str, DeviceKind] = {"cuda": "cuda", "rocm": "hip", "hip": "hip", "llvm": "cpu", "c": "cpu"}
_ATTRIBUTE = re.compile(r"-([\w-]+)=(\S+)")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@lru_cache(maxsize=4096)
def workload_of_key(key: str) -> Workload:
    """The foreign kernel of a workload key, which is JSON: a function's name or a hash, then its arguments.

    Positive integers among the arguments are its sizes, with letters in order. All else enters its kind, so
    that two keys are never one workload.

    Raises:
        EntryError: It is no such key.
    """
    try:
        parts = json.loads(key)
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], str):
        raise EntryError("a workload key must be a JSON list that begins with a name or a hash")
    sizes: list[int] = []
    rest = _without_sizes(parts, sizes)
    if len(sizes) > len(_LETTERS):
        sizes, rest = [], parts
    name = re.sub(r"\W+", "_", parts[0], flags=re.ASCII) or "kernel"
    kind = f"auto_scheduler.{name}.{content_id(rest)[:6]}"
    return Workload(kind, dict(zip(_LETTERS, sizes, strict=False)), "")


def _without_sizes(value: Any, sizes: list[int]) -> Any:
    """The value with 1 in place of positive integers, which are put behind ``sizes``."""
    if isinstance(value, list):
        return [_without_sizes(each, sizes) for each in value]
    if type(value) is int and 1 <= value < 2**53:
        sizes.append(value)
        return 1
    return value


def device_kind(target: str) -> DeviceKind:
    """The kind of device that a target such as ``cuda -keys=cuda,gpu -model=t4`` is for.

    Raises:
        EntryError: It is another.
    """
    kind, *_ = target.split() or [""]
    if kind not in _KINDS:
        raise EntryError(f"a target must begin with one of {', '.join(_KINDS)}")
    return _KINDS[kind]


@lru_cache(maxsize=4096)
def platform_of_target(target: str, cores: int) -> Platform | None:
    """The whole device that a target names by its ``model`` or, of a CPU, ``mcpu``; None where it names none.

    Args:
        target: The target.
        cores: Of a CPU, the threads that the kernel could use, as the record has it; 0 where it has not.

    Raises:
        EntryError: It is for another kind of device.
    """
    kind = device_kind(target)
    said: dict[str, str] = dict(_ATTRIBUTE.findall(target))
    model = said.get("model", "unknown")
    if kind == "cpu" and model == "unknown":
        model = said.get("mcpu", "unknown")
    if model == "unknown":
        return None
    try:
        device = find_device(model)
    except CostModelError:
        sms = cores if kind == "cpu" else 0
        device = Device(model, kind, said.get("arch", said.get("mcpu", "")), max(0, sms), clock_mhz=0.0)
    return Platform(device, "whole", device.sms, device.sms, {"tvm_target": target})
