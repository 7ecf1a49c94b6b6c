"""A family: a Triton kernel with declared parameters, and what its result should be."""

import ast
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.kernels._reference import tolerance_of
from costmodel.kernels.family._base import Choice, Geometry, compute_launch_columns, make_sized_workload
from costmodel.kernels.family._formula import Expression, Formula
from costmodel.kernels.family._space import FamilySpace
from costmodel.reading import read_text
from costmodel.records._candidate import Candidate, KernelLaunch
from costmodel.records._workload import DTYPE_BYTES, Workload

Arrays = Mapping[str, NDArray[Any]]

OPTIONS = ("num_warps", "num_stages", "maxnreg")  # parameters that Triton's compiler takes, not the kernel
EPILOGUE = "EPILOGUE"  # a tl.constexpr that is told the operator's epilogue, such as "bias_gelu"
OPERATOR_OUTPUT = "output"  # what ``operands`` calls an operator's output
WARP_THREADS = 32
_SEED = 20260


@dataclass(frozen=True, kw_only=True)
class TritonFamily:
    """A Triton kernel with declared parameters.

    The kernel's own parameters are, in any order: tuned ``tl.constexpr`` (``parameters``), other
    ``tl.constexpr`` (``constants``), values (``scalars``), work memory (``scratch``) and arrays. Tuned
    parameters may also act through formulas alone, as the number of programs of a persistent kernel does. A
    kernel of an operator gets the operator's arrays (``operands``), any other those that ``arrays`` makes.

    Formulas are text over the dims and the parameters, as in descriptions of CUDA families.

    Attributes:
        name: Its name, of letters, digits and ``_``.
        kernel: File of the kernel; it holds all that the kernel calls.
        function: Name of the ``@triton.jit`` function.
        dims: Each dimension, a letter, and its size where nothing else is asked for.
        parameters: Choices of each parameter; those named in ``OPTIONS`` are the compiler's. Where they are
            left empty, ``()``, they are found by what the kernel and its grid use the parameter for.
        grid: One to three formulas: programs along each axis.
        defaults: The config that its author would ship.
        starts: What is changed of it in each other config that is measured before those of a search.
        conditions: What must hold of each config.
        scalars: Formulas of what is passed by value: whole numbers, or others as float32.
        constants: Formulas, or numbers, of ``tl.constexpr`` that are not tuned.
        scratch: Formulas of the bytes of zeroed work memory. It is zeroed once, so that a kernel that needs
            zeros at each launch leaves them.
        scratch_types: Element type of each, as NumPy names it.
        operators: Operators of ``costmodel.records.OPERATORS`` that it computes, those of one anchor; empty
            for a workload of its own, ``triton.<name>``. Where they differ in their epilogue the kernel has a
            ``tl.constexpr`` named EPILOGUE.
        dtype: Element type of the operators; arrays have their own.
        operands: The operator's input, or ``"output"``, behind each array of the kernel; None is passed where
            the operator has no such input.
        arrays: Makes all arrays of given dims by name, the same for the same ``rng``, and of the same types
            at all sizes: kernels are compiled for those at ``dims``. Outputs are full of what the kernel will
            not compute, such as NaN.
        outputs: Names of the arrays that are compared.
        reference: What the outputs should hold, from arrays and dims, computed independently.
        library: File with what a user of PyTorch would call instead: functions of the arrays' tensors by name
            that give the tensor of the one output.
        library_calls: Names of these functions, the usual one first.
        tolerance: Largest ``||output - reference|| / ||reference||`` that is rounding; by dtype if None.
        flops: Formula of the arithmetic operations of one run.
        launch: Formulas of what a launch moves, by field of ``costmodel.records.KernelLaunch``; they may also
            use ``blocks``, and ``threads`` of a block.

    Raises:
        CostModelError: Something does not fit the kernel.
    """

    name: str
    kernel: Path
    function: str
    dims: Mapping[str, int]
    parameters: Mapping[str, Sequence[Choice]]
    grid: Sequence[Expression]
    defaults: Mapping[str, Choice] = field(default_factory=dict)
    starts: Sequence[Mapping[str, Choice]] = ()
    conditions: Sequence[str] = ()
    scalars: Mapping[str, Expression] = field(default_factory=dict)
    constants: Mapping[str, Expression] = field(default_factory=dict)
    scratch: Mapping[str, Expression] = field(default_factory=dict)
    scratch_types: Mapping[str, str] = field(default_factory=dict)
    operators: Sequence[str] = ()
    dtype: str = ""
    operands: Mapping[str, str] = field(default_factory=dict)
    arrays: Callable[[Mapping[str, int], np.random.Generator], Arrays] | None = None
    outputs: Sequence[str] = ()
    reference: Callable[[Arrays, Mapping[str, int]], Arrays] | None = None
    library: Path | None = None
    library_calls: Sequence[str] = ()
    tolerance: float | None = None
    flops: Expression | None = None
    launch: Mapping[str, Expression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self._check()
        except (CostModelError, ValueError) as error:
            raise CostModelError(f"Triton family {self.name}: {error}") from None

    @property
    def kinds(self) -> Sequence[str]:
        """Kinds of its workloads: the operators, or ``triton.`` and its name."""
        return self.operators or (f"triton.{self.name}",)

    @cached_property
    def space_name(self) -> str:
        """``triton-<name>-<hash>`` of all that its kernels depend on."""
        return f"triton-{self.name}-{self._hash()[:8]}"

    @cached_property
    def choices(self) -> dict[str, tuple[Choice, ...]]:
        """The choices of each parameter, in order."""
        return {name: tuple(choices) for name, choices in self.parameters.items()}

    @property
    def default_choices(self) -> Mapping[str, Choice]:
        """The defaults; the first choice of a parameter that has none."""
        return {name: self.defaults.get(name, choices[0]) for name, choices in self.choices.items()}

    @property
    def other_starts(self) -> Sequence[Mapping[str, Choice]]:
        """What is changed of the default in each other config that is measured first."""
        return self.starts

    @cached_property
    def condition_formulas(self) -> tuple[Formula, ...]:
        """What must hold of each config."""
        return tuple(map(Formula, self.conditions))

    @cached_property
    def kernel_parameters(self) -> tuple[str, ...]:
        """Names of what the kernel takes, in its order."""
        for node in ast.walk(ast.parse(self.source, str(self.kernel))):
            if isinstance(node, ast.FunctionDef) and node.name == self.function:
                return tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args))
        raise CostModelError(f"{self.kernel} must define the function {self.function!r}, but does not.")

    @cached_property
    def source(self) -> str:
        """Text of the kernel's file."""
        return read_text(self.kernel, "the source of a kernel")

    @property
    def file(self) -> Path:
        """The kernel's file."""
        return self.kernel

    @property
    def remarks(self) -> list[str]:
        """What a user should know of it, in sentences."""
        if self.operators or self.reference:
            return []
        return [
            "There is no reference: results are compared with those of the first config that runs, which may "
            "be wrong itself."
        ]

    def workload(self, **dims: int) -> Workload:
        """Tell what it computes at these sizes; those that are not given are its own.

        Raises:
            CostModelError: It has no such dimension, or a size is not positive.
        """
        return make_sized_workload(self.name, self.kinds[0], self.dims, self.dtype, dims)

    def computes(self, workload: Workload) -> bool:
        """Tell whether a workload is one of its own."""
        return (
            workload.kind in self.kinds
            and workload.dtype == self.dtype
            and list(workload.dims) == list(self.dims)
        )

    def has(self, candidate: Candidate) -> bool:
        """Tell whether a candidate's config is one of its own parameters."""
        decisions = candidate.config.decisions
        return (
            self.computes(candidate.workload)
            and decisions.keys() == self.choices.keys()
            and all(decisions[name] in choices for name, choices in self.choices.items())
        )

    def space(self, workload: Workload | None = None) -> FamilySpace:
        """Return the configs for a workload; for that of its own dims if None."""
        return FamilySpace(self, workload or self.workload())

    def fixed(self, dims: Mapping[str, int]) -> dict[str, Any]:
        """Tell what conditions may use beside the parameters: the dims."""
        return dict(dims)

    def geometry(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> Geometry:
        """Return grid and block of each config; shared memory is the compiler's to say."""
        values = {**columns, **workload.dims}
        axes = [formula.column(values, rows).astype(np.int64) for formula in self._grid_formulas]
        warps = np.broadcast_to(np.asarray(columns.get("num_warps", 4), dtype=np.int64), (rows,))
        block = np.stack([WARP_THREADS * warps, np.ones_like(warps), np.ones_like(warps)], axis=1)
        return Geometry(np.stack(axes, axis=1), block, np.zeros(rows, dtype=np.int64))

    def launches(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> dict[str, FloatArray]:
        """Return each field of ``KernelLaunch`` as ``(n, 1)``, 0 where nothing says it."""
        geometry, values = self.geometry(workload, columns, rows), {**columns, **workload.dims}
        return compute_launch_columns(geometry, self._launch_formulas, values, workload.flops or None)

    @cached_property
    def _grid_formulas(self) -> tuple[Formula, ...]:
        """Programs along each of three axes."""
        return tuple(map(Formula, (*self.grid, 1, 1)[:3]))

    @cached_property
    def _launch_formulas(self) -> dict[str, Formula]:
        """What is said of a launch, by field of ``KernelLaunch``."""
        flops = {} if self.flops is None else {"flops": self.flops}
        return {name: Formula(text) for name, text in {**flops, **self.launch}.items()}

    @cached_property
    def argument_names(self) -> tuple[str, ...]:
        """Names of the arrays that the kernel takes, in its order: its parameters that nothing else tells."""
        told = {*self.parameters, *self.scalars, *self.constants, *self.scratch, EPILOGUE}
        return tuple(name for name in self.kernel_parameters if name not in told)

    def make_arrays(self, workload: Workload) -> dict[str, NDArray[Any]]:
        """Return the arrays of a workload of its own, by name in the kernel's order.

        Raises:
            CostModelError: ``arrays`` makes others than the kernel takes.
        """
        assert self.arrays
        made = self.arrays(workload.dims, np.random.default_rng(_SEED))
        if set(made) != set(self.argument_names):
            raise CostModelError(
                f"arrays of Triton family {self.name} must make {', '.join(self.argument_names)}, but makes "
                f"{', '.join(made)}."
            )
        return {name: made[name] for name in self.argument_names}

    @cached_property
    def array_types(self) -> dict[str, str]:
        """Element type of each array of its own workloads, as NumPy names them: the same at all sizes."""
        return {name: str(made.dtype) for name, made in self.make_arrays(self.workload()).items()}

    def array_bytes(self, workload: Workload) -> tuple[int, ...]:
        """Size of each argument of a workload, in the order of its arguments."""
        if not self.operators:
            return self._sizes(workload)
        operator, dims = workload.operator, workload.dims
        shapes = (*operator.inputs(dims).values(), operator.output(dims))
        return tuple(math.prod(shape) * DTYPE_BYTES[workload.dtype] for shape in shapes)

    def _sizes(self, workload: Workload) -> tuple[int, ...]:
        """Bytes of each array; made once a process."""
        if workload.name not in self._known_sizes:
            made = self.make_arrays(workload)
            self._known_sizes[workload.name] = tuple(each.nbytes for each in made.values())
        return self._known_sizes[workload.name]

    @cached_property
    def _known_sizes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def own_arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Return the arrays of a workload of its own, in the kernel's order."""
        return list(self.make_arrays(workload).values())

    def own_outputs(self, workload: Workload) -> tuple[int, ...]:
        """Return the positions of the arguments that are compared."""
        return tuple(map(self.argument_names.index, self.outputs))

    def own_reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """Tell what the outputs should hold; None where nobody says."""
        if self.reference is None:
            return None
        found = self.reference(self.make_arrays(workload), workload.dims)
        return [np.asarray(found[name]) for name in self.outputs]

    def own_tolerance(self, workload: Workload) -> float:
        """Return the largest relative error of an output that is rounding."""
        if self.tolerance is not None:
            return self.tolerance
        return max(tolerance_of(self.array_types[name]) for name in self.outputs)

    def _check(self) -> None:
        known = {*self.dims, *self.parameters}
        if bool(self.operators) != bool(self.dtype):
            raise CostModelError("dtype must be given with operators, and only with them.")
        if list(self.workload().dims) != list(self.dims):
            raise CostModelError(f"dims must be {list(self.workload().dims)}, in this order.")
        if not 1 <= len(self.grid) <= 3:
            raise CostModelError(f"grid must have one to three axes, but got {len(self.grid)}.")
        if clash := set(self.dims) & set(self.parameters):
            raise CostModelError(f"Parameters must not have the names of dims, but got {sorted(clash)}.")
        if any(
            value not in self.choices.get(name, ()) for start in self.starts for name, value in start.items()
        ):
            raise CostModelError(f"starts must be choices of parameters, but got {list(self.starts)}.")
        if unknown := set(self.launch) - set(KernelLaunch.__struct_fields__):
            raise CostModelError(f"launch must name fields of KernelLaunch, but got {sorted(unknown)}.")
        values = (*self.scalars.values(), *self.constants.values(), *self.scratch.values())
        for text in (*self.conditions, *self.grid, *values):
            Formula(text).check_names(known)
        for text in (*self.launch.values(), *(() if self.flops is None else (self.flops,))):
            Formula(text).check_names({*known, "blocks", "threads"})
        self._check_kernel()

    def _check_kernel(self) -> None:
        """Check that what is told of the kernel is of the kernel."""
        told = [name for name in self.parameters if name not in OPTIONS]
        told += [*self.scalars, *self.constants, *self.scratch]
        launched = (*self.grid, *self.scalars.values(), *self.constants.values(), *self.scratch.values())
        acting = {name for text in launched for name in Formula(text).names} & set(self.parameters)
        if extra := sorted(set(told) - set(self.kernel_parameters) - acting):
            raise CostModelError(
                f"{self.function} must take all parameters that are declared for it, unless they act on the "
                f"launch alone, but does not take {', '.join(extra)}, and no formula of the grid, scalars, "
                "constants or scratch uses them."
            )
        if len(set(told)) < len(told) or set(self.scratch) != set(self.scratch_types):
            raise CostModelError(
                "Each parameter must be declared once, and so must the type of each scratch."
            )
        if self.library_calls and (self.library is None or len(self.outputs) != 1):
            raise CostModelError(
                f"library must be given with library_calls, and with one output, but got {self.library} and "
                f"outputs {list(self.outputs)}."
            )
        arrays, outputs = set(self.argument_names), set(self.operands if self.operators else self.outputs)
        if self.operators and outputs != arrays:
            raise CostModelError(f"operands must describe {sorted(arrays)}, but describe {sorted(outputs)}.")
        if not self.operators and (self.arrays is None or not outputs or outputs - arrays):
            raise CostModelError(
                f"Without an operator there must be arrays and outputs, of {sorted(arrays)}, but got outputs "
                f"{sorted(outputs)}."
            )

    def _hash(self) -> str:
        """Return the hash of the kernel and of all that tells how it is compiled and launched.

        Costs and defaults do not enter: they change no kernel.
        """
        told = (self.function, self.dtype, self.operators, self.choices, self.conditions, self.grid)
        values = (self.scalars, self.constants, self.scratch, self.scratch_types, self.operands)
        digest = hashlib.sha256(self.source.encode())
        digest.update(msgspec.json.encode((told, values)))
        return digest.hexdigest()
