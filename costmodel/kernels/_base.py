"""The contract of a kernel source: where the kernels of a workload come from."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from costmodel.kernels._built import Built
from costmodel.kernels._design_space import DesignSpace
from costmodel.kernels.reference import make_arguments, reference_output, tolerance_of
from costmodel.records import Candidate, TargetKind, Workload


class KernelSource(ABC):
    """Makes kernels of workloads, on a machine that need not have the device that they are for.

    A source is small and can be sent to another process; it imports what is heavy where it is used. What a
    kernel reads and should write is that of the operator, unless a source has workloads of its own.

    Attributes:
        name: What it is called, which the names of its spaces begin with, such as ``metaschedule``.
        artifact: How the files that it builds end; it says what of a device's process runs them.
    """

    name: ClassVar[str]
    artifact: ClassVar[str]

    @abstractmethod
    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """Whether it has kernels of a workload for a kind of device."""

    def is_of(self, candidate: Candidate) -> bool:
        """Whether a candidate is of a space of this source."""
        return candidate.source == self.name

    @abstractmethod
    def space(self, workload: Workload, kind: TargetKind) -> DesignSpace:
        """All kernels that it may make of a workload.

        Raises:
            CostModelError: It makes none, or what it needs is not installed.
        """

    def check_installed(self, kind: TargetKind) -> None:  # noqa: B027 (a source may need nothing)
        """Check that kernels can be built and run here.

        Raises:
            CostModelError: Something is missing.
        """

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        """Versions of what compiles its kernels here, by name, beside those that a device's process tells."""
        return {}

    def prepare(self, kind: TargetKind, architecture: str) -> None:  # noqa: B027 (nor prepare anything)
        """Pay once in a build worker's life for what every build needs, such as an import."""

    @abstractmethod
    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Build a candidate, unless it is there; runs in a build worker, failure is an outcome.

        Args:
            candidate: One of a space of this source.
            kind: Kind of device.
            architecture: Of the device, such as ``sm_90``.
            folder: Where the artifact goes: the candidate's id, and ``artifact``.
        """

    def arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """What a kernel takes, in its order, the same in every process; one without axes goes by value.

        What a kernel writes without reading it is full of NaN, or of a number that it will not compute, so
        that an element that nobody writes is seen.
        """
        return make_arguments(workload)

    def outputs(self, workload: Workload) -> tuple[int, ...]:
        """Positions of the arguments that a kernel writes."""
        return (len(workload.operator.inputs(workload.dims)),)

    def reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """What the outputs should hold after one run, computed independently of the kernels.

        None where nobody knows: then the kernels of a job are compared with the first of them.
        """
        *inputs, _ = self.arguments(workload)
        return [reference_output(workload, inputs)]

    def tolerance(self, workload: Workload) -> float:
        """Largest ``||output - reference|| / ||reference||`` that is rounding; integers must be equal."""
        return tolerance_of(workload.dtype)
