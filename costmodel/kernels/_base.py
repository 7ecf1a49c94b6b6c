"""The contract of a kernel source: where the kernels of a workload come from."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from costmodel.kernels._artifact import Built
from costmodel.kernels._design_space import DesignSpace
from costmodel.kernels._read_facts import Reading
from costmodel.kernels._reference import make_arguments, reference_output, tolerance_of
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload


class KernelSource(ABC):
    """Makes kernels of workloads, on a machine that need not have the target device.

    A source is small, can be sent to another process, and imports heavy packages only where they are used.
    The inputs and the expected outputs of a kernel are those of the operator, unless a source has workloads
    of its own.

    Attributes:
        name: Name of the source, such as ``metaschedule``. The names of its spaces begin with it.
        artifact: Suffix of the files that it builds. It determines which part of a device's process runs
            them.
        modules: Modules whose import takes most of the time in which a builder starts.
        unshared_modules: Those that each builder imports itself: what they open does not survive a fork.
    """

    name: ClassVar[str]
    artifact: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    unshared_modules: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """Return whether the source has kernels of a workload for a kind of device."""

    def is_of(self, candidate: Candidate) -> bool:
        """Return whether a candidate is of a space of this source."""
        return candidate.source == self.name

    @abstractmethod
    def space(self, workload: Workload, kind: TargetKind) -> DesignSpace:
        """Return the space of all kernels that the source can make of a workload.

        Raises:
            CostModelError: If it makes none, or a package that it needs is not installed.
        """

    def check_installed(self, kind: TargetKind) -> None:  # noqa: B027 (a source may need nothing)
        """Check that kernels can be built and run on this machine.

        Raises:
            CostModelError: If something is missing.
        """

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        """Return the versions of the local compilers by name, without those that a device process reports."""
        return {}

    def prepare(self, kind: TargetKind, architecture: str) -> None:  # noqa: B027 (nor prepare anything)
        """Do once per build worker what every build needs, such as an import."""

    @abstractmethod
    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Build a candidate unless it is built already. Runs in a build worker; a failure is an outcome.

        Args:
            candidate: A candidate of a space of this source.
            kind: Kind of device.
            architecture: Architecture of the device, such as ``sm_90``.
            folder: Folder of the artifact, whose name is the candidate's id followed by ``artifact``.
        """

    def read(
        self, candidate: Candidate, kind: TargetKind, architecture: str, cache: Path | None = None
    ) -> Reading:
        """Read what a candidate's kernel does from its intermediate code, which is not compiled further.

        Runs in a build worker; what fails is a note.

        Args:
            candidate: A candidate of a space of this source.
            kind: Kind of device.
            architecture: Architecture of the device, such as ``sm_90``.
            cache: Folder where intermediate code is kept; None keeps none.
        """
        return Reading(note=f"{self.name} has no kernel of {candidate.space} that it can read.")

    def arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Return a kernel's arguments in order, equal in every process; one without axes is passed by value.

        Arguments that a kernel writes without reading are filled with NaN, or with a number that it will not
        compute, so that elements that are never written are detected.
        """
        return make_arguments(workload)

    def outputs(self, workload: Workload) -> tuple[int, ...]:
        """Return the positions of the arguments that a kernel writes."""
        return (len(workload.operator.inputs(workload.dims)),)

    def reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """Return the expected outputs after one run, computed independently of the kernels.

        Returns None if they are unknown: then the kernels of a job are compared with the first of them.
        """
        *inputs, _ = self.arguments(workload)
        return [reference_output(workload, inputs)]

    def tolerance(self, workload: Workload) -> float:
        """Return the largest relative error ``||output - reference|| / ||reference||`` due to rounding.

        Integers of more than a byte must be equal: those of one are codes of quantised numbers.
        """
        return tolerance_of(workload.dtype)
