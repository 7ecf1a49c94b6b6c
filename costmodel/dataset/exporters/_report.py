"""Report of an export, and its output folder."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.dataset.importers._spool import RecordSpool
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import exists
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement

_LONGEST_NAME = 120  # a folder's entries may have 255 bytes, and suffixes follow


@dataclass(frozen=True)
class ExportReport:
    """Report of an export.

    Attributes:
        files: Files written.
        measurements: Number of measurements written.
        left_out: Number of measurements that the format cannot represent, by reason.
        lost: What the format cannot represent of the exported measurements; empty if ``dataset build``
            restores everything.
    """

    files: tuple[Path, ...]
    measurements: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    lost: str = ""


def by_task(records: Iterable[Records]) -> Iterator[tuple[str, list[Measurement]]]:
    """The measurements of each workload on each platform, with a name that is fit for a file.

    Memory holds those of one task as objects, and what does not fit is on disk.
    """
    with closing(RecordSpool.of_parts(records)) as spool:
        for workload in sorted(spool.workloads):
            held = spool.of(workload)
            ids = np.array([each.platform_id for each in held.platforms])[held.platform]
            for platform_id in dict.fromkeys(ids.tolist()):
                measurements = list(held.take(np.flatnonzero(ids == platform_id)).measurements())
                yield file_name(workload, measurements[0]), measurements


def file_name(first: str, measurement: Measurement) -> str:
    """``first`` and the platform's name in letters that any file system takes, and a hash of both."""
    platform = measurement.platform
    readable = re.sub(r"[^\w.-]+", "_", f"{first}_{platform.name}", flags=re.ASCII).lstrip("._-")
    return f"{readable[:_LONGEST_NAME]}-{content_id(first, platform.platform_id)[:6]}"


def write_json_file(file: Path, document: Any) -> None:
    """Write JSON at once: the file is there completely, or as it was before."""
    write_whole(file, (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode())


def check_new(out: Path) -> None:
    """Refuse to write over a file.

    Raises:
        CostModelError: There is one.
    """
    if exists(out):
        raise CostModelError(
            f"{out} must be a new file, but it exists already. Move it, or name another file."
        )
