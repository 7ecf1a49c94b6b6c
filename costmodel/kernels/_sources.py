"""Several kernel sources, and which of them a candidate is of."""

from collections.abc import Sequence

from costmodel.errors import CostModelError
from costmodel.kernels._base import KernelSource
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

# The sources that come with costmodel.
SOURCES = ("metaschedule", "cuda", "triton", "library")


def open_sources(names: Sequence[str]) -> tuple[KernelSource, ...]:
    """Return the sources of these names, without loading anything heavy.

    Raises:
        CostModelError: If there is no source of a name.
    """
    from costmodel.kernels.cuda._source import CudaSource
    from costmodel.kernels.library._source import LibrarySource
    from costmodel.kernels.metaschedule._source import MetaSchedule
    from costmodel.kernels.triton._source import TritonSource

    known: dict[str, type[KernelSource]] = {
        source.name: source for source in (MetaSchedule, CudaSource, TritonSource, LibrarySource)
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        raise CostModelError(f"Sources must be among {', '.join(known)}, but got {', '.join(unknown)}.")
    return tuple(known[name]() for name in names)


def source_of(candidate: Candidate, sources: Sequence[KernelSource]) -> KernelSource:
    """Return the source of a candidate, by the name of its space.

    Raises:
        CostModelError: If the candidate is of none of them.
    """
    for source in sources:
        if source.is_of(candidate):
            return source
    raise CostModelError(
        f"A candidate must be of one of the sources {_names(sources)}, but {candidate.space} is not. Open "
        "the runner with its source."
    )


def source_for(
    workload: Workload, kind: TargetKind, sources: Sequence[KernelSource], name: str | None = None
) -> KernelSource:
    """Return the first of the sources that makes a workload, or the source of a given name.

    Raises:
        CostModelError: If no source makes it.
    """
    for source in sources:
        if name in (None, source.name) and source.makes(workload, kind):
            return source
    asked = _names(sources) if name is None else name
    other = ": a kernel of another suite can be learned from and replayed" if workload.is_foreign else ""
    raise CostModelError(
        f"{workload.name} must be something that {asked} can make for {kind}, but it is not{other}. "
        "`costmodel kernels list` shows what each source makes."
    )


def _names(sources: Sequence[KernelSource]) -> str:
    return ", ".join(source.name for source in sources)
