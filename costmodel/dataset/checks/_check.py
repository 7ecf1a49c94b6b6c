"""What a check is given, the records of one workload in all files, and what it gives: findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset.table._candidates import Candidates
from costmodel.dataset.table._dataset import make_categorical
from costmodel.dataset.table._records import Records
from costmodel.records._workload import Workload

MOST_EXAMPLES = 3


class Severity(StrEnum):
    """Severity of a finding, from the most to the least severe.

    An error would enter the dataset and teach something false. A warning means that something is missing or
    was left out. A note means that something was recognised and corrected.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong with a file, or worth knowing about it.

    Attributes:
        kind: Kind of finding, such as ``unit`` or ``partial space``.
        severity: How severe the finding is.
        concerns: The file, device or workload concerned; there may be several.
        count: Number of entries, configs, records or tasks; the message says which.
        message: What must hold, what was found, and what to do.
        examples: A few of those counted.
    """

    kind: str
    severity: Severity
    concerns: str
    count: int
    message: str
    examples: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, str, str]:
        """Return the sort key: severity (the most severe first), then kind and what is concerned."""
        return list(Severity).index(self.severity), self.kind, self.concerns


def pick_examples(texts: list[str]) -> tuple[str, ...]:
    """Return the first few as examples."""
    return tuple(texts[:MOST_EXAMPLES])


@dataclass(frozen=True, eq=False)
class WorkloadRecords:
    """The n records of one workload.

    Attributes:
        workload: What was measured.
        files: Paths of the files.
        records: The records, one file after the other.
        file: ``(n,)`` position of each record's file.
    """

    workload: Workload
    files: Sequence[str]
    records: Records
    file: NDArray[np.int64]

    @classmethod
    def of(cls, workload: str, files: Mapping[str, Sequence[Records]]) -> "WorkloadRecords":
        """Return what each file holds of a workload, by its name."""
        parts = [part for held in files.values() for part in held]
        lengths = [sum(map(len, held)) for held in files.values()]
        return cls(
            Workload.parse(workload),
            list(files),
            Records.concat(parts),
            np.repeat(np.arange(len(files)), lengths),
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a record.

        Columns: ``file`` (its path), ``device`` and ``platform`` (names), ``candidate`` (a number for each
        distinct id), ``place`` (position of the platform), ``visit``, ``alone`` (no co-runners) and
        ``latency_s`` (median of its repeats, inf unless ok). The index is the position of the record.
        """
        records = self.records
        ids = pd.factorize(np.asarray(records.candidates["candidate_id"].to_pandas()))[0]
        platforms = records.platforms
        return pd.DataFrame(
            {
                "file": make_categorical(self.file, self.files),
                "device": make_categorical(records.platform, [each.device.name for each in platforms]),
                "platform": make_categorical(records.platform, [each.name for each in platforms]),
                "candidate": ids[records.candidate],
                "place": records.platform,
                "visit": records.rows["visit"].to_numpy(),
                "alone": records.alone,
                "latency_s": records.latency_s,
            }
        )

    @cached_property
    def working(self) -> pd.DataFrame:
        """The rows of kernels that worked, and had the device or their part of it for themselves."""
        working: pd.DataFrame = self.table[self.table["alone"] & np.isfinite(self.table["latency_s"])]
        return working

    def decisions(self, rows: pd.DataFrame) -> list[str]:
        """Return the config of each of these rows, as a text."""
        candidates = Candidates(self.records.candidates)
        return [str(candidates[at].config.decisions) for at in self.records.candidate[rows.index].tolist()]

    def ids(self, rows: Sequence[int]) -> list[str]:
        """Return the candidate's id of each of these rows, by position."""
        at = self.records.candidate[list(rows)]
        ids: list[str] = self.records.candidates["candidate_id"].take(at).to_pylist()
        return ids
