"""What is tuned: a workload, and the sources whose kernels are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from costmodel.arguments import check_kind, check_path, check_texts
from costmodel.errors import CostModelError
from costmodel.kernels._base import KernelSource
from costmodel.kernels._sources import SOURCES, family_source_name, open_sources, source_for
from costmodel.kernels.family._base import Family
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.metaschedule.programs._source import ProgramSource, is_program_place
from costmodel.kernels.triton._source import is_triton_program
from costmodel.reading import exists, say_near
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload


def find_family(place: Path | str) -> tuple[FamilySource, Family] | None:
    """A source with the family at a place, and the family; None where the place is none of a family.

    Args:
        place: The description of a CUDA kernel, a file of Python with a ``TritonFamily``, ``file.py:name``,
            or a folder with either.

    Raises:
        CostModelError: The family is not as it must be.
    """
    if is_triton_program(str(place)):
        raise CostModelError(
            f"A family must be at {place}, but it is a program that launches Triton kernels. The commands "
            "`costmodel tune` and `costmodel kernels check` take it, and rank_program and tune_program of "
            "costmodel.integrations.triton."
        )
    name = family_source_name(str(place))
    if name == "cuda" and (is_program_place(str(place)) or not exists(place)):
        return None
    (source,) = open_sources([name], [str(place)])
    assert isinstance(source, FamilySource)
    return source, source.at(str(place))[0]


def open_family(place: Path | str) -> tuple[FamilySource, Family]:
    """As ``find_family``, where there must be one.

    Raises:
        CostModelError: There is none, or it is not as it must be.
    """
    found = find_family(check_path("path of a family", place))
    if found is None:
        raise CostModelError(
            f"A family must be at {place}: the description of a CUDA kernel, a file of Python with a "
            "TritonFamily, a folder with either, or a program that launches Triton kernels."
            f"{'' if exists(place) else f' Nothing is there.{say_near(Path(place))}'}"
        )
    return found


ALL = "all"


@dataclass(frozen=True)
class Subject:
    """What is tuned.

    Attributes:
        name: Name of the workload.
        asked: Names of the sources that were asked for; none for the first that makes it, ``"all"`` for all.
        family: Source of a family of the user's own; None where it is not of one.
        program: Source of a tensor program of the user's own; None where it is none.
    """

    name: str
    asked: tuple[str, ...] = ()
    family: FamilySource | None = None
    program: ProgramSource | None = None

    @cached_property
    def workload(self) -> Workload:
        """The workload.

        Raises:
            CostModelError: The name is not that of one.
        """
        return Workload.parse(self.name)

    def among(self, known: Sequence[str], *, replayed: bool) -> tuple[str, ...]:
        """Those of a runner's sources that were asked for; without a wish all in a replay, else the first.

        Raises:
            CostModelError: There are none.
        """
        if not self.asked:
            return tuple(known) if replayed else tuple(known[:1])
        chosen = tuple(name for name in known if {ALL, name} & set(self.asked))
        if not chosen:
            there = "were recorded" if replayed else "the runner has"
            raise CostModelError(
                f"Kernels of {self.workload.name} must be of sources that {there} ({', '.join(known)}), but "
                f"got {', '.join(self.asked)}."
            )
        return chosen

    def sources(self, kind: TargetKind) -> tuple[KernelSource, ...]:
        """The sources whose kernels are compared on a kind of device; of all sources, those that can be used.

        Raises:
            CostModelError: One that was asked for does not make it, or none does.
        """
        if ALL in self.asked:
            left_out = self.left_out(kind)
            return tuple(source for source in self._makers(kind) if source.name not in left_out)
        known = self._known()
        if not self.asked:
            return (source_for(self.workload, kind, known),)
        return tuple(source_for(self.workload, kind, known, name) for name in self.asked)

    def left_out(self, kind: TargetKind) -> dict[str, str]:
        """Why a source is left out where all are asked for, by its name; empty where something else is."""
        reasons: dict[str, str] = {}
        for source in self._makers(kind) if ALL in self.asked else ():
            try:
                source.check_installed(kind)
            except CostModelError as error:
                reasons[source.name] = str(error)
        return reasons

    def _makers(self, kind: TargetKind) -> tuple[KernelSource, ...]:
        """All sources that make the workload.

        Raises:
            CostModelError: There are none.
        """
        known = self._known()
        source_for(self.workload, kind, known)
        return tuple(source for source in known if source.makes(self.workload, kind))

    def _known(self) -> tuple[KernelSource, ...]:
        """The sources that were asked for, one's own first; all without a wish."""
        own: tuple[KernelSource, ...] = (self.family,) if self.family else ()
        if self.program:
            own = (self.program,)
        names = SOURCES if ALL in self.asked or not self.asked else self.asked
        others = [source for source in open_sources(names) if source.name not in {each.name for each in own}]
        return (*own, *others)


def subject_of(
    workload: Workload | Path | str, dims: Mapping[str, int] | None, source: str | Sequence[str] | None
) -> Subject:
    """What is tuned, as it was given.

    Args:
        workload: A workload, its name, the folder or file of a family of CUDA or Triton kernels, or a tensor
            program in a file: ``program.py:name``, or JSON that TVM wrote.
        dims: Sizes of the family's dims; those of its description for the rest.
        source: One source, several, ``"all"``, or None for the first that makes the workload.

    Raises:
        CostModelError: There is no such family or source, or dims are given of a workload.
    """
    asked = check_texts("sources", source)
    check_kind("dims", {} if dims is None else dims, Mapping, "sizes by their names, such as {'m': 1024}")
    unknown = [name for name in asked if name not in (ALL, *SOURCES)]
    if unknown:
        raise CostModelError(f"A source must be one of {', '.join(SOURCES)} or all, but got {unknown[0]!r}.")
    if not isinstance(workload, Workload) and (found := find_family(workload)):
        return Subject(found[1].workload(**(dims or {})).name, asked, found[0])
    if not isinstance(workload, Workload) and is_program_place(str(workload)):
        program = ProgramSource.open(str(workload))
        return Subject(program.workloads[0].name, asked, program=program)
    if dims:
        raise CostModelError(
            f"Dims must be given of a family of kernels, but got {dict(dims)} of {workload}. The "
            "name of a workload has its sizes."
        )
    return Subject(workload.name if isinstance(workload, Workload) else str(workload), asked)
