"""Files that accompany a dataset's measurements, and the report of a build."""

from dataclasses import dataclass
from pathlib import Path

from costmodel.dataset.checks._examine import Examination, write_rejects
from costmodel.dataset.checks._finding import Finding
from costmodel.dataset.checks._rejects import SORTED_OUT_KINDS
from costmodel.dataset.publish._card import HEADER_NAME, CardHeader, render_card, write_held_header
from costmodel.dataset.publish._describe import Describer
from costmodel.dataset.publish._plots import write_plots
from costmodel.dataset.table._files import Partition, dataset_hash
from costmodel.dataset.table._locate import is_dataset_folder
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
        sha256: Hash of the dataset's measurements, see ``dataset_hash``.
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


def check_is_for_papers(out: Path) -> None:
    """Check that a folder to write holds no card but a dataset's: another README.md is somebody's work.

    Raises:
        CostModelError: It does.
    """
    if exists(out / CARD_NAME) and not is_dataset_folder(out):
        raise CostModelError(
            f"A dataset must be written to a new folder or over another dataset, but {out} has a "
            f"{CARD_NAME} and no measurements, and the card would replace that file. Name another folder."
        )


def keep_rejects(examination: Examination, file: Path) -> None:
    """Write what does not enter; where all does, there is no such file."""
    if examination.rejects:
        write_rejects(examination.rejects, file)
    else:
        file.unlink(missing_ok=True)


def write_papers(
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


def report_of(examination: Examination, out: Path) -> BuildReport:
    """What became of files that were examined, now that the dataset is written."""
    return BuildReport(
        path=out,
        sha256=dataset_hash(out),
        records=examination.accepted + examination.duplicates + len(examination.rejects),
        measurements=examination.accepted,
        duplicates=examination.duplicates,
        rejects=dict(examination.rejects.counts().most_common()),
        findings=tuple(f for f in examination.findings if f.kind not in SORTED_OUT_KINDS),
    )
