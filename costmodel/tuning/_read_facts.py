"""``dataset read-facts``: read what the kernels of a dataset do, from their intermediate code."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from costmodel.collector._local_engine import LocalEngine
from costmodel.dataset._read_facts import read_facts_folder, write_read_facts
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.errors import CostModelError
from costmodel.files import cache_folder
from costmodel.kernels._base import KernelSource
from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Candidate
from costmodel.report._progress import Progress

_TIMEOUT_S = 60.0
_FOLDER = "read"


@dataclass(frozen=True)
class FactsReport:
    """What was read of a dataset's kernels.

    Attributes:
        file: The file with the facts.
        read: Kernels that were read.
        guessed: Those of them of which something had to be guessed.
        notes: Why others were not, and how many.
    """

    file: Path
    read: int
    guessed: int
    notes: Mapping[str, int] = field(default_factory=dict)


def read_facts(
    dataset: DatasetLike | None = None,
    families: Sequence[Path | str] = (),
    *,
    architecture: str | None = None,
    workers: int | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> FactsReport:
    """Read what each Triton kernel of a dataset does, and write it beside the measurements.

    Needs Triton and no GPU. Kernels are lowered in processes of their own, as far as Triton's second
    dialect; texts are kept in a cache.

    Args:
        dataset: A dataset, or what ``load_dataset`` takes.
        families: Places of families of your own that are in it.
        architecture: Architecture to lower for. Default: the one of most of the dataset's platforms.
        workers: Processes. Default: one for each hardware thread.
        timeout_s: Seconds that one kernel has.

    Raises:
        CostModelError: The dataset or a family cannot be read, or Triton is not installed.
    """
    data = load_dataset(dataset)
    folder = read_facts_folder(data)
    source = TritonSource(families)
    source.check_installed("cuda")
    target = architecture or Counter(each.device.architecture for each in data.platforms).most_common(1)[0][0]
    candidates = [each for each in data.candidates if source.is_of(each)]
    if not candidates:
        raise CostModelError(f"{data.name} must have kernels of {source.name} to be read, but has none.")
    candidates.sort(key=lambda each: each.workload.name)  # whose arrays a process makes once
    prepare = partial(source.prepare, "cuda", target)
    with closing(LocalEngine(workers, prepare=prepare)) as engine:
        jobs = {
            each.candidate_id: engine.submit(_read, source, each, target, timeout_s=timeout_s)
            for each in candidates
        }
        with Progress("reading", len(jobs)) as progress:
            readings = {candidate: _result(job, progress) for candidate, job in jobs.items()}
    file = write_read_facts(folder, readings, {"architecture": target, **source.compilers("cuda")})
    done = [each.facts for each in readings.values() if not each.note]
    notes = Counter(each.note for each in readings.values() if each.note)
    return FactsReport(file, len(done), sum(each.guesses > 0 for each in done), dict(notes.most_common()))


def _read(source: KernelSource, candidate: Candidate, architecture: str) -> Reading:
    return source.read(candidate, "cuda", architecture, cache_folder(_FOLDER))


def _result(job: "Future[Reading]", progress: Progress) -> Reading:
    """Return what a job read; a note where its process ended or took too long."""
    try:
        return job.result()
    except Exception as error:  # noqa: BLE001 (of a process: the kernel stays unread)
        return Reading(note=describe_failure(error))
    finally:
        progress.advance()
