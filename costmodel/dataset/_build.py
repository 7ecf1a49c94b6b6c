"""Record stores and foreign files to a published dataset: the file, its card with pictures, its checksums."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from costmodel.dataset._track import Track, untracked
from costmodel.dataset.checks import (
    SORTED_OUT_KINDS,
    Examination,
    Finding,
    Validation,
    examine,
    write_rejects,
)
from costmodel.dataset.importers import ReadOptions
from costmodel.dataset.publish import CardHeader, Describer, render_card, render_page, write_plots
from costmodel.dataset.table import (
    FILE_NAME,
    Dataset,
    DatasetLike,
    Records,
    check_dataset,
    dataset_hash,
    parquet_file,
    write_checksums,
    write_parquet,
)
from costmodel.errors import CostModelError

CARD_NAME = "README.md"
PAGE_NAME = "card.html"
REJECTS_NAME = "rejects.jsonl"


@dataclass(frozen=True)
class BuildReport:
    """What a build did.

    Attributes:
        path: Folder of the dataset.
        sha256: Hash of its parquet file.
        records: Records read.
        measurements: Rows written.
        duplicates: Records dropped because an equal one is there.
        rejects: Records rejected, by reason.
        findings: What else to know of the files, the worst first; rejects and duplicates are counted above.
    """

    path: Path
    sha256: str
    records: int
    measurements: int
    duplicates: int
    rejects: dict[str, int]
    findings: tuple[Finding, ...] = ()


def build_dataset(
    files: Sequence[Path],
    out: Path,
    *,
    header: CardHeader,
    options: ReadOptions | None = None,
    track: Track = untracked,
) -> BuildReport:
    """Build a dataset; the same records give the same bytes, in whatever order the files are named.

    Writes ``measurements.parquet``, the card as ``README.md`` and ``card.html``, its pictures and
    ``SHA256SUMS``; and ``rejects.jsonl``, one ``{"reason": ..., "record": ...}`` a line, only if records were
    rejected. Memory holds the records of one workload at a time, and what does not enter.

    Args:
        files: Record stores, read without a lock, datasets, cache files of Kernel Tuner, T4 files, databases
            of MetaSchedule and tables.
        out: Folder to write, made if it is not there.
        header: The author's part of the card.
        options: What files of other programs do not say.
        track: Shows how far it is.

    Raises:
        CostModelError: A file cannot be read, no record can enter, or the folder cannot be written.
    """
    describer = Describer()
    try:
        with write_parquet(out / FILE_NAME) as write:

            def take(validation: Validation) -> None:
                if len(validation.accepted):
                    write(validation.accepted)
                    describer.add(Dataset.of(validation.accepted))

            examination = examine(sorted(files), options, on_workload=take, track=track)
            _check_not_empty(examination)
        pictures = _write_papers(describer, header, out)
        if examination.rejects:
            write_rejects(examination.rejects, out / REJECTS_NAME)
        else:
            (out / REJECTS_NAME).unlink(missing_ok=True)
        # Last, so that a build that was cut off is noticed by the next reader.
        write_checksums(out, (FILE_NAME, CARD_NAME, PAGE_NAME, *pictures))
    except OSError as error:
        raise CostModelError(f"Cannot write dataset {out}: {error.strerror}.") from error
    return BuildReport(
        path=out,
        sha256=dataset_hash(out),
        records=examination.accepted + examination.duplicates + len(examination.rejects),
        measurements=examination.accepted,
        duplicates=examination.duplicates,
        rejects=dict(examination.rejects.counts().most_common()),
        findings=tuple(f for f in examination.findings if f.kind not in SORTED_OUT_KINDS),
    )


def read_files(sources: Sequence[DatasetLike], options: ReadOptions | None = None) -> Dataset:
    """Read datasets, record stores and files of other programs to one dataset in memory.

    What cannot be believed does not enter, as in ``build_dataset``.

    Args:
        sources: Datasets, names of those that ship, and paths.
        options: What files of other programs do not say.

    Raises:
        CostModelError: A file cannot be read, or no record of the files can enter.
    """
    match sources:
        case [Dataset() as only]:
            return only
    held = [source.to_records() for source in sources if isinstance(source, Dataset)]
    files = [_existing(source) for source in sources if not isinstance(source, Dataset)]
    if files:
        _check_not_empty(examine(files, options, on_workload=lambda found: held.append(found.accepted)))
    return Dataset.of(Records.concat(held))


def merge_datasets(
    datasets: Sequence[str | Path], out: Path, *, header: CardHeader, track: Track = untracked
) -> BuildReport:
    """Merge datasets into one.

    Args:
        datasets: Their names or paths; see ``find_dataset``.
        out: Folder to write, made if it is not there.
        header: The author's part of the card.
        track: Shows how far it is.

    Raises:
        CostModelError: One is no dataset, or the folder cannot be written.
    """
    for dataset in datasets:
        check_dataset(dataset)
    return build_dataset([parquet_file(dataset) for dataset in datasets], out, header=header, track=track)


def _existing(source: str | Path) -> Path:
    """A path that is there, or that of the dataset of this name."""
    return path if (path := Path(source)).exists() else parquet_file(source)


def _check_not_empty(examination: Examination) -> None:
    if not examination.accepted:
        rejects = examination.rejects
        first = f", the first because {rejects[0].reason}" if rejects else ""
        raise CostModelError(
            f"A dataset must have at least one measurement, but {len(rejects)} of "
            f"{examination.duplicates + len(rejects)} records were rejected{first}."
        )


def _write_papers(describer: Describer, header: CardHeader, out: Path) -> tuple[str, ...]:
    """Write the card and its pictures, and give the names of these."""
    description = describer.description()
    pictures = write_plots(description, describer.shifts, out)
    card = render_card(header, description)
    (out / CARD_NAME).write_text(card, encoding="utf-8")
    (out / PAGE_NAME).write_text(render_page(header.title, card), encoding="utf-8")
    return pictures
