"""The sections of T1, the schema that autotuners share to describe tunable kernels, and one of our own.

Fields that the community's files have and nothing here needs are ignored; our section ``Workload`` is read
strictly. Numbers and formulas are interchangeable wherever a size is asked for.

Source: https://github.com/odgaard/TuningSchema, as Kernel Tuner 1.5 reads it (``tune_kernel_T1``).
"""

from typing import Any, Literal

import msgspec

from costmodel.errors import CostModelError, shorten
from costmodel.kernels.family._base import Choice
from costmodel.kernels.family._formula import Expression, Formula


class TuningParameter(msgspec.Struct, frozen=True, rename="pascal"):
    """A parameter that the compiler gets as a macro.

    Attributes:
        name: Its name, and the macro's.
        type: Type of its values.
        values: The choices, as a list or as the text of one.
        default: The choice that is taken where nothing is known; a list holds it alone.
    """

    name: str
    type: Literal["int", "uint", "float", "bool", "string"]
    values: str | list[Any]
    default: Any = None

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The values, in the order in which they are given; truth is 1 or 0.

        Raises:
            CostModelError: They are not values of this type, or the same one comes twice.
        """
        found = Formula(self.values).value({}) if isinstance(self.values, str) else self.values
        if not isinstance(found, list | tuple) or not found:
            raise CostModelError(f"Values of {self.name} must be a list, and not empty, but got {found!r}.")
        choices = tuple(_choice(self.name, self.type, value) for value in found)
        if len(set(choices)) < len(choices):
            raise CostModelError(f"Values of {self.name} must each come once, but got {list(choices)}.")
        return choices

    @property
    def default_choice(self) -> Choice:
        """The default, or the first choice where there is none among the choices."""
        said = self.default[0] if isinstance(self.default, list) and self.default else self.default
        choices = self.choices
        return next((choice for choice in choices if choice == said), choices[0])


class T1Condition(msgspec.Struct, frozen=True, rename="pascal"):
    """What must hold of a config.

    Attributes:
        expression: A formula of parameters and dims.
    """

    expression: str


class ConfigurationSpace(msgspec.Struct, frozen=True, rename="pascal"):
    """The configs.

    Attributes:
        tuning_parameters: The parameters.
        conditions: What must hold of each config.
        constraints: The same under another name.
    """

    tuning_parameters: tuple[TuningParameter, ...]
    conditions: tuple[T1Condition, ...] = ()
    constraints: tuple[T1Condition, ...] = ()


class BlockSize(msgspec.Struct, frozen=True, rename="pascal"):
    """Threads of a block along each axis."""

    x: Expression
    y: Expression = 1
    z: Expression = 1


class T1Argument(msgspec.Struct, frozen=True, rename="pascal"):
    """An argument of the kernel.

    Attributes:
        type: Type of an element.
        memory_type: ``Vector`` for an array, ``Scalar`` for a value.
        name: Its name.
        access_type: What the kernel does to it.
        fill_type: ``Random`` for normal numbers (whole ones from 0 to 9), ``Constant`` for a value, ``Data``
            for what ``data.py`` beside the description makes.
        fill_value: The value; of a scalar it may be a formula, as for `size`.
        size: Number of elements: a formula of dims, ``ProblemSize`` and the parameters' lists of values.
        mem_type: ``Constant`` where it is also copied into the ``__constant__`` array of this name.
        output: Whether it is compared; what the kernel writes is if no argument says so.
    """

    type: str
    memory_type: Literal["Vector", "Scalar"]
    name: str = ""
    access_type: Literal["ReadOnly", "WriteOnly", "ReadWrite"] = "ReadOnly"
    fill_type: Literal["Constant", "Random", "Data"] = "Constant"
    fill_value: Expression | bool = 0
    size: Expression = 1
    mem_type: str = ""
    output: int | bool = 0


class KernelSpecification(msgspec.Struct, frozen=True, rename="pascal"):
    """The kernel and how it is launched.

    The grid has ceil(problem size / product of the grid divisors) blocks along each axis. As in Kernel Tuner
    the sizes of a block are the parameters ``block_size_x``, ``_y``, ``_z`` unless ``LocalSize`` says them,
    and they are the grid divisors where none are given.

    Attributes:
        language: Only CUDA can be built.
        kernel_name: Name of the kernel's function.
        kernel_file: The file, beside the description.
        problem_size: Size of the problem along each axis.
        compiler_options: Options of the compiler.
        local_size: Threads of a block.
        grid_div_x: Divisors along x.
        grid_div_y: Divisors along y.
        grid_div_z: Divisors along z.
        shared_memory: Bytes of dynamic shared memory.
        arguments: The kernel's arguments, in order.
    """

    language: str
    kernel_name: str
    kernel_file: str
    problem_size: Expression | tuple[Expression, ...]
    compiler_options: tuple[str, ...] = ()
    local_size: BlockSize | None = None
    grid_div_x: tuple[Expression, ...] | None = None
    grid_div_y: tuple[Expression, ...] | None = None
    grid_div_z: tuple[Expression, ...] | None = None
    shared_memory: Expression = 0
    arguments: tuple[T1Argument, ...] = ()

    @property
    def problem_sizes(self) -> tuple[Expression, ...]:
        """Sizes along one to three axes."""
        sizes = self.problem_size
        return sizes if isinstance(sizes, tuple) else (sizes,)

    @property
    def grid_divisors(self) -> tuple[tuple[Expression, ...] | None, ...]:
        """Divisors along each axis; None where none are given."""
        given = (self.grid_div_x, self.grid_div_y, self.grid_div_z)
        return tuple(divisors or None for divisors in given)


class LaunchFormulas(msgspec.Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """What one run moves and computes, see ``costmodel.records.KernelLaunch``; None where not known."""

    shared_bytes: Expression | None = None
    local_bytes: Expression | None = None
    global_load_bytes: Expression | None = None
    global_store_bytes: Expression | None = None
    shared_load_bytes: Expression | None = None
    shared_store_bytes: Expression | None = None
    tensor_flops: Expression | None = None
    vector_bytes: Expression | None = None
    unroll_steps: Expression | None = None
    device_bytes: Expression | None = None
    atomics: Expression | None = None
    atomic_addresses: Expression | None = None
    busiest_block_bytes: Expression | None = None
    longest_chain: Expression | None = None


class CallFormulas(msgspec.Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """What one call of a library computes and moves, whatever its kernels; None where not known.

    Formulas of dims and facts, see ``costmodel.records.KernelLaunch``.
    """

    flops: Expression | None = None
    tensor_flops: Expression | None = None
    global_load_bytes: Expression | None = None
    global_store_bytes: Expression | None = None
    device_bytes: Expression | None = None
    atomics: Expression | None = None
    atomic_addresses: Expression | None = None


class WorkloadSection(msgspec.Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """What the kernel computes: our own section.

    Attributes:
        dims: Each dimension, a letter, and its size where nothing else is asked for. Without any they are x,
            y and z: the problem size.
        operator: Operator of ``costmodel.records.OPERATORS`` that it computes; empty for another workload.
        dtype: Element type where there is an operator.
        flops: Arithmetic operations of one run.
        bytes: Fewest bytes through device memory of one run.
        launch: What a launch moves.
        facts: Names of the numbers that ``data.py`` beside the description says of the data of given dims.
        starts: What is changed of the default in each other config that is measured before those of a search.
        library: Functions in ``library.py`` beside the description that a user of PyTorch would call instead,
            the usual one first, and what each computes and moves.
    """

    dims: dict[str, int] = {}
    operator: str = ""
    dtype: str = ""
    flops: Expression | None = None
    bytes: Expression | None = None
    launch: LaunchFormulas = LaunchFormulas()
    facts: tuple[str, ...] = ()
    starts: tuple[dict[str, Choice], ...] = ()
    library: dict[str, CallFormulas] = {}


def _choice(name: str, kind: str, value: Any) -> Choice:
    """Return one value of a parameter."""
    is_number = isinstance(value, int | float) and abs(value) < 2**63  # infinity is none, nor NaN
    if kind == "string" and isinstance(value, str):
        return value
    if kind == "bool" and is_number and value in (0, 1):
        return int(value)
    if kind == "float" and is_number and not isinstance(value, bool):
        return float(value)
    if kind in ("int", "uint") and is_number and value == int(value):
        return int(value)
    raise CostModelError(f"Values of {name} must be of type {kind}, but got {shorten(repr(value))}.")
