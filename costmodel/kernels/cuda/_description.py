"""A description of a tunable kernel in T1, read and checked."""

from pathlib import Path

import msgspec

from costmodel.errors import CostModelError
from costmodel.kernels.cuda._t1 import Choice, ConfigurationSpace, KernelSpecification, WorkloadSection
from costmodel.kernels.family._formula import Formula
from costmodel.reading import exists, is_folder, read_json


class Description(msgspec.Struct, frozen=True, rename="pascal"):
    """A T1 file.

    Attributes:
        configuration_space: The configs.
        kernel_specification: The kernel.
        workload: What it computes.
    """

    configuration_space: ConfigurationSpace
    kernel_specification: KernelSpecification
    workload: WorkloadSection = WorkloadSection()

    @property
    def parameters(self) -> dict[str, tuple[Choice, ...]]:
        """The choices of each parameter, in order."""
        return {each.name: each.choices for each in self.configuration_space.tuning_parameters}

    @property
    def defaults(self) -> dict[str, Choice]:
        """The default of each parameter; they need not meet the conditions."""
        return {each.name: each.default_choice for each in self.configuration_space.tuning_parameters}

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """What must hold of each config."""
        space = self.configuration_space
        return tuple(Formula(each.expression) for each in (*space.conditions, *space.constraints))

    @property
    def dims(self) -> dict[str, int]:
        """Each dimension and its size by default.

        Raises:
            CostModelError: There is no section of them, and the problem size is not in numbers.
        """
        if self.workload.dims:
            return self.workload.dims
        sizes = self.kernel_specification.problem_sizes
        if not all(isinstance(size, int) for size in sizes):
            raise CostModelError(
                f"ProblemSize must be whole numbers, or Workload.Dims must name the dimensions, but got "
                f"{list(sizes)}."
            )
        return {dim: int(size) for dim, size in zip("xyz", sizes, strict=False)}

    @property
    def sizes_are_dims(self) -> bool:
        """Whether the problem size is the dims: there is no section of them."""
        return not self.workload.dims


def read_description(path: Path) -> Description:
    """Read a T1 file.

    Raises:
        CostModelError: It cannot be read, or a field is missing or not as it must be.
    """
    description: Description = read_json(path, Description, "a T1 description of a kernel")
    try:
        _check(description)
    except CostModelError as error:
        raise CostModelError(f"{path}: {error}") from None
    return description


def find_description(path: Path) -> Path:
    """The description that a path names: the file itself, or of a folder the one named as the folder.

    Raises:
        CostModelError: The folder has none, or several and none of its own name.
    """
    if not is_folder(path):
        return path
    named = path / f"{path.resolve().name}.json"
    found = [named] if exists(named) else sorted(path.glob("*.json"))
    if len(found) != 1:
        got = ", ".join(each.name for each in found) or "none"
        raise CostModelError(f"{path} must hold one description in JSON, or {named.name}, but got {got}.")
    return found[0]


def _check(description: Description) -> None:
    """Check what the types cannot say."""
    names = [each.name for each in description.configuration_space.tuning_parameters]
    if not names or len(set(names)) < len(names) or not all(name.isidentifier() for name in names):
        raise CostModelError(
            f"TuningParameters must be one or more, each with its own name that C++ takes, but got {names}."
        )
    dims = description.dims
    if any(not (len(dim) == 1 and dim.isascii() and dim.islower()) or size < 1 for dim, size in dims.items()):
        raise CostModelError(f"Each of Workload.Dims must be a letter and a positive size, but got {dims}.")
    facts = description.workload.facts
    if any(len(fact) < 2 or not fact.isidentifier() for fact in facts):
        raise CostModelError(f"Workload.Facts must be names of two letters or more, but got {list(facts)}.")
    if facts and not description.workload.dims:
        raise CostModelError("Workload.Dims must name the dimensions where Workload.Facts are named.")
    if shared := set(names) & {*dims, *facts}:
        raise CostModelError(
            f"Parameters must not have the names of dims or facts, but got {sorted(shared)} as both."
        )
    for start in description.workload.starts:
        for name, choice in start.items():
            if choice not in description.parameters.get(name, ()):
                raise CostModelError(
                    f"Workload.Starts must be choices of parameters, but got {name}: {choice}."
                )
    known = {*description.parameters, *dims, *facts, "ProblemSize"}
    for condition in description.conditions:
        condition.check_names(known)
