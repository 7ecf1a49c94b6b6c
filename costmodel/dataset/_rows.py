"""The measurements of a dataset file, one batch of rows at a time and exactly as they were recorded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset._parquet import check_file, unreadable
from costmodel.records import Measurement

_BATCH = 512
_CANDIDATE = {"workload", "kind", "dims", "dtype", "candidate_id", "space", "config", "launches"}
_PLATFORM = {"platform_id", "device", "isolation", "sms_requested", "sms_granted", "software"}


def iter_measurements(path: Path) -> Iterator[Measurement]:
    """Every measurement of a dataset, with the launches, device and software of its own row.

    Args:
        path: The dataset's folder, or its parquet file.

    Raises:
        CostModelError: The file is missing, damaged or of another format.
    """
    file = check_file(path)
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            for batch in parquet.iter_batches(_BATCH):
                yield from map(_measurement, batch.to_pylist())
    except (pa.ArrowException, OSError, msgspec.MsgspecError) as error:
        raise unreadable(file, error) from error


def _measurement(row: dict[str, Any]) -> Measurement:
    """The measurement of a row of ``SCHEMA``."""
    said = {name: msgspec.Raw(row[name].encode()) for name in ("dims", "config", "software")}
    candidate = {
        "workload": {"kind": row["kind"], "dims": said["dims"], "dtype": row["dtype"]},
        "space": row["space"],
        "config": {"decisions": said["config"]},
        "launches": row["launches"],
    }
    platform = {name: row[name] for name in ("device", "isolation", "sms_requested", "sms_granted")}
    rest = {name: value for name, value in row.items() if name not in _CANDIDATE | _PLATFORM}
    platform["software"] = said["software"]
    record = msgspec.json.encode({"candidate": candidate, "platform": platform, **rest})
    return msgspec.json.decode(record, type=Measurement)
