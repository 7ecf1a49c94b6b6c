"""A description of a tunable kernel in T1, read and checked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.kernels.cuda._t1 import ConfigurationSpace, KernelSpecification, WorkloadSection
from costmodel.kernels.family._base import Choice, Geometry, compute_launch_columns
from costmodel.kernels.family._formula import Expression, Formula
from costmodel.reading import exists, is_folder, read_json

_BLOCK_SIZES = ("block_size_x", "block_size_y", "block_size_z")  # Kernel Tuner's names


class KernelDescription(msgspec.Struct, frozen=True, rename="pascal"):
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


def read_description(path: Path) -> KernelDescription:
    """Read a T1 file.

    Raises:
        CostModelError: It cannot be read, or a field is missing or not as it must be.
    """
    description: KernelDescription = read_json(path, KernelDescription, "a T1 description of a kernel")
    try:
        _check(description)
    except CostModelError as error:
        raise CostModelError(f"{path}: {error}") from None
    return description


def find_description(path: Path) -> Path:
    """Return the description that a path names: the file itself, or of a folder the one named as the folder.

    Raises:
        CostModelError: The folder has none, or several and none of its own name.
    """
    if not is_folder(path):
        return path
    named = path / f"{path.resolve().name}.json"
    found = [named] if exists(named) else sorted(path.glob("*.json"))
    if len(found) != 1:
        got = ", ".join(each.name for each in found) or "none"
        raise CostModelError(
            f"{path} must hold family.py, of Triton kernels, or one description in JSON, of a CUDA "
            f"kernel, or {named.name}, but got {got}."
        )
    return found[0]


def _check(description: KernelDescription) -> None:
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


class LaunchRules:
    """The formulas of a description for launches, over many configs at once.

    Raises:
        CostModelError: A formula uses a name that there is not, or nothing says how many threads a block has.
    """

    def __init__(self, description: KernelDescription) -> None:
        self._description = description
        spec, names = description.kernel_specification, description.parameters
        if spec.local_size is None and _BLOCK_SIZES[0] not in names:
            raise CostModelError(
                "LocalSize must say the threads of a block, or a parameter block_size_x, but neither does."
            )
        sizes = spec.local_size
        block: tuple[Expression, ...] = (
            (sizes.x, sizes.y, sizes.z)
            if sizes
            else tuple(name if name in names else 1 for name in _BLOCK_SIZES)
        )
        by_default = ((name,) if name in names else () for name in _BLOCK_SIZES)
        divisors = [given or other for given, other in zip(spec.grid_divisors, by_default, strict=True)]
        self._problem = [Formula(size) for size in (*spec.problem_sizes, 1, 1)[:3]]
        self._block = [Formula(size) for size in block]
        self._divisors = [[Formula(each) for each in axis] for axis in divisors]
        self._dynamic = Formula(spec.shared_memory)
        stated = msgspec.structs.asdict(description.workload.launch)
        self._facts = {name: Formula(text) for name, text in stated.items() if text is not None}
        if description.workload.flops is not None:
            self._facts["flops"] = Formula(description.workload.flops)
        self._calls = {
            call: {
                name: Formula(text) for name, text in msgspec.structs.asdict(said).items() if text is not None
            }
            for call, said in description.workload.library.items()
        }
        self._check_names()

    def values(self, columns: Mapping[str, Any], dims: Mapping[str, float]) -> dict[str, Any]:
        """Tell what formulas may use: the columns of the parameters, dims with facts, and ``ProblemSize``."""
        values = {**columns, **dims}
        return {**values, "ProblemSize": self._problem_sizes(values, dims)}

    def fixed(self, dims: Mapping[str, float]) -> dict[str, Any]:
        """What conditions may use beside the parameters: the dims, and ``ProblemSize`` where these say it."""
        needed = {name for size in self._problem for name in size.names}
        return self.values({}, dims) if needed <= set(dims) else dict(dims)

    def geometry(self, columns: Mapping[str, Any], dims: Mapping[str, float], rows: int) -> Geometry:
        """Return grid, block and dynamic shared memory of each config."""
        values = self.values(columns, dims)
        block = np.stack([_whole(size, values, rows) for size in self._block], axis=1)
        sizes = self._problem_columns(values, dims, rows)
        divisors = [_product_of(axis, values, rows) for axis in self._divisors]
        grid = np.stack(list(map(_divided_up, sizes, divisors)), axis=1)
        counts = Geometry(grid, block, np.zeros(rows, dtype=np.int64)).counts
        return Geometry(grid, block, _whole(self._dynamic, {**values, **counts}, rows))

    def facts(
        self, columns: Mapping[str, Any], dims: Mapping[str, float], rows: int, flops: int = 0
    ) -> dict[str, FloatArray]:
        """Return each field of ``KernelLaunch`` as ``(n, 1)``, 0 where nothing says it.

        Args:
            columns: Parameters of the configs.
            dims: Sizes of the workload, and facts of its data.
            rows: Number of configs, n.
            flops: Operations of a run where the description does not say them; 0 where unknown.
        """
        geometry, values = self.geometry(columns, dims, rows), self.values(columns, dims)
        return compute_launch_columns(geometry, self._facts, values, flops or None)

    def call_facts(self, call: str, dims: Mapping[str, float]) -> dict[str, int]:
        """Tell what is said of a library's call, by field of ``KernelLaunch``, in whole numbers."""
        return {name: int(formula.value(dims)) for name, formula in self._calls[call].items()}

    def _problem_sizes(self, values: Mapping[str, Any], dims: Mapping[str, float]) -> list[Any]:
        if self._description.sizes_are_dims:
            return list(dims.values())
        given = len(self._description.kernel_specification.problem_sizes)
        return [size.value(values) for size in self._problem[:given]]

    def _problem_columns(
        self, values: Mapping[str, Any], dims: Mapping[str, float], rows: int
    ) -> list[NDArray[np.int64]]:
        if not self._description.sizes_are_dims:
            return [_whole(size, values, rows) for size in self._problem]
        return [np.full(rows, size) for size in (*dims.values(), 1, 1)[:3]]

    def _check_names(self) -> None:
        section = self._description.workload
        known = {*self._description.parameters, *self._description.dims, *section.facts}
        for formula in (*self._problem, *(each for call in self._calls.values() for each in call.values())):
            formula.check_names(known)
        known |= {"ProblemSize"}
        for formula in (*self._block, *(each for axis in self._divisors for each in axis)):
            formula.check_names(known)
        known |= {"blocks", "threads"}
        for formula in (self._dynamic, *self._facts.values()):
            formula.check_names(known)


def _whole(formula: Formula, values: Mapping[str, Any], rows: int) -> NDArray[np.int64]:
    """Return ``(rows,)`` whole numbers, rounded towards zero as Kernel Tuner does."""
    return formula.column(values, rows).astype(np.int64)


def _product_of(formulas: Sequence[Formula], values: Mapping[str, Any], rows: int) -> NDArray[np.int64]:
    """Return ``(rows,)`` products; 1 of nothing."""
    columns = [_whole(formula, values, rows) for formula in formulas]
    return np.prod(columns, axis=0, dtype=np.int64) if columns else np.ones(rows, dtype=np.int64)


def _divided_up(sizes: NDArray[np.int64], divisors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``(rows,)`` quotients, rounded up; 0, which is no grid, where a divisor is not positive."""
    return np.where(divisors > 0, -(-sizes // np.maximum(divisors, 1)), 0)
