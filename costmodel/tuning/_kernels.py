"""``kernels``: what there is to choose kernels from, and whether a family of one's own is as it should be."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from costmodel.collector import CudaRunner, Runner
from costmodel.errors import CostModelError
from costmodel.kernels import SOURCES
from costmodel.kernels.cuda import CudaSource
from costmodel.kernels.family import Family, FamilyCheck, FamilySource, FamilySpace, check_family
from costmodel.kernels.triton import TritonSource, interpret
from costmodel.progress import Progress
from costmodel.records import Candidate, Measurement, Outcome
from costmodel.tuning._family_place import open_family

_ARCHITECTURE = "sm_90"
INTERPRETER = "interpreter"
_WITH_FAMILIES: tuple[type[FamilySource], ...] = (CudaSource, TritonSource)


@dataclass(frozen=True)
class KernelEntry:
    """Kernels of one source that are there.

    Attributes:
        source: Name of the source.
        name: Name of the family; empty where a source makes kernels of all operators.
        workload: What they compute, at the sizes by default.
        configs: How many there are at these sizes; None where they are too many to count.
        file: The description; empty where there is none.
    """

    source: str
    name: str
    workload: str
    configs: int | None
    file: str = ""


@dataclass(frozen=True)
class KernelsCheck:
    """What a check of a family found.

    Attributes:
        compiled: What became of each config in the compiler.
        measured: What became of those that compiled on a GPU, compared with the reference; empty without one.
        measured_on: One sentence on what measured; empty without one.
        interpreted: Why each config that compiled is wrong in Triton's interpreter, empty where it is right;
            None where none was interpreted.
    """

    compiled: FamilyCheck
    measured: tuple[Measurement, ...] = ()
    measured_on: str = ""
    interpreted: tuple[str, ...] | None = None

    @property
    def failed(self) -> bool:
        """Whether no config can be used."""
        if self.interpreted is not None:
            return all(self.interpreted)
        if self.measured_on:
            return not any(each.outcome is Outcome.OK for each in self.measured)
        return not self.compiled.compiled


def list_kernels(families: Sequence[Path | str] = ()) -> list[KernelEntry]:
    """The kernels that ship, behind those of one's own.

    Args:
        families: Places of one's own: descriptions, files of Python, or folders that hold one each.

    Raises:
        CostModelError: One cannot be read.
    """
    own = [open_family(place) for place in families]
    shipped = [(source(), family) for source in _WITH_FAMILIES for family in source.shipped()]
    others = (name for name in SOURCES if name not in {source.name for source in _WITH_FAMILIES})
    every = [KernelEntry(name, "", "every operator", None) for name in others]
    return [*every, *(_entry(source, family) for source, family in (*own, *shipped))]


def check_kernels(  # noqa: PLR0913 (one argument a knob)
    path: Path | str,
    *,
    dims: Mapping[str, int] | None = None,
    architecture: str | None = None,
    configs: int = 16,
    seed: int = 0,
    runner: Runner | str | None = None,
) -> KernelsCheck:
    """Read a family, count its configs, compile some, and with a GPU run these against the reference.

    Args:
        path: The description, the file of Python, or the folder that holds it.
        dims: Sizes of the workload; those of the description where not given.
        architecture: What to compile for; that of the GPU, or without one sm_90, unless given.
        configs: How many configs, the default first and others at random.
        seed: Of what is drawn.
        runner: ``cuda`` for the GPU here, ``interpreter`` for Triton's on a CPU, a runner that has the
            family's source, or None to compile only.

    Raises:
        CostModelError: The family is not as it must be, NVRTC is not installed, or there is no GPU.
    """
    source, family = open_family(path)
    interpreted = runner == INTERPRETER
    if interpreted and source.name != TritonSource.name:
        raise CostModelError(f"Triton's interpreter runs Triton kernels, but {path} is of {source.name}.")
    workload = family.workload(**(dims or {}))
    with ExitStack() as stack:
        if runner is not None and not interpreted and not isinstance(runner, Runner):
            runner = stack.enter_context(_opened(runner, source))
        if isinstance(runner, Runner):
            architecture = runner.platform().device.architecture
        with Progress("compiling", configs) as progress:
            found = check_family(
                source,
                family,
                workload,
                architecture=architecture or _ARCHITECTURE,
                configs=configs,
                seed=seed,
                on_progress=progress.advance,
            )
        compiled = [each.config for each in found.configs if each.outcome is Outcome.OK]
        if interpreted:
            return KernelsCheck(found, interpreted=tuple(interpret([str(path)], workload, compiled)))
        if not isinstance(runner, Runner):
            return KernelsCheck(found)
        space = source.space(workload, "cuda")
        usable = [space.candidate(config) for config in compiled]
        return KernelsCheck(found, _measured(runner, usable), runner.description)


def _entry(source: FamilySource, family: Family) -> KernelEntry:
    workload = family.workload()
    count = FamilySpace(family, workload).count
    return KernelEntry(source.name, family.name, workload.name, count, str(family.file))


def _opened(runner: str, source: FamilySource) -> Runner:
    if runner != "cuda":
        raise CostModelError(
            f"The runner must be cuda or {INTERPRETER}, or none to compile only, but got {runner!r}."
        )
    return CudaRunner(sources=[source])


def _measured(runner: Runner, candidates: Sequence[Candidate]) -> tuple[Measurement, ...]:
    """Measurements on the whole device, the first config alone: it may stand for the reference."""
    platform = runner.platform()
    with Progress("measuring", len(candidates)) as progress:
        found = []
        for batch in (candidates[:1], candidates[1:]):
            found += runner.measure(batch, platform) if batch else []
            progress.advance(steps=len(batch))
    return tuple(found)
