"""A dataset's files are written: with the same bytes each time, whole or not at all."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq

from costmodel.dataset.table._files import Partition, part_name
from costmodel.dataset.table._records import Records
from costmodel.dataset.table._schema import DATA_SCHEMA, FILE_NAME, SCHEMA, has_data_facts, narrow, widen
from costmodel.files import replacing
from costmodel.threads import SecondThread

GROUP_ROWS = 16_384  # of the groups of rows in a file; read at once, too
_SETTINGS = {"compression": "zstd", "compression_level": 12, "write_page_checksum": True}


class _Groups:
    """Writes groups of rows into a file, all with the columns ``DATA_SCHEMA`` once any of them needs these.

    Args:
        file: The file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rest = Records.concat([])
        self._has_data_facts = False
        self._writer = pq.ParquetWriter(file, SCHEMA, **_SETTINGS)

    def add(self, part: Records) -> None:
        """Write the groups that a part fills."""
        rest = Records.concat([self._rest, part]) if len(self._rest) else part
        whole = len(rest) - len(rest) % GROUP_ROWS
        for start in range(0, whole, GROUP_ROWS):
            self._write(rest.slice(start, GROUP_ROWS).table())
        self._rest = rest.slice(whole)

    def finish(self) -> None:
        """Write the last group."""
        self._write(self._rest.table())

    def close(self) -> None:
        """Nothing more is written."""
        self._writer.close()

    def _write(self, table: Any) -> None:
        table = narrow(table)
        if has_data_facts(table) and not self._has_data_facts:
            self._begin_again()
        self._writer.write_table(widen(table) if self._has_data_facts else table)

    def _begin_again(self) -> None:
        """Write what is written once more, with the columns ``DATA_SCHEMA``."""
        self._writer.close()
        self._has_data_facts = True
        with self._file.open("rb") as written:
            self._file.unlink()  # what is open can be read on
            self._writer = pq.ParquetWriter(self._file, DATA_SCHEMA, **_SETTINGS)
            groups = pq.ParquetFile(written)
            for group in range(groups.num_row_groups):
                self._writer.write_table(widen(groups.read_row_group(group)))


@contextmanager
def write_parquet(file: Path) -> Iterator[Callable[[Records], None]]:
    """Write measurements in parts, one after the other; the file is there once all of them are, if any.

    A part is written on a thread while the next one is made: packing it leaves Python free.
    The same rows give the same bytes with the same release of pyarrow, however they are cut into parts.
    """
    groups: _Groups | None = None
    beside = SecondThread()

    with ExitStack() as cleanup:

        def write(part: Records) -> None:
            """Begin to write, once the part before is written."""
            nonlocal groups
            if groups is None:
                partial = cleanup.enter_context(replacing(file))
                groups = cleanup.enter_context(closing(_Groups(partial)))
                cleanup.enter_context(beside)
            beside.run(groups.add, part)

        yield write
        if groups is not None:
            beside.wait()
            groups.finish()


class DatasetWriter:
    """Writes measurements into a dataset's folder; the files are there when it is closed without an error.

    Args:
        folder: The folder.
        partition: What has a folder of its own; None for one file.
        number: Number of the parts.

    Attributes:
        names: The files so far, relative to the folder.
    """

    def __init__(self, folder: Path, partition: Partition | None, number: int = 0) -> None:
        self.names: list[str] = []
        self._folder, self._partition, self._number = folder, partition, number
        self._cleanup = ExitStack()
        self._writes: dict[str, Callable[[Records], None]] = {}

    def write(self, records: Records) -> None:
        """Write all measurements of a workload; workloads come in the order of their names."""
        if self._partition == "workload":
            # One after the other, so that thousands of them need no more open files than one.
            for workload, part in records.by_workload():
                with write_parquet(self._named(part_name("workload", workload, self._number))) as write:
                    write(part)
            return
        for name, part in self._parts(records):
            if name not in self._writes:
                self._writes[name] = self._cleanup.enter_context(write_parquet(self._named(name)))
            self._writes[name](part)

    def _parts(self, records: Records) -> Iterator[tuple[str, Records]]:
        """Yield what goes into each file."""
        if self._partition is None:
            yield FILE_NAME, records
            return
        devices = np.array([each.device.name for each in records.platforms], dtype=object)
        for device in np.unique(devices[np.unique(records.platform)]):
            rows = np.flatnonzero((devices == device)[records.platform])
            yield part_name("device", str(device), self._number), records.take(rows)

    def _named(self, name: str) -> Path:
        self.names.append(name)
        return self._folder / name

    def __enter__(self) -> Self:
        self._cleanup.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.__exit__(*error)  # type: ignore[arg-type]
