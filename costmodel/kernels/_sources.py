"""Several kernel sources, and which of them a candidate is of."""

from collections.abc import Sequence
from importlib import import_module

from costmodel.errors import CostModelError
from costmodel.kernels._base import KernelSource
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

# The class of each source that comes with costmodel. The first that makes a workload is its default.
_CLASSES = {
    "metaschedule": "costmodel.kernels.metaschedule._source:MetaSchedule",
    "cuda": "costmodel.kernels.cuda._source:CudaSource",
    "triton": "costmodel.kernels.triton._source:TritonSource",
    "library": "costmodel.kernels.library._source:LibrarySource",
}
SOURCES = tuple(_CLASSES)


def open_sources(names: Sequence[str], families: Sequence[str] = ()) -> tuple[KernelSource, ...]:
    """Return the sources of these names, without loading anything heavy.

    Args:
        names: Names of sources.
        families: Places of families of one's own, which the sources ``triton`` and ``cuda`` make too.

    Raises:
        CostModelError: If there is no source of a name, or none of the sources makes a family's kernels.
    """
    unknown = [name for name in names if name not in _CLASSES]
    if unknown:
        raise CostModelError(f"Sources must be among {', '.join(SOURCES)}, but got {', '.join(unknown)}.")
    places = _places_by_source(families) if families else {}
    if unmade := places.keys() - set(names):
        raise CostModelError(
            f"Families of one's own must be of the sources {', '.join(names)}, but "
            f"{', '.join(places[min(unmade)])} is of {min(unmade)}: name that source too."
        )
    return tuple(_open(_CLASSES[name], *([places[name]] if name in places else [])) for name in names)


def builder_modules(names: Sequence[str] = SOURCES) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Modules that builders of some sources take long to import; some may not be installed.

    Returns:
        Those that a process may import before builders are forked from it; those that each imports itself.

    Raises:
        CostModelError: If there is no source of a name.
    """
    sources = open_sources(names)
    shared = [name for each in sources for name in (type(each).__module__, *each.modules)]
    return tuple(shared), tuple(name for each in sources for name in each.unshared_modules)


def family_source_name(place: str) -> str:
    """Name of the source that makes the families at a place, if any are there."""
    from costmodel.kernels.triton._source import is_family_place

    return "triton" if is_family_place(place) else "cuda"


def _places_by_source(families: Sequence[str]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for place in families:
        places.setdefault(family_source_name(place), []).append(place)
    return places


def _open(place: str, *arguments: object) -> KernelSource:
    module, _, name = place.partition(":")
    source: KernelSource = getattr(import_module(module), name)(*arguments)
    return source


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
