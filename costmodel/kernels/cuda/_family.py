"""A family: a CUDA kernel with declared parameters, its description, and what its result should be."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.kernels.cuda._arguments import (
    Arrays,
    FamilyData,
    compute_reference,
    find_outputs,
    find_tolerance,
    make_kernel_arguments,
    name_arguments,
)
from costmodel.kernels.cuda._description import (
    KernelDescription,
    LaunchRules,
    find_description,
    read_description,
)
from costmodel.kernels.cuda._nvrtc import is_of_nvcc
from costmodel.kernels.family._base import Choice, Geometry, make_sized_workload
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._space import FamilySpace
from costmodel.reading import MOST_SETTINGS, exists, is_file, read_bytes, read_text
from costmodel.records._workload import Workload

_DATA = "data.py"
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class CudaFamily:
    """A CUDA kernel with declared parameters; read from its files by ``load``.

    Attributes:
        file: The description.
        description: What it says.
        source: Text of the kernel's file.

    Example:
        >>> family = CudaFamily.load("costmodel/kernels/cuda/families/transpose")
        >>> family.workload(m=1024).name
        'cuda.transpose-m1024-n8192'
    """

    file: Path
    description: KernelDescription
    source: str

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a family from its description, or from the folder that holds it.

        Raises:
            CostModelError: A file is missing, or a field or formula is not as it must be.
        """
        file = find_description(Path(path))
        description = read_description(file)
        spec = description.kernel_specification
        if spec.language.upper() != "CUDA":
            raise CostModelError(f"{file}: Language must be CUDA to build kernels, but got {spec.language}.")
        try:
            source = read_text(file.parent / spec.kernel_file, "source, as KernelFile names it")
            family = cls(file.resolve(), description, source)
            family._check()
        except (CostModelError, ValueError) as error:
            raise CostModelError(f"{file}: {error}") from None
        return family

    @property
    def name(self) -> str:
        """Name of the description's file, in letters that names of workloads take."""
        return re.sub(r"\W", "_", self.file.stem, flags=re.ASCII)

    @property
    def kind(self) -> str:
        """Kind of its workloads: the operator that it computes, or ``cuda.`` and its name."""
        return self.description.workload.operator or f"cuda.{self.name}"

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.file.parent

    @property
    def kernel_file(self) -> Path:
        """The file of the kernel."""
        return self.folder / self.description.kernel_specification.kernel_file

    @cached_property
    def space_name(self) -> str:
        """``cuda-<name>-<hash>`` of all that its kernels depend on."""
        return f"cuda-{self.name}-{self._hash()[:8]}"

    @property
    def library(self) -> Path:
        """The file with what a user of PyTorch would call; there need be none."""
        return self.folder / "library.py"

    @property
    def library_calls(self) -> tuple[str, ...]:
        """Names of its functions, the usual one first."""
        return tuple(self.description.workload.library)

    def call_facts(self, workload: Workload, call: str) -> dict[str, int]:
        """What one of these calls computes and moves, by field of ``KernelLaunch``, as far as it is known."""
        return self.rules.call_facts(call, self._known(workload.dims))

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Names of what its kernel takes, in its order."""
        return tuple(name_arguments(self.description))

    @cached_property
    def data(self) -> FamilyData:
        """What the data of its workloads are like."""
        return FamilyData(self.folder / _DATA, self.description.workload.facts)

    @cached_property
    def rules(self) -> LaunchRules:
        """What it says of launches."""
        return LaunchRules(self.description)

    def workload(self, **dims: int) -> Workload:
        """Tell what it computes at these sizes; those that are not given are the description's.

        Raises:
            CostModelError: It has no such dimension, or a size is not positive.
        """
        return make_sized_workload(
            self.name, self.kind, self.description.dims, self.description.workload.dtype, dims
        )

    def computes(self, workload: Workload) -> bool:
        """Tell whether a workload is one of its own."""
        return (
            workload.kind == self.kind
            and workload.dtype == self.description.workload.dtype
            and list(workload.dims) == list(self.description.dims)
        )

    def space(self, workload: Workload | None = None) -> FamilySpace:
        """Return the configs for a workload; for that of the description's dims if None."""
        return FamilySpace(self, workload or self.workload())

    @property
    def choices(self) -> dict[str, tuple[Choice, ...]]:
        """The choices of each parameter, in order."""
        return self.description.parameters

    @property
    def default_choices(self) -> dict[str, Choice]:
        """The default of each parameter; they need not meet the conditions."""
        return self.description.defaults

    @property
    def other_starts(self) -> tuple[Mapping[str, Choice], ...]:
        """What is changed of the default in each other config that is measured first."""
        return self.description.workload.starts

    @property
    def condition_formulas(self) -> tuple[Formula, ...]:
        """What must hold of each config."""
        return self.description.conditions

    def fixed(self, dims: Mapping[str, int]) -> dict[str, Any]:
        """What conditions may use beside the parameters: the dims, facts, ``ProblemSize`` if these say it."""
        return self.rules.fixed(self._known(dims))

    def geometry(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> Geometry:
        """Return grid, block and dynamic shared memory of each config."""
        return self.rules.geometry(columns, self._known(workload.dims), rows)

    def launches(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> dict[str, FloatArray]:
        """Return each field of ``KernelLaunch`` as ``(n, 1)``, 0 where nothing says it."""
        return self.rules.facts(columns, self._known(workload.dims), rows, workload.flops)

    def own_arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Tell what the description fills, and what ``data.py`` makes."""
        return list(self._arguments(workload).values())

    def own_outputs(self, workload: Workload) -> tuple[int, ...]:
        """Return the positions of the arguments that are compared."""
        return find_outputs(self.description)

    def own_reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """Tell what ``reference.py`` gives; None where there is none."""
        file = self.folder / "reference.py"
        if not exists(file):
            return None
        return compute_reference(file, self.description, self._arguments(workload), workload)

    def own_tolerance(self, workload: Workload) -> float:
        """Return the largest relative error of the outputs that is rounding."""
        return find_tolerance(self.description)

    @property
    def remarks(self) -> list[str]:
        """What a user should know of it, in sentences."""
        remarks = []
        options = [
            each for each in self.description.kernel_specification.compiler_options if is_of_nvcc(each)
        ]
        if options:
            remarks.append(
                f"CompilerOptions of nvcc that NVRTC does not take are left out: {', '.join(options)}."
            )
        if not self.description.workload.operator and not exists(self.folder / "reference.py"):
            remarks.append(
                "There is no reference.py: results are compared with those of the first config that runs, "
                "which may be wrong itself."
            )
        return remarks

    def _known(self, dims: Mapping[str, int]) -> dict[str, float]:
        """Tell what formulas may use of a workload: its dims, and the facts of its data."""
        return {**dims, **self.data.facts(dims)}

    def _arguments(self, workload: Workload) -> Arrays:
        return make_kernel_arguments(self.description, self.fixed(workload.dims), self.data, workload.dims)

    def _check(self) -> None:
        """Check that formulas and dims fit each other and, where there is one, the operator."""
        workload, _ = self.workload(), self.rules
        if list(workload.dims) != list(self.description.dims):
            raise CostModelError(f"Workload.Dims must be {list(workload.dims)}, in this order.")
        if self.library_calls and len(find_outputs(self.description)) != 1:
            raise CostModelError(
                "A family with Workload.Library must have one output, but got "
                f"{len(find_outputs(self.description))}."
            )

    def _hash(self) -> str:
        """Return the hash of the source, of what it includes beside it, of the data, and of the description.

        Costs and defaults do not enter: they change no kernel.
        """
        digest = hashlib.sha256(self.source.encode())
        for included in _included(self.source, self.folder):
            digest.update(_read(included))
        if is_file(data := self.folder / _DATA):
            digest.update(_read(data))
        section = self.description.workload
        kept = (
            self.description.parameters,
            [condition.text for condition in self.description.conditions],
            self.description.kernel_specification,
            section.operator,
            section.dtype,
        )
        digest.update(msgspec.json.encode(kept))
        return digest.hexdigest()


def _read(file: Path) -> bytes:
    return read_bytes(file, "a file beside the source of a kernel", most_bytes=MOST_SETTINGS)


def _included(source: str, folder: Path) -> list[Path]:
    """Return the files beside the source that it includes, and those that these do, in order."""
    found: dict[Path, None] = {}
    open_ = [source]
    while open_:
        for name in _INCLUDE.findall(open_.pop()):
            file = folder / name
            if is_file(file) and file not in found:
                found[file] = None
                open_.append(_read(file).decode(errors="replace"))
    return list(found)
