"""Cache files of Kernel Tuner, plain or gzipped: every config of one kernel measured on one device."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec

from costmodel.dataset.importers._base import Format, InputFile, ReadOptions
from costmodel.dataset.importers._entry import EntryError
from costmodel.dataset.importers._exported import KEY, records_behind
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._source import Reject, Repair, Source
from costmodel.dataset.importers.kernel_tuner._entry import Space, read_entry, repairs
from costmodel.dataset.importers.kernel_tuner._shown import show_entry
from costmodel.errors import CostModelError
from costmodel.records import Device, DeviceKind, Measurement, Platform, Workload, content_id, find_device

_AMD = re.compile(r"AMD|Radeon|Instinct|\bMI\d|\bW\d{4}\b")


_Size = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class _Cache(msgspec.Struct):
    """The fields of a cache that are read; entries are checked one by one."""

    device_name: str
    kernel_name: str
    problem_size: Annotated[list[_Size], msgspec.Meta(min_length=1, max_length=3)] | _Size
    tune_params_keys: list[str]
    tune_params: dict[str, list[int | float | str | bool]]
    cache: dict[str, Any]


class _OwnCache(msgspec.Struct):
    """The fields that are read of a cache that we exported: its entries have their records with them."""

    tune_params_keys: list[str]
    cache: dict[str, Any]


def read_cache(file: InputFile, _: ReadOptions) -> Source:
    """Read a cache. Entries that cannot be believed are rejected with a reason; none is left out silently.

    The device is the one that the file names, or the file's own name where it names none, with the figures of
    the table of devices where it is there. The platform's software says the file and its checksum, so that
    each row can be traced to its entry: its key lists the values of the row's config. A file that our export
    wrote gives the records that it was made of.

    Raises:
        CostModelError: The file is no cache.
    """
    path, (document, closed) = file.path, file.document
    origin = Origin.of(path)
    try:
        if KEY in document:
            own = msgspec.convert(document, _OwnCache)
            return Source.of(path, _own_records(own, origin))
        cache = msgspec.convert(document, _Cache)
        space = _space(cache, path, origin)
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise CostModelError(f"{path} must be a cache file of Kernel Tuner, but: {error}.") from None
    configs = {space.workload.name: len(cache.cache)}
    return Source.of(path, _entries(cache, space, origin), configs, closed=closed)


def _entries(cache: _Cache, space: Space, origin: Origin) -> Iterator[Measurement | Reject | Repair]:
    for key, entry in cache.cache.items():
        try:
            yield read_entry(space, key, entry)
        except EntryError as error:
            yield origin.reject(str(error), {key: entry})
        else:
            yield from map(Repair, repairs(entry))
    if not cache.device_name.strip():
        name = space.platform.device.name
        yield Repair(f"device_name is empty, and {name} is from the file's name", len(cache.cache))


def _own_records(cache: _OwnCache, origin: Origin) -> Iterator[Measurement | Reject]:
    show = partial(show_entry, cache.tune_params_keys)
    for key, entry in cache.cache.items():
        try:
            yield from records_behind(entry, show)
        except EntryError as error:
            yield origin.reject(str(error), {key: entry})


def _space(cache: _Cache, path: Path, origin: Origin) -> Space:
    """What all entries share.

    The kind of the kernel carries a hash of its parameters' names and fixed values: two kernels of one name
    in two suites are not the same. Values that vary do not enter, as they may be restricted on a device.

    Raises:
        ValueError: The cache contradicts itself.
    """
    names = cache.tune_params_keys
    if sorted(names) != sorted(cache.tune_params) or len(set(names)) < len(names):
        raise ValueError("tune_params must have the names of tune_params_keys, each once")
    parameters = {name: cache.tune_params[name] for name in names}
    fixed = {name: str(values[0]) if len(values) == 1 else None for name, values in parameters.items()}
    identity = content_id(cache.kernel_name, fixed)[:6]
    kernel = re.sub(r"\W+", "_", cache.kernel_name, flags=re.ASCII) or "kernel"
    sizes = cache.problem_size if isinstance(cache.problem_size, list) else [cache.problem_size]
    workload = Workload(f"kernel_tuner.{kernel}.{identity}", dict(zip("xyz", sizes, strict=False)), "")
    name = cache.device_name.strip() or path.name.partition(".")[0]
    device = _device(name)
    software = {"kernel_tuner_cache": origin.text}
    return Space(
        workload,
        f"kernel_tuner-{identity}",
        parameters,
        Platform(device, "whole", device.sms, device.sms, software),
    )


def _device(name: str) -> Device:
    """The device of this name in the table of devices; else the name is all that is known."""
    try:
        return find_device(name)
    except CostModelError:
        kind: DeviceKind = "hip" if _AMD.search(name) else "cuda"
        return Device(name, kind, architecture="", sms=0, clock_mhz=0.0)


# A gzipped file that begins as none of ours is told as a damaged cache: others are rarely gzipped.
KERNEL_TUNER = Format("cache of Kernel Tuner", lambda file, _: file.is_document or file.packed, read_cache)
