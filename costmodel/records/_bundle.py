"""Carries measurements from one store to another: into an image, or from many machines into one database.

A bundle is a record store of its own: a file whose lines have checksums.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from costmodel.errors import CostModelError
from costmodel.reading import exists
from costmodel.records._line_file import LineFile, rewrite_lines
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform
from costmodel.records._store import SharedRecordStore, encode_measurement, read_records


class Imported(NamedTuple):
    """What became of the measurements of a bundle.

    Attributes:
        added: Number of those that are new in the store.
        known: Number of those that the store had.
        places: Number of measurements by device and versions, see ``describe_place``.
    """

    added: int
    known: int
    places: Mapping[str, int]


def export_bundle(
    store: Path | str,
    bundle: Path | str,
    *,
    device: str | None = None,
    kernel: str | None = None,
    software: Mapping[str, str] | None = None,
) -> Sequence[Measurement]:
    """Write the measurements of a store that meet all criteria to a bundle, which must be new.

    Args:
        store: The store: a ``.jsonl`` or ``.db`` file, or the URL of a database.
        bundle: The file, ``.jsonl``.
        device: Name of the device, or a part of it.
        kernel: Name of the workload or of its kind; ``*`` stands for any letters.
        software: Versions that they were made with, such as ``{"driver": "580.159"}``.

    Returns:
        What the bundle has.

    Raises:
        CostModelError: If the store cannot be read, nothing in it meets the criteria, or the bundle exists or
            cannot be written.

    Example:
        >>> export_bundle("timings.jsonl", "h100.jsonl", device="H100")  # doctest: +SKIP
    """
    path = Path(bundle)
    if path.suffix != ".jsonl" or exists(path):
        raise CostModelError(f"A bundle must be a new .jsonl file, but got {path}. Name another.")
    found = [
        each
        for each in read_records(store)
        if (device is None or device.lower() in each.platform.device.name.lower())
        and (kernel is None or _is_of(each, kernel))
        and all(each.platform.software.get(name) == value for name, value in (software or {}).items())
    ]
    if not found:
        raise CostModelError(f"Some measurement of {store} must meet all criteria, but none does.")
    LineFile(path, "bundle").create()
    rewrite_lines(path, [encode_measurement(each) for each in found])
    return found


def import_bundle(bundle: Path | str, store: Path | str) -> Imported:
    """Add the measurements of a bundle to a store, each once however often it is imported.

    A measurement of the same config on the same part of a device that the store has otherwise, such as with
    another driver, stays: that of the bundle is then a further visit. Whoever reads the store compares only
    what can be compared.

    Args:
        bundle: The file, or another store.
        store: The store: a ``.jsonl`` or ``.db`` file, or the URL of a database. Made if it is not there.

    Raises:
        CostModelError: If the bundle is not whole or of another version, or the store cannot be written.
    """
    measurements = _read_whole(bundle)
    kept = SharedRecordStore(store)
    kept.refresh()
    new: dict[str, Measurement] = {}
    for each in measurements:
        if (placed := _as_new(each, kept, new)) is not None:
            new[placed.key] = placed
    kept.add(new.values())
    places = Counter(describe_place(each.platform) for each in measurements)
    return Imported(len(new), len(measurements) - len(new), places)


def describe_place(platform: Platform) -> str:
    """Return the device and the versions with which a measurement was made, in a line."""
    versions = [f"{name} {version}" for name, version in sorted(platform.software.items())]
    return ", ".join([platform.device.name, *versions])


def _is_of(measurement: Measurement, kernel: str) -> bool:
    workload = measurement.candidate.workload
    return any(fnmatchcase(name, kernel) for name in (workload.name, workload.kind))


def _read_whole(bundle: Path | str) -> list[Measurement]:
    """Read a bundle to its end.

    Raises:
        CostModelError: Its last line is torn, as where a copy was cut short.
    """
    measurements = list(read_records(bundle))
    path = Path(bundle)
    if exists(path) and path.suffix == ".jsonl":
        lines = path.read_bytes().count(b"\n")
        if lines != len(measurements) or not path.read_bytes().endswith(b"\n"):
            raise CostModelError(
                f"The bundle {path} must be whole, but only {len(measurements)} of its lines are. Copy it "
                "again."
            )
    return measurements


def _as_new(
    measurement: Measurement, store: SharedRecordStore, new: Mapping[str, Measurement]
) -> Measurement | None:
    """Return a measurement under a visit that is free in the store; None where the store has it."""
    for visit in count(measurement.visit):
        placed = replace(measurement, visit=visit)
        known = store.get(placed.key) or new.get(placed.key)
        if known is None:
            return placed
        if replace(known, visit=measurement.visit) == measurement:
            return None
    raise AssertionError
