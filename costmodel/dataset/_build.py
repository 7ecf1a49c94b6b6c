"""Build a published dataset, or append to one: data, card with pictures, checksums, rejects."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from costmodel.arguments import check_kind, check_path, check_paths
from costmodel.dataset.checks._check import Finding
from costmodel.dataset.checks._examine import Examination, check_not_empty, examine, write_rejects
from costmodel.dataset.checks._sieve import SORTED_OUT_KINDS, Validation
from costmodel.dataset.importers._read import is_dataset
from costmodel.dataset.publish._card import (
    HEADER_NAME,
    CardHeader,
    read_held_header,
    render_card,
    write_held_header,
)
from costmodel.dataset.publish._describe import Describer
from costmodel.dataset.publish._plots import write_plots
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._files import (
    SUMS_NAME,
    DataFiles,
    Partition,
    add_checksums,
    find_dataset,
    hash_dataset,
    is_dataset_folder,
    remove_other_files,
    write_checksums,
)
from costmodel.dataset.table._parquet import DatasetWriter
from costmodel.dataset.table._read import DatasetLike, Track, check_dataset, show_nothing
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import exists
from costmodel.report._page import markdown_page

CARD_NAME = "README.md"
PAGE_NAME = "card.html"


@dataclass(frozen=True)
class BuildReport:
    """Report of a dataset build.

    Attributes:
        path: Folder of the dataset.
        sha256: Hash of the dataset's measurements, see ``hash_dataset``.
        records: Number of records read.
        measurements: Number of rows written.
        duplicates: Number of records dropped because an equal record was already present.
        rejects: Number of records rejected, by reason.
        findings: Other findings about the files, the most severe first. Rejects and duplicates are counted
            above.
    """

    path: Path
    sha256: str
    records: int
    measurements: int
    duplicates: int
    rejects: dict[str, int]
    findings: tuple[Finding, ...] = ()


REJECTS_NAME = "rejects.jsonl"


def build_dataset(  # noqa: PLR0913 (one argument a knob)
    files: Sequence[Path | str] | Path | str,
    out: Path | str,
    *,
    header: CardHeader,
    options: ReadOptions | None = None,
    partition_by: Partition | None = None,
    force: bool = False,
    track: Track = show_nothing,
) -> BuildReport:
    """Build a dataset. The same records give the same bytes, whatever the order of the files.

    Writes ``measurements.parquet``, or one part per device or workload (see ``DataFiles``), the card as
    ``README.md`` and ``card.html``, its pictures and ``SHA256SUMS``. If records were rejected, also writes
    ``rejects.jsonl``, with one ``{"reason": ..., "record": ...}`` per line. Memory holds the records of two
    workloads at a time, and the rejects.

    Args:
        files: Record stores (read without a lock), datasets, Kernel Tuner caches, T4 files, MetaSchedule
            databases and tables.
        out: Output folder, created if missing.
        header: The author's part of the card.
        options: Information that files of other programs do not contain.
        partition_by: Give each ``device`` or ``workload`` a folder of its own, so that campaigns can be
            appended and each part can be read alone. Default: one file.
        force: Replace a dataset that is there.
        track: Reports progress. Default: no report.

    Raises:
        CostModelError: If a file cannot be read, no record can enter, or the folder cannot be written, has a
            dataset, or a README.md that is not a dataset card.
    """
    files, out = check_paths("files", files), check_path("out", out)
    check_kind("header", header, CardHeader, "a CardHeader with the texts of the card")
    _check_is_free(out, force=force)
    describer = Describer()
    try:
        with DatasetWriter(out, partition_by) as writer:

            def take(validation: Validation) -> None:
                if len(validation.accepted):
                    writer.write(validation.accepted)
                    describer.add(Dataset.of(validation.accepted))

            examination = examine(sorted(files), options, on_workload=take, track=track)
            check_not_empty(examination)
        papers = _write_papers(describer, header, out, partition_by)
        _keep_rejects(examination, out / REJECTS_NAME)
        # Last, so that a build that was cut off is noticed by the next reader.
        write_checksums(out, (*writer.names, *papers))
        remove_other_files(out, writer.names)
    except OSError as error:
        raise CostModelError(f"Cannot write dataset {out}: {error.strerror}.") from error
    return _make_report(examination, out)


def read_files(sources: Sequence[DatasetLike], options: ReadOptions | None = None) -> Dataset:
    """Read datasets, record stores and files of other programs into one dataset in memory.

    Invalid records are left out, as in ``build_dataset``.

    Args:
        sources: Datasets, names of shipped datasets, and paths.
        options: Information that files of other programs do not contain.

    Raises:
        CostModelError: If a file cannot be read, or no record can enter.
    """
    match sources:
        case [Dataset() as only]:
            return only
    held = [source.to_records() for source in sources if isinstance(source, Dataset)]
    files = [_existing(source) for source in sources if not isinstance(source, Dataset)]
    if files:
        check_not_empty(examine(files, options, on_workload=lambda found: held.append(found.accepted)))
    return Dataset.of(Records.concat(held))


def describe_file(
    dataset: str | Path | None, options: ReadOptions | None = None, *, track: Track = show_nothing
) -> tuple[Describer, int]:
    """Describe a dataset, or the valid records of a file that can become a dataset.

    Memory holds the records of two workloads at a time, and the rejects.

    Args:
        dataset: Dataset, see ``find_dataset``, or one file of a format that ``build_dataset`` reads.
        options: Information that files of other programs do not contain.
        track: Reports progress. Default: no report.

    Returns:
        The describer, and the number of rejected records.

    Raises:
        CostModelError: If the file does not exist or cannot be read, or no record can enter.
    """
    path = find_dataset(dataset)
    if is_dataset(path, options):
        return Describer.of(path, track), 0
    describer = Describer()

    def take(validation: Validation) -> None:
        if len(validation.accepted):
            describer.add(Dataset.of(validation.accepted))

    examination = examine([path], options, on_workload=take, track=track)
    check_not_empty(examination)
    return describer, len(examination.rejects)


def merge_datasets(  # noqa: PLR0913 (one argument a knob)
    datasets: Sequence[str | Path],
    out: Path | str,
    *,
    header: CardHeader,
    partition_by: Partition | None = None,
    force: bool = False,
    track: Track = show_nothing,
) -> BuildReport:
    """Merge datasets into one.

    Args:
        datasets: Their names or paths; see ``find_dataset``.
        out: Output folder, created if missing.
        header: The author's part of the card.
        partition_by: As for ``build_dataset``.
        force: As for ``build_dataset``.
        track: Reports progress. Default: no report.

    Raises:
        CostModelError: If one of them is not a dataset, or the folder cannot be written or has a dataset.
    """
    named = check_paths("datasets", datasets)
    for dataset in named:
        check_dataset(dataset)
    places = [find_dataset(dataset) for dataset in named]
    return build_dataset(places, out, header=header, partition_by=partition_by, force=force, track=track)


def _existing(source: str | Path) -> Path:
    """Return a path that is there, or that of the dataset of this name."""
    return path if exists(path := Path(source)) else find_dataset(source)


_LOCK_NAME = ".append.lock"


def append_dataset(
    dataset: str | Path,
    files: Sequence[Path | str] | Path | str,
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
    files = check_paths("files", files)
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
    _keep_rejects(examination, folder / f"rejects-{number}.jsonl")
    add_checksums(folder, writer.names)
    papers = _write_papers(Describer.of(folder, track), header, folder, there.partition)
    add_checksums(folder, papers)
    return _make_report(examination, folder)


def _check_is_free(out: Path, *, force: bool) -> None:
    """Check that a folder to write holds no dataset, and no card but a dataset's: both are somebody's work.

    A dataset without checksums is what a build left that was cut off.

    Raises:
        CostModelError: It does.
    """
    if is_dataset_folder(out) and exists(out / SUMS_NAME) and not force:
        raise CostModelError(
            f"A dataset must be written to a new folder, but {out} has one, which would be lost. Name "
            "another, replace it (--force), or add to it: `costmodel dataset append`."
        )
    if exists(out / CARD_NAME) and not is_dataset_folder(out):
        raise CostModelError(
            f"A dataset must be written to a new folder, but {out} has a {CARD_NAME} and no measurements, "
            "and a card would replace it. Name another folder."
        )


def _keep_rejects(examination: Examination, file: Path) -> None:
    """Write what does not enter; where all does, there is no such file."""
    if examination.rejects:
        write_rejects(examination.rejects, file)
    else:
        file.unlink(missing_ok=True)


def _write_papers(
    describer: Describer, header: CardHeader, out: Path, partition: Partition | None
) -> tuple[str, ...]:
    """Write the card and its pictures, and give the names of all files that were written.

    Of a dataset in parts the author's texts are kept, too, to make the card again.
    """
    description = describer.description()
    pictures = write_plots(description, describer.shifts, out)
    card = render_card(header, description, in_parts=partition is not None)
    write_whole(out / CARD_NAME, card.encode())
    write_whole(out / PAGE_NAME, markdown_page(header.title, card).encode())
    if partition is None:
        return CARD_NAME, PAGE_NAME, *pictures
    write_held_header(header, out)
    return CARD_NAME, PAGE_NAME, HEADER_NAME, *pictures


def _make_report(examination: Examination, out: Path) -> BuildReport:
    """Return what became of files that were examined, now that the dataset is written."""
    return BuildReport(
        path=out,
        sha256=hash_dataset(out),
        records=examination.accepted + examination.duplicates + len(examination.rejects),
        measurements=examination.accepted,
        duplicates=examination.duplicates,
        rejects=dict(examination.rejects.counts().most_common()),
        findings=tuple(f for f in examination.findings if f.kind not in SORTED_OUT_KINDS),
    )
