"""``kernels``: list the available kernels, and check a kernel family."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._devices import CudaRunner
from costmodel.errors import CostModelError
from costmodel.kernels._sources import SOURCES
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.family._base import Family
from costmodel.kernels.family._check import FamilyCheck, check_family
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.family._space import FamilySpace
from costmodel.kernels.triton._interpreter import interpret
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.report._progress import Progress
from costmodel.tuning._subject import open_family

_ARCHITECTURE = "sm_90"
INTERPRETER = "interpreter"
_WITH_FAMILIES: tuple[type[FamilySource], ...] = (CudaSource, TritonSource)


@dataclass(frozen=True)
class KernelEntry:
    """An entry in the list of available kernels.

    Attributes:
        source: Name of the source.
        name: Name of the family; empty if the source makes kernels for all operators.
        workload: The workload that they compute, at the default sizes.
        configs: Number of configs at these sizes; None if there are too many to count.
        file: File with the description; empty if there is none.
    """

    source: str
    name: str
    workload: str
    configs: int | None
    file: str = ""


@dataclass(frozen=True)
class KernelsCheck:
    """The result of checking a kernel family.

    Attributes:
        compiled: Outcome of compiling each config.
        measured: Measurements of the compiled configs on a GPU, checked against the reference; empty without
            a GPU.
        measured_on: One sentence on the runner and the device; empty without a GPU.
        interpreted: For each compiled config, why its result in Triton's interpreter is wrong; an empty
            string if it is right. None if the interpreter was not used.
    """

    compiled: FamilyCheck
    measured: tuple[Measurement, ...] = ()
    measured_on: str = ""
    interpreted: tuple[str, ...] | None = None

    @property
    def failed(self) -> bool:
        """Whether no config is usable."""
        if self.interpreted is not None:
            return all(self.interpreted)
        if self.measured_on:
            return not any(each.outcome is Outcome.OK for each in self.measured)
        return not self.compiled.compiled


def list_kernels(families: Sequence[Path | str] = ()) -> list[KernelEntry]:
    """List your own kernel families and the shipped kernels.

    Args:
        families: Your own families: description files, Python files, or folders that hold one each.

    Raises:
        CostModelError: A family cannot be read.
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
    """Check a kernel family: compile some configs and, with a runner, compare them with the reference.

    Args:
        path: The description, the Python file, or the folder that holds it.
        dims: Sizes of the workload. Default: the sizes in the description.
        architecture: Architecture to compile for. Default: that of the GPU; without a GPU, ``sm_90``.
        configs: Number of configs to compile: the default config first, then random ones.
        seed: Seed of the random configs.
        runner: ``cuda`` for this machine's GPU, ``interpreter`` for Triton's interpreter on a CPU, a runner
            that has the family's source, or None to compile only.

    Raises:
        CostModelError: The family is invalid, NVRTC is not installed, or there is no GPU.
    """
    source, family = open_family(path)
    interpreted = runner == INTERPRETER
    if interpreted and source.name != TritonSource.name:
        raise CostModelError(f"Triton's interpreter needs a Triton family, but {path} is of {source.name}.")
    workload = family.workload(**(dims or {}))
    with ExitStack() as stack:
        if runner is not None and not interpreted and not isinstance(runner, Runner):
            runner = stack.enter_context(_open_runner(runner, source))
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
        return KernelsCheck(found, _measure_all(runner, usable), runner.description)


def _entry(source: FamilySource, family: Family) -> KernelEntry:
    workload = family.workload()
    count = FamilySpace(family, workload).count
    return KernelEntry(source.name, family.name, workload.name, count, str(family.file))


def _open_runner(runner: str, source: FamilySource) -> Runner:
    if runner != "cuda":
        raise CostModelError(
            f"The runner must be cuda or {INTERPRETER}, or none to compile only, but got {runner!r}."
        )
    return CudaRunner(sources=[source])


def _measure_all(runner: Runner, candidates: Sequence[Candidate]) -> tuple[Measurement, ...]:
    """Measure on the whole device, the first config separately: it may serve as the reference."""
    platform = runner.platform()
    with Progress("measuring", len(candidates)) as progress:
        found = []
        for batch in (candidates[:1], candidates[1:]):
            found += runner.measure(batch, platform) if batch else []
            progress.advance(steps=len(batch))
    return tuple(found)
