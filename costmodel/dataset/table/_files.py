"""The files that hold a dataset's measurements: one, or parts in a folder for each device or workload.

Parts lie as Hive and ``pyarrow.dataset`` know them, ``measurements/device_name=Tesla%20T4/part-0.parquet``; a
key ``device`` would collide with the column of this name. ``SHA256SUMS`` says which parts there are: what a
killed writer left beside them is none. Part 0 is what was built, each later one what was appended at once.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Literal, Self, get_args
from urllib.parse import quote, unquote

from costmodel.arguments import check_path
from costmodel.dataset.table._schema import FILE_NAME, PARTS_NAME
from costmodel.errors import CostModelError, did_you_mean, shorten
from costmodel.files import find_shipped, write_whole
from costmodel.reading import MOST_SETTINGS, is_file, is_folder, read_bytes

SUMS_NAME = "SHA256SUMS"


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Write ``SHA256SUMS`` of these files of the folder, in alphabetical order."""
    _write(folder, {name: hash_file(folder / name) for name in names})


def add_checksums(folder: Path, names: Iterable[str]) -> None:
    """Name more files in ``SHA256SUMS``, or name them anew; what is said of the others stays."""
    _write(folder, {**read_checksums(folder), **{name: hash_file(folder / name) for name in names}})


def check_checksum(folder: Path, name: str) -> None:
    """Compare a file of the folder with ``SHA256SUMS``, if there is one that names it.

    Raises:
        CostModelError: They differ, or the file cannot be read.
    """
    file = folder / name
    try:
        digest = hash_file(file)
    except OSError as error:
        raise CostModelError(f"Cannot read {file}: {error.strerror}. Download or build it again.") from error
    if read_checksums(folder).get(name, digest) != digest:
        raise CostModelError(
            f"{file} must match its checksum in {SUMS_NAME} of {folder}, but does not: it is damaged or was "
            "changed. Download or build it again."
        )


def read_checksums(folder: Path) -> dict[str, str]:
    """Digest of each file that is named."""
    sums = folder / SUMS_NAME
    found = read_bytes(sums, "checksums", most_bytes=MOST_SETTINGS) if is_file(sums) else b""
    lines = found.decode(errors="replace").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _write(folder: Path, sums: Mapping[str, str]) -> None:
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    write_whole(folder / SUMS_NAME, text.encode())


def hash_file(file: Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# The first is used where none is named: small, of one GPU. The others are larger, or of other kernels.
SHIPPED_DATASETS = (
    "h100-sm-budgets",
    "sm-budgets",
    "cuda-sm-budgets",
    "triton-sm-budgets",
    "sparse-sm-budgets",
    "wide-sm-budgets",
    "sampled-sm-budgets",
    "kernels-at-large",
    "serving-sm-budgets",
    "inductor-sm-budgets",
)


def find_dataset(dataset: str | Path | None = None) -> Path:
    """Return the folder or parquet file of a dataset.

    Shipped datasets are in an installed package, and under ``datasets/`` of a source checkout. An existing
    path takes precedence over a shipped dataset of the same name.

    Args:
        dataset: A folder with ``measurements.parquet`` or with parts in ``measurements/``, a parquet file, or
            one of ``SHIPPED_DATASETS``. Default: the first of ``SHIPPED_DATASETS``.

    Raises:
        CostModelError: If no such dataset exists.
    """
    path = check_path("dataset", SHIPPED_DATASETS[0] if dataset is None else dataset)
    if dataset is not None and (is_file(path) or is_dataset_folder(path)):
        return path
    if str(path) in SHIPPED_DATASETS:
        return _shipped(str(path))
    missing = shorten(path / FILE_NAME if is_folder(path) else path)
    raise CostModelError(
        f"A dataset must be a folder with {FILE_NAME}, a parquet file, or the name of a shipped dataset "
        f"({', '.join(SHIPPED_DATASETS)}): {missing} is not there."
        + did_you_mean(str(path), SHIPPED_DATASETS)
    )


def is_dataset_folder(path: Path) -> bool:
    """Tell whether a path is a folder with the measurements of a dataset."""
    return is_file(path / FILE_NAME) or is_folder(path / PARTS_NAME)


def _shipped(name: str) -> Path:
    place = find_shipped("datasets", name)
    if place is None:
        raise CostModelError(
            f"The dataset {name} must be installed, but is not. The larger datasets are in the distribution "
            "sm-costmodel-data: run `pip install ./datasets` in a clone of the repository. The others are "
            "part of the package: install it again."
        )
    return place


Partition = Literal["device", "workload"]
PARTITIONS: tuple[Partition, ...] = get_args(Partition)

_PART = re.compile(rf"{PARTS_NAME}/(?P<by>\w+)_name=(?P<value>[^/]*)/part-(?P<n>\d+)\.parquet")


@dataclass(frozen=True)
class DataFiles:
    """The files of one dataset.

    Attributes:
        folder: Where they and ``SHA256SUMS`` lie.
        path: The one file, or the folder of the parts.
        names: The files, relative to ``folder``, in alphabetical order.
    """

    folder: Path
    path: Path
    names: tuple[str, ...]

    @classmethod
    def of(cls, dataset: str | Path | None) -> Self:
        """Return the files of a dataset, by its name or path.

        Raises:
            CostModelError: It is not there, or nothing says which parts it has.
        """
        place = find_dataset(dataset)
        if is_file(place):
            return cls(place.parent, place, (place.name,))
        parts = tuple(sorted(filter(_PART.fullmatch, read_checksums(place))))
        if parts:
            return cls(place, place / PARTS_NAME, parts)
        if not is_file(place / FILE_NAME):
            raise CostModelError(
                f"{place / SUMS_NAME} must name the parts of the dataset, but names none: it is damaged, or "
                "its build was interrupted. Build it again."
            )
        return cls(place, place / FILE_NAME, (FILE_NAME,))

    @cached_property
    def partition(self) -> Partition | None:
        """What has a folder of its own; None where all is one file."""
        found = _PART.fullmatch(self.names[0])
        return next((by for by in PARTITIONS if found and found["by"] == by), None)

    @property
    def next_number(self) -> int:
        """Number of the parts that are appended next."""
        return 1 + max(int(found["n"]) for found in map(_PART.fullmatch, self.names) if found)

    @property
    def sha256(self) -> str:
        """SHA-256 of the one file; of parts, of the lines of ``SHA256SUMS`` that name them."""
        if self.partition is None:
            return hash_file(self.path)
        sums = read_checksums(self.folder)
        lines = "".join(f"{sums[name]}  {name}\n" for name in self.names)
        return hashlib.sha256(lines.encode()).hexdigest()

    def checked(self, name: str) -> Path:
        """One of the files, once it is known to be the one that ``SHA256SUMS`` names.

        Raises:
            CostModelError: It is not.
        """
        check_checksum(self.folder, name)
        return self.folder / name

    def beside_each_other(
        self, workloads: Collection[str] | None, devices: Collection[str] | None
    ) -> Iterator[tuple[str, ...]]:
        """Yield files that may share workloads; those of one partition by workload share none with others.

        Args:
            workloads: Names of the workloads that are needed; all if None.
            devices: Names of the devices that are needed; all if None.
        """
        if self.partition is None:
            yield self.names
            return
        needed = devices if self.partition == "device" else workloads
        names = [name for name in self.names if needed is None or _value(name) in needed]
        if self.partition == "device":
            yield tuple(names)
            return
        for _, same in groupby(sorted(names, key=lambda name: (_value(name), name)), key=_value):
            yield tuple(same)


def part_name(by: Partition, value: str, number: int) -> str:
    """Path of a part in its dataset's folder."""
    return f"{PARTS_NAME}/{by}_name={quote(value, safe='')}/part-{number}.parquet"


def remove_other_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of measurements that a dataset's folder has besides these."""
    parts = folder.glob(f"{PARTS_NAME}/*_name=*/part-*.parquet")
    for name in {FILE_NAME, *(str(part.relative_to(folder)) for part in parts)} - set(names):
        (folder / name).unlink(missing_ok=True)


def hash_dataset(dataset: str | Path | None) -> str:
    """Return the SHA-256 of a dataset's measurements, 64 hexadecimal digits; see ``DataFiles.sha256``."""
    return DataFiles.of(dataset).sha256


def _value(name: str) -> str:
    """Return the device or workload that a part is of."""
    found = _PART.fullmatch(name)
    assert found
    return unquote(found["value"])
