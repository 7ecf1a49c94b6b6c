"""What the kernels of a family read and write, and what should come of it."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.kernels._reference import tolerance_of as tolerance_of_dtype
from costmodel.kernels.cuda._description import KernelDescription
from costmodel.kernels.cuda._t1 import T1Argument
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._source import as_fault_of, load_module
from costmodel.records._workload import Workload

Arrays = dict[str, NDArray[Any]]

_DATA_SEED = 20261
_SEED = 20260
_TYPES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "bool": "bool"}
_LANES = re.compile(r"(half|float|double)(2|4|8|16)")
_MOST_RANDOM = 10  # whole numbers are drawn below
_NOT_COMPUTED = 85  # in integers that a kernel writes
_MOST_BYTES = 1 << 36


class FamilyData:
    """What ``data.py`` beside a description says: facts of the data of given dims, and arrays that have them.

    Its function ``facts(dims)`` gives the numbers that the description names, at once: it is asked of each
    workload that is ranked. ``arrays(dims, rng)`` makes arguments by name, the same for the same ``rng``.

    Args:
        file: The file; it need not exist where nothing is asked of it.
        names: The facts that formulas use.
    """

    def __init__(self, file: Path, names: tuple[str, ...] = ()) -> None:
        self._file = file
        self._names = names
        self._facts: dict[tuple[tuple[str, int], ...], dict[str, float]] = {}

    def facts(self, dims: Mapping[str, int]) -> dict[str, float]:
        """Return the facts of the data of these dims.

        Raises:
            CostModelError: The file fails, or says others than the description names.
        """
        if not self._names:
            return {}
        key = tuple(dims.items())
        if key not in self._facts:
            self._facts[key] = self._checked(self._call("facts", dims), dims)
        return self._facts[key]

    def arrays(self, dims: Mapping[str, int]) -> Arrays:
        """Return the arguments by name, the same in every process.

        Raises:
            CostModelError: The file fails.
        """
        found = self._call("arrays", dims, np.random.default_rng(_DATA_SEED))
        if not isinstance(found, Mapping):
            raise CostModelError(f"{self._file}: arrays must return a dict, but got {type(found).__name__}.")
        return {name: np.asarray(array) for name, array in found.items()}

    def _call(self, name: str, dims: Mapping[str, int], *arguments: Any) -> Any:
        function = load_function(self._file, name, "dims" if name == "facts" else "dims, rng")
        try:
            return function(dict(dims), *arguments)
        except CostModelError as error:
            raise CostModelError(f"There are no data of the dims {dict(dims)}: {error}") from None
        except Exception as error:
            raise CostModelError(f"{self._file}: {name} failed on {dict(dims)}: {error!r}.") from error

    def _checked(self, found: Any, dims: Mapping[str, int]) -> dict[str, float]:
        if not isinstance(found, Mapping) or not set(self._names) <= set(found):
            raise CostModelError(f"{self._file}: facts must return a dict that has {list(self._names)}.")
        facts = {name: found[name] for name in self._names}
        for name, value in facts.items():
            if not math.isfinite(value):
                raise CostModelError(f"{self._file}: {name} of {dict(dims)} must be finite, but got {value}.")
        return facts


def load_function(file: Path, name: str, takes: str) -> Callable[..., Any]:
    """Return a function of a file of Python beside a description.

    Args:
        file: The file, which is run once a process.
        name: The function's name.
        takes: What it takes, for a message.

    Raises:
        CostModelError: There is no such file or function, or the file fails.
    """
    with as_fault_of(file):
        function = getattr(load_module(file), name, None)
    if not callable(function):
        raise CostModelError(f"{file} must define {name}({takes}).")
    return function  # type: ignore[no-any-return]


def make_kernel_arguments(
    description: KernelDescription, values: Mapping[str, Any], data: FamilyData, dims: Mapping[str, int]
) -> Arrays:
    """Return the arguments by name, the same in every process; one without axes is passed by value.

    What the kernel writes without reading it is full of NaN, or of 85 if whole numbers.

    Args:
        description: Says what they are.
        values: What its formulas may use, beside the choices of the parameters.
        data: Makes those that depend on data.
        dims: Sizes of the workload.

    Raises:
        CostModelError: A size or type is not one that there is.
    """
    rng = np.random.default_rng(_SEED)
    values = {**description.parameters, **values}
    arguments = dict(
        zip(name_arguments(description), description.kernel_specification.arguments, strict=True)
    )
    of_data = [name for name, argument in arguments.items() if argument.fill_type == "Data"]
    made = data.arrays(dims) if of_data else {}
    return {
        name: _fitting(made, argument, name, values)
        if name in of_data
        else _fill(argument, name, values, rng)
        for name, argument in arguments.items()
    }


def name_arguments(description: KernelDescription) -> list[str]:
    """Return the name of each argument; one without is called by its position, as in ``arg2``."""
    arguments = description.kernel_specification.arguments
    names = [argument.name or f"arg{position}" for position, argument in enumerate(arguments)]
    if len(set(names)) < len(names):
        raise CostModelError(f"Arguments must each have a name of their own, but got {names}.")
    return names


def find_outputs(description: KernelDescription) -> tuple[int, ...]:
    """Return positions of the arguments that are compared: those called Output, or else all that are written.

    Raises:
        CostModelError: There are none.
    """
    arguments = description.kernel_specification.arguments
    said = tuple(i for i, argument in enumerate(arguments) if argument.output)
    written = tuple(i for i, argument in enumerate(arguments) if argument.access_type != "ReadOnly")
    if not (said or written):
        raise CostModelError(
            "Some argument must have the AccessType WriteOnly or ReadWrite: the output of "
            f"{description.kernel_specification.kernel_name}."
        )
    return said or written


def find_tolerance(description: KernelDescription) -> float:
    """Largest relative error of an output of the narrowest type that is compared; 0 for whole numbers."""
    arguments = description.kernel_specification.arguments
    types = [_dtype(arguments[position])[0] for position in find_outputs(description)]
    return max(map(tolerance_of_dtype, types))


def compute_reference(
    file: Path, description: KernelDescription, arguments: Arrays, workload: Workload
) -> list[NDArray[Any]]:
    """Tell what the outputs should hold, by ``reference.py`` beside the description.

    Raises:
        CostModelError: It fails, or gives other names or sizes.
    """
    specified = description.kernel_specification.arguments
    inputs = {
        name: array
        for (name, array), argument in zip(arguments.items(), specified, strict=True)
        if argument.access_type != "WriteOnly"
    }
    outputs = [name_arguments(description)[position] for position in find_outputs(description)]
    reference = load_function(file, "reference", "inputs, dims")
    try:
        found = reference(inputs, dict(workload.dims))
    except Exception as error:
        raise CostModelError(f"{file}: reference failed on {workload.name}: {error!r}.") from error
    return [_output(file, name, found, arguments[name]) for name in outputs]


def _output(file: Path, name: str, found: Any, like: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(found, Mapping) or name not in found:
        raise CostModelError(f"{file}: reference must return a dict that has the output {name!r}.")
    array = np.asarray(found[name])
    if array.size != like.size:
        raise CostModelError(
            f"{file}: {name} must have {like.size} elements, but reference gave {array.shape}."
        )
    return array.reshape(like.shape)


def _fill(
    argument: T1Argument, name: str, values: Mapping[str, Any], rng: np.random.Generator
) -> NDArray[Any]:
    dtype, lanes = _dtype(argument)
    if argument.memory_type == "Scalar":
        value = argument.fill_value
        if isinstance(value, str):
            value = Formula(value).value(values)
        return np.array(value, dtype)
    size = _elements(argument, name, values, dtype, lanes)
    is_float = dtype.startswith("float")
    if argument.access_type == "WriteOnly":
        return np.full(size, np.nan if is_float else _NOT_COMPUTED, dtype)
    if argument.fill_type == "Constant":
        return np.full(size, argument.fill_value, dtype)
    drawn = (
        rng.standard_normal(size)
        if is_float
        else rng.integers(2 if dtype == "bool" else _MOST_RANDOM, size=size)
    )
    return drawn.astype(dtype)


def _fitting(made: Arrays, argument: T1Argument, name: str, values: Mapping[str, Any]) -> NDArray[Any]:
    """Return the array that was made for an argument, flat and checked."""
    if name not in made:
        raise CostModelError(f"arrays of data.py must make {name}, but made {', '.join(made) or 'none'}.")
    dtype, lanes = _dtype(argument)
    size = _elements(argument, name, values, dtype, lanes)
    array = made[name]
    if array.dtype != dtype or array.size != size:
        raise CostModelError(
            f"arrays of data.py must make {name} of {size} elements of {dtype}, but made {array.size} of "
            f"{array.dtype}."
        )
    return np.ascontiguousarray(array).reshape(-1)


def _elements(argument: T1Argument, name: str, values: Mapping[str, Any], dtype: str, lanes: int) -> int:
    """Return the number of elements of an array."""
    size = Formula(argument.size).whole_number(values) * lanes
    if not 0 < size * np.dtype(dtype).itemsize <= _MOST_BYTES:
        raise CostModelError(f"Argument {name} must have 1 byte to 64 GiB, but its size is {size} elements.")
    return size


def _dtype(argument: T1Argument) -> tuple[str, int]:
    """Return NumPy's name of the type, and how many of it an element has, as 4 of float4.

    Raises:
        CostModelError: It is no type of T1, or ``custom``.
    """
    found = _LANES.fullmatch(argument.type)
    name, lanes = (found[1], int(found[2])) if found else (argument.type, 1)
    name = _TYPES.get(name, name)
    if not re.fullmatch(r"bool|float(16|32|64)|u?int(8|16|32|64)", name):
        raise CostModelError(
            f"Type of argument {argument.name} must be one of T1's, but got {argument.type!r}."
        )
    return name, lanes
