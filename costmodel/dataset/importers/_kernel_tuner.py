"""Cache files of Kernel Tuner, plain or gzipped: every config of one kernel measured on one device."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec

from costmodel.dataset.importers._kernel_tuner_entries import (
    SM_PERCENTAGE,
    TunedKernel,
    overheads,
    read_entry,
    repairs,
    show_entry,
)
from costmodel.dataset.sources._base import (
    SUFFIX,
    InputFile,
    MeasuredOn,
    PlatformFile,
    ReadOptions,
    Size,
    add_software,
    find_named_device,
    find_platform_file,
    locate,
)
from costmodel.dataset.sources._document import Document
from costmodel.dataset.sources._entry import (
    KEY,
    EntryError,
    read_attached_records,
)
from costmodel.dataset.sources._source import Entry, FileContents, Origin, Overhead, Reject, Repair
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform


class _Cache(msgspec.Struct):
    """The fields of a cache that are read, but for its entries."""

    device_name: str
    kernel_name: str
    tune_params_keys: list[str]
    tune_params: dict[str, list[int | float | str | bool]]
    problem_size: (
        Size | str | Annotated[tuple[Size | str, ...], msgspec.Meta(min_length=1, max_length=3)] | None
    ) = None


class _OwnCache(msgspec.Struct):
    """The fields that are read of a cache that we exported: its entries have their records with them."""

    tune_params_keys: list[str]


def read_kernel_tuner(file: InputFile, options: ReadOptions) -> FileContents:
    """Read a cache. Entries that cannot be believed are rejected with a reason; none is left out silently.

    The device is that of the platform file beside it; else the one that the cache names, or the file's own
    name where it names none. Its figures are those of the table of devices, or of the platform file of the
    options where that describes this device. The platform's software says the file and its checksum, so that
    each row can be traced to its entry: its key lists the values of the row's config. A file that our export
    wrote gives the records that it was made of.

    Raises:
        CostModelError: The file is no cache.
    """
    path, document = file.path, file.document
    origin = Origin.of(path)
    try:
        if "cache" not in document.counts:
            raise ValueError("it must have an object `cache`")
        if KEY in document:
            own = msgspec.convert(document.fields, _OwnCache)
            return FileContents.of(path, _own_records(own, document, origin))
        cache = msgspec.convert(document.fields, _Cache)
        found = find_platform_file(path, options.platform)
        where = _locate(cache.device_name.strip(), path, found)
        kernel = _kernel(cache, _problem_size(cache, path, found, options), where.platform, origin)
    except UNDECODABLE as error:
        raise CostModelError(f"{path} must be a cache file of Kernel Tuner, but: {error}.") from None
    count = document.counts["cache"]
    entries = chain(_entries(document, kernel, origin), where.repairs(count))
    covered = {} if SM_PERCENTAGE in kernel.parameters else {kernel.workload.name: count}
    return FileContents.of(path, entries, covered, closed=document.closed)


def _entries(document: Document, kernel: TunedKernel, origin: Origin) -> Iterator[Entry]:
    for key, entry in document.entries("cache"):
        try:
            yield (measurement := read_entry(kernel, key, entry))
        except EntryError as error:
            yield origin.reject(str(error), {key: entry})
        else:
            yield from map(Repair, repairs(entry))
            yield from map(Overhead, overheads(entry, measurement.latencies_s))


def _own_records(cache: _OwnCache, document: Document, origin: Origin) -> Iterator[Measurement | Reject]:
    show = partial(show_entry, cache.tune_params_keys)
    for key, entry in document.entries("cache"):
        try:
            yield from read_attached_records(entry, show)
        except EntryError as error:
            yield origin.reject(str(error), {key: entry})


def _kernel(cache: _Cache, sizes: Sequence[int], where: Platform, origin: Origin) -> TunedKernel:
    """Return what all entries share.

    Raises:
        ValueError: The cache contradicts itself.
    """
    names = cache.tune_params_keys
    if sorted(names) != sorted(cache.tune_params) or len(set(names)) < len(names):
        raise ValueError("tune_params must contain each name of tune_params_keys once")
    parameters = {name: cache.tune_params[name] for name in names}
    platform = add_software(where, {"kernel_tuner_cache": origin.text})
    return TunedKernel.of(cache.kernel_name, parameters, sizes, platform)


def _locate(said: str, path: Path, found: PlatformFile | None) -> MeasuredOn:
    """Find the platform of a cache that names this device, or of the file's name where that is empty."""
    if said:
        return locate(find_named_device(said), said, found)
    name = path.name.partition(".")[0]
    device = find_named_device(name)
    if found is None:
        whole = Platform(device, "whole", device.sms, device.sms)
        return MeasuredOn(whole, f"device_name is empty, and {device.name} is from the file's name")
    return MeasuredOn(found.platform) if found.is_beside or not device.sms else locate(device, name, found)


def _problem_size(
    cache: _Cache, path: Path, found: PlatformFile | None, options: ReadOptions
) -> tuple[int, ...]:
    """Return the sizes that the cache says, or else its platform file, or else the options.

    Kernel Tuner writes "callable" for a function, and expressions of the parameters as they are.

    Raises:
        CostModelError: Nothing says them.
    """
    said = cache.problem_size
    each = () if said is None else said if isinstance(said, tuple) else (said,)
    known = tuple(size for size in each if isinstance(size, int))
    sizes = known if len(known) == len(each) else ()
    sizes = sizes or (found.problem_size if found else ()) or options.problem_size
    if not sizes:
        got = f"says {said!r}" if each else "does not"
        raise CostModelError(
            f"{path} must contain its problem_size in numbers, but {got}. Give `--problem-size 4096,4096`, x "
            f"first, or write `problem_size = [4096, 4096]` into {path.name}{SUFFIX} next to it."
        )
    return sizes
