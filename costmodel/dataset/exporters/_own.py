"""Export in our own formats: a record store, or a dataset file without a card. Neither loses anything."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from costmodel.dataset.exporters._report import ExportReport, check_new
from costmodel.dataset.table._records import Records
from costmodel.dataset.table._write import write_parquet
from costmodel.records._store import RecordStore

_BATCH = 1024


def export_records(records: Iterator[Records], out: Path) -> ExportReport:
    """Write a record store, a new ``.jsonl`` file, a batch at a time."""
    check_new(out)
    written = 0
    measurements = chain.from_iterable(part.measurements() for part in records)
    with RecordStore(out) as store:
        while batch := list(islice(measurements, _BATCH)):
            store.append(batch)
            written += len(batch)
    return ExportReport((out,), written)


def export_parquet(records: Iterator[Records], out: Path) -> ExportReport:
    """Write a dataset file, a new one, with the columns of ``costmodel dataset build``."""
    check_new(out)
    written = 0
    with write_parquet(out) as write:
        for part in records:
            write(part)
            written += len(part)
    return ExportReport((out,), written)
