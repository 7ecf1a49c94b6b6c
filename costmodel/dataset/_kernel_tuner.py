"""Cache files of Kernel Tuner, plain or gzipped: every config of one kernel measured on one device."""

import gzip
import json
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from costmodel.dataset._checksums import sha256_of
from costmodel.dataset._kernel_tuner_entry import EntryError, Space, read_entry, repairs
from costmodel.dataset._source import Source
from costmodel.dataset._validate import Reject
from costmodel.errors import CostModelError
from costmodel.records import Device, Platform, Workload, content_id

_GZIP = b"\x1f\x8b"
# Several times the largest public cache. A small file can unpack to any size.
_MOST_BYTES = 128 * 2**20
# Half of a character beyond the first 65,536, which no encoder takes.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
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


def is_kernel_tuner_cache(head: bytes) -> bool:
    """Whether a file that begins with these bytes can be a cache, and no record store."""
    first_key = re.match(rb'\s*\{\s*"(\w+)"', head)
    return head.startswith(_GZIP) or bool(first_key and first_key[1] != b"crc32")


def read_kernel_tuner_cache(path: Path, *, most_bytes: int = _MOST_BYTES) -> Source:
    """Read a cache. Entries that cannot be believed are rejected with a reason; none is left out silently.

    The device is the one that the file names, or the file's own name where it names none. The platform's
    software says the file and its checksum, so that each row can be traced to its entry: its key lists the
    values of the row's config.

    Args:
        path: The file.
        most_bytes: Refuse to unpack more.

    Raises:
        CostModelError: The file cannot be read or is no cache.
    """
    try:
        sha256 = sha256_of(path)
        with path.open("rb") as file:
            text = _unpack(file, most_bytes)
        document, closed = _parse(text)
        cache = msgspec.convert(document, _Cache)
        space = _space(cache, path, sha256)
    except (OSError, EOFError, zlib.error) as error:
        raise CostModelError(f"Cannot read cache {path}: {error}. Copy the file again.") from None
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise CostModelError(f"{path} must be a cache file of Kernel Tuner, but: {error}.") from None
    return _read_entries(cache, space, path, sha256, closed)


def _read_entries(cache: _Cache, space: Space, path: Path, sha256: str, closed: bool) -> Source:
    measurements, rejects, repaired = [], [], Counter[str]()
    for key, entry in cache.cache.items():
        try:
            measurements.append(read_entry(space, key, entry))
            repaired.update(repairs(entry))
        except EntryError as error:
            record = {"file": path.name, "sha256": sha256, "entry": json.dumps({key: entry})}
            rejects.append(Reject(str(error), record))
    if not cache.device_name.strip():
        repaired[f"device_name is empty, and {space.platform.device.name} is from the file's name"] = len(
            cache.cache
        )
    configs = {space.workload.name: len(cache.cache)}
    return Source(path, measurements, rejects, configs, repaired, closed)


def _unpack(file: BinaryIO, most_bytes: int) -> str:
    packed = file.read(2) == _GZIP
    file.seek(0)
    data = (gzip.GzipFile(fileobj=file) if packed else file).read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"a cache must have at most {most_bytes:,} bytes unpacked, and this has more")
    return data.decode()


def _parse(text: str) -> tuple[Any, bool]:
    """The document, and whether it was closed.

    Kernel Tuner closes a cache only when tuning ends; what was written until then counts.
    """
    if _SURROGATE.search(text):
        raise ValueError("characters must not be escaped by halves")
    try:
        return json.loads(text, object_pairs_hook=_object), True
    except json.JSONDecodeError:
        return json.loads(text.rstrip().removesuffix(",") + "}}", object_pairs_hook=_object), False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which no key may be lost."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _space(cache: _Cache, path: Path, sha256: str) -> Space:
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
    # The cache does not say more of its device.
    device = Device(name, "hip" if _AMD.search(name) else "cuda", architecture="", sms=0, clock_mhz=0.0)
    software = {"kernel_tuner_cache": f"{path.name} sha256:{sha256[:16]}"}
    return Space(workload, f"kernel_tuner-{identity}", parameters, Platform(device, "whole", 0, 0, software))
