"""Append a campaign to a partitioned dataset."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from costmodel.dataset._build import BuildReport, keep_rejects, make_report, write_papers
from costmodel.dataset.checks._examine import check_not_empty, examine
from costmodel.dataset.checks._sieve import Validation
from costmodel.dataset.publish._card import read_held_header
from costmodel.dataset.publish._describe import Describer
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.table._files import DataFiles, add_checksums, remove_other_files
from costmodel.dataset.table._read import Track, show_nothing
from costmodel.dataset.table._write import DatasetWriter
from costmodel.errors import CostModelError

_LOCK_NAME = ".append.lock"


def append_dataset(
    dataset: str | Path,
    files: Sequence[Path],
    *,
    options: ReadOptions | None = None,
    track: Track = show_nothing,
) -> BuildReport:
    """Append a campaign to a partitioned dataset, as one more part per device or workload measured.

    Existing parts are not rewritten; only the card is. The new measurements are checked against the existing
    ones: duplicates are dropped, and measurements that contradict existing ones go to ``rejects-<number of
    the part>.jsonl``. The new parts take effect once ``SHA256SUMS`` names them. If the process is killed
    before that, the dataset is unchanged; if it is killed afterwards, only the card is out of date.

    Args:
        dataset: Name or path of a dataset that was built with ``partition_by``.
        files: Files to append, as for ``build_dataset``.
        options: Information that files of other programs do not contain.
        track: Reports progress. Default: no report.

    Raises:
        CostModelError: If the dataset is not partitioned, another process is appending to it, a file cannot
            be read, no record can enter, or the folder cannot be written.
    """
    there = DataFiles.of(dataset)
    if there.partition is None:
        raise CostModelError(
            f"Only a dataset in parts can be appended to, but {there.path} is one file. Build it with "
            "--partition-by, or merge it with the campaign into a new dataset."
        )
    folder = there.folder
    try:
        with FileLock(folder / _LOCK_NAME, timeout=0):
            return _append(DataFiles.of(folder), sorted(files), options, track)
    except Timeout:
        raise CostModelError(
            f"Only one process at a time may append to {folder}, but another one is appending. Wait until "
            "it has finished."
        ) from None
    except OSError as error:
        raise CostModelError(f"Cannot write dataset {folder}: {error.strerror}.") from error


def _append(
    there: DataFiles, files: Sequence[Path], options: ReadOptions | None, track: Track
) -> BuildReport:
    folder, number = there.folder, there.next_number
    header = read_held_header(folder)
    remove_other_files(folder, there.names)  # of a process that was killed
    with DatasetWriter(folder, there.partition, number) as writer:

        def take(validation: Validation) -> None:
            if validation.new.any():
                writer.write(validation.accepted.take(np.flatnonzero(validation.new)))

        examination = examine(files, options, there=folder, on_workload=take, track=track)
        if not examination.duplicates:
            check_not_empty(examination)
    keep_rejects(examination, folder / f"rejects-{number}.jsonl")
    add_checksums(folder, writer.names)
    papers = write_papers(Describer.of(folder, track), header, folder, there.partition)
    add_checksums(folder, papers)
    return make_report(examination, folder)
