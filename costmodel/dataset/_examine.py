"""Read files and say what is wrong with them; building a dataset begins with the same."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from costmodel.dataset._finding import Finding
from costmodel.dataset._findings import find
from costmodel.dataset._read import ReadOptions, read_source
from costmodel.dataset._source import Source
from costmodel.dataset._validate import Reject, Validation, validate
from costmodel.errors import CostModelError


@dataclass(frozen=True)
class FileCount:
    """What one file holds.

    Attributes:
        path: The file.
        devices: Names of the devices that it measured.
        records: Its records.
        ok: Those with latencies.
        rejected: Those that its reader rejected.
    """

    path: Path
    devices: tuple[str, ...]
    records: int
    ok: int
    rejected: int


@dataclass(frozen=True)
class Examination:
    """Files, what became of their records, and what is wrong with them.

    Attributes:
        files: What each file holds, in the order in which they were named.
        validation: What became of the records of all files together.
        rejects: What does not enter: of each file, then of all together.
        findings: What to know of the files, the worst first.
    """

    files: tuple[FileCount, ...]
    validation: Validation
    rejects: tuple[Reject, ...]
    findings: tuple[Finding, ...]


def examine(files: Iterable[Path], options: ReadOptions | None = None) -> Examination:
    """Read record stores, datasets and files of other programs, and look for what is wrong with them.

    Args:
        files: The files, or folders of datasets.
        options: What files of other programs do not say.

    Raises:
        CostModelError: A file cannot be read.
    """
    sources = [read_source(file, options) for file in files]
    validation = validate(record for source in sources for record in source.measurements)
    return Examination(
        files=tuple(map(_count, sources)),
        validation=validation,
        rejects=(*(reject for source in sources for reject in source.rejects), *validation.rejects),
        findings=find(sources, validation),
    )


def write_rejects(rejects: Iterable[Reject], file: Path) -> None:
    """Write one ``{"reason": ..., "record": ...}`` a line.

    Raises:
        CostModelError: The file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.Encoder().encode_lines(rejects))
    except OSError as error:
        raise CostModelError(f"Cannot write {file}: {error.strerror}.") from error


def _count(source: Source) -> FileCount:
    return FileCount(
        path=source.path,
        devices=tuple(sorted({record.platform.device.name for record in source.measurements})),
        records=len(source.measurements) + len(source.rejects),
        ok=sum(bool(record.latencies_s) for record in source.measurements),
        rejected=len(source.rejects),
    )
