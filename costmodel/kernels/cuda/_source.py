"""Families of CUDA kernels as a kernel source."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from costmodel.kernels._artifact import Built, LaunchNote, build_artifact, static_shared_bytes, write_artifact
from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._nvrtc import Compiled, CudaCode, check_nvrtc, compile_source, nvrtc_compiler
from costmodel.kernels.cuda._read_ptx import PtxArgument, read_ptx
from costmodel.kernels.family._base import Geometry, check_launch, check_shared_bytes
from costmodel.kernels.family._source import FamilySource
from costmodel.records._candidate import Candidate, Config, ConfigBatch
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

_AXES = "xyz"
SHIPPED = Path(__file__).parent / "families"


def build_cuda_family(family: CudaFamily, candidate: Candidate, architecture: str, folder: Path) -> Built:
    """Compile a candidate into ``folder``, see ``build_artifact``."""
    return build_artifact(candidate, folder, partial(_compile, family, candidate, architecture))


def list_macros(family: CudaFamily, workload: Workload, config: Config, geometry: Geometry) -> dict[str, Any]:
    """Tell what a kernel's source may use: parameters, sizes, and what Kernel Tuner defines."""
    sizes = {f"grid_size_{axis}": size for axis, size in zip(_AXES, geometry.grid[0].tolist(), strict=True)}
    sizes |= {
        f"block_size_{axis}": size for axis, size in zip(_AXES, geometry.block[0].tolist(), strict=True)
    }
    dims = {f"DIM_{dim}": size for dim, size in workload.dims.items()}
    return {**sizes, **dims, **config.decisions, "kernel_tuner": 1}


def _compile(family: CudaFamily, candidate: Candidate, architecture: str, library: Path) -> None:
    compiled, geometry, positions = _compiled(family, candidate, architecture)
    dynamic = int(geometry.dynamic_bytes[0])
    check_shared_bytes(static_shared_bytes(compiled.cubin, compiled.kernel) + dynamic, architecture)
    grid, block = geometry.grid[0].tolist(), geometry.block[0].tolist()
    note = LaunchNote(compiled.kernel, tuple(grid), tuple(block), dynamic, positions)
    write_artifact(library, compiled.cubin, note)


def _compiled(
    family: CudaFamily, candidate: Candidate, architecture: str
) -> tuple[Compiled, Geometry, dict[str, int]]:
    """Compile a candidate; return its launch too, and which argument each array in constant memory is."""
    workload, config = candidate.workload, candidate.config
    columns = ConfigBatch.from_configs(workload, [config]).decisions
    geometry = family.geometry(workload, columns, 1)
    stated = max((launch.shared_bytes for launch in candidate.launches), default=0)
    check_launch(geometry)
    check_shared_bytes(max(stated, int(geometry.dynamic_bytes[0])), architecture)
    spec = family.description.kernel_specification
    constants = {
        argument.name: position
        for position, argument in enumerate(spec.arguments)
        if argument.mem_type == "Constant"
    }
    source = CudaCode(
        family.source,
        family.kernel_file.name,
        spec.kernel_name,
        list_macros(family, workload, config, geometry),
        spec.compiler_options,
        family.kernel_file.parent,
        _declared(constants, family.source),
    )
    compiled = compile_source(source, architecture)
    return compiled, geometry, {compiled.symbols[name]: constants[name] for name in source.symbols}


def _declared(constants: Mapping[str, int], text: str) -> tuple[str, ...]:
    """Return the arrays that the source declares."""
    return tuple(name for name in constants if f"{name}[" in text and "__constant__" in text)


class CudaSource(FamilySource):
    """CUDA kernels with declared parameters: families of one's own, then those that ship.

    Args:
        places: Descriptions, or folders that hold one each.
    """

    name = "cuda"

    @classmethod
    def at(cls, place: str) -> Sequence[CudaFamily]:
        """Return the family of a description, or of the folder that holds it."""
        return (_loaded(Path(place).resolve()),)

    @classmethod
    def shipped(cls) -> Sequence[CudaFamily]:
        """Return the families in ``families``."""
        return [_loaded(folder) for folder in _shipped_folders()]

    @staticmethod
    def compile(family: CudaFamily, candidate: Candidate, architecture: str, folder: Path) -> Built:
        """Compile a candidate with NVRTC."""
        return build_cuda_family(family, candidate, architecture, folder)

    def read(
        self, candidate: Candidate, kind: TargetKind, architecture: str, cache: Path | None = None
    ) -> Reading:
        """Read a candidate's facts in the PTX that NVRTC makes of it, and its registers in the machine code.

        Nothing is kept in ``cache``.
        """
        try:
            family = next(each for each in self.families if each.space_name == candidate.space)
            assert isinstance(family, CudaFamily)
            compiled, geometry, constants = _compiled(family, candidate, architecture)
            arguments = _passed(self, candidate.workload)
            taken = [each for i, each in enumerate(arguments) if i not in constants.values()]
            return Reading(read_ptx(compiled, geometry, taken))
        except Exception as error:  # noqa: BLE001 (of NVRTC, or a text unlike any known: it stays unread)
            return Reading(note=describe_failure(error))

    def check_installed(self, kind: TargetKind) -> None:
        """Check for NVRTC."""
        check_nvrtc()

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        """Return the version of NVRTC."""
        return nvrtc_compiler()

    def prepare(self, kind: TargetKind, architecture: str) -> None:
        """Load NVRTC."""
        check_nvrtc()


@cache
def _arguments() -> dict[str, list[PtxArgument]]:
    return {}


def _passed(source: CudaSource, workload: Workload) -> list[PtxArgument]:
    """What the kernels of a workload take; made once a process."""
    known = _arguments()
    if workload.name not in known:
        written = source.outputs(workload)
        known[workload.name] = [
            PtxArgument(each.nbytes if each.ndim else 0, None if each.ndim else each.item(), i in written)
            for i, each in enumerate(source.arguments(workload))
        ]
    return known[workload.name]


@cache
def _shipped_folders() -> tuple[Path, ...]:
    return tuple(sorted(path.parent for path in SHIPPED.glob("*/*.json") if path.stem == path.parent.name))


@cache
def _loaded(path: Path) -> CudaFamily:
    return CudaFamily.load(path)
