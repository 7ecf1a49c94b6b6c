"""The measurements of a dataset file, one batch of rows at a time and exactly as they were recorded."""

from collections.abc import Iterator
from typing import Any

import msgspec

from costmodel.dataset._track import Track, untracked
from costmodel.dataset.table._arrow import SCALARS, candidate_of_row, platform_of_row
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._locate import parquet_file
from costmodel.dataset.table._parquet import DatasetLike, iter_batches, open_parquet, unreadable
from costmodel.records import Candidate, Measurement, Platform

_FIELDS = (*SCALARS, "latencies_s", "resources", "before", "after", "co_runners", "schema_version")


def iter_measurements(dataset: DatasetLike | None, track: Track = untracked) -> Iterator[Measurement]:
    """Every measurement of a dataset, with the launches, device and software of its own row.

    Args:
        dataset: The dataset, its name or its path; see ``load_dataset``.
        track: Shows how far it is.

    Raises:
        CostModelError: The file is missing, damaged or of another format.
    """
    if isinstance(dataset, Dataset):
        yield from dataset.to_measurements()
        return
    with open_parquet(dataset) as file:
        for batch in iter_batches(file, track):
            try:
                yield from map(_RowReader().read, batch.to_pylist())
            except msgspec.MsgspecError as error:
                raise unreadable(parquet_file(dataset), error) from error


class _RowReader:
    """Rows of tables that fit ``SCHEMA`` back to measurements, the inverse of ``to_table``.

    Rows that share a candidate, or a platform and its software, share one object.
    """

    def __init__(self) -> None:
        self._candidates: dict[tuple[str, str], Candidate] = {}
        self._platforms: dict[tuple[str, str, int], Platform] = {}

    def read(self, row: dict[str, Any]) -> Measurement:
        """The measurement of one row, as ``Table.to_pylist`` gives it.

        Raises:
            msgspec.ValidationError: The row holds what no measurement can.
        """
        software = msgspec.json.decode(row["software"], type=dict[str, str])
        fields = {name: row[name] for name in _FIELDS} | {
            "candidate": self._candidate(row),
            "platform": self._platform(row, software),
        }
        return msgspec.convert(fields, Measurement)

    def _candidate(self, row: dict[str, Any]) -> Candidate:
        key = row["candidate_id"], str(row["launches"])
        if key not in self._candidates:
            self._candidates[key] = candidate_of_row(row)
        return self._candidates[key]

    def _platform(self, row: dict[str, Any], software: dict[str, str]) -> Platform:
        key = row["platform_id"], row["software"], row["sms_requested"]
        if key not in self._platforms:
            self._platforms[key] = msgspec.structs.replace(platform_of_row(row), software=software)
        return self._platforms[key]
