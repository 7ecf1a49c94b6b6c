"""What a kernel is called with: each of its parameters, for one config of one workload."""

from dataclasses import dataclass
from typing import Any

from costmodel.kernels._launch_note import Position, Scratch, Value
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.triton._family import EPILOGUE, OPTIONS, OUTPUT, TritonFamily
from costmodel.records._candidate import Config
from costmodel.records._workload import Workload

_TYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "bool": "i1",
    **{f"{sign}int{bits}": f"{sign or ''}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_TYPES |= {f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}
_INT32 = 2**31


@dataclass(frozen=True)
class Constant:
    """A ``tl.constexpr``.

    Attributes:
        value: Its value.
    """

    value: Any


@dataclass(frozen=True)
class Pointer:
    """A pointer.

    Attributes:
        dtype: Type of what it points to, as NumPy names it.
        to: An argument, or work memory.
    """

    dtype: str
    to: Position | Scratch

    @property
    def type(self) -> str:
        """Its type in Triton's words."""
        return f"*{_TYPES[self.dtype]}"


Parameter = Constant | Pointer | Value


def type_of(value: Value) -> str:
    """The type of a value in Triton's words."""
    return _TYPES[value.dtype]


def options_of(config: Config) -> dict[str, Any]:
    """What Triton's compiler is told of a config; 0 registers means no limit.

    Products and sums are fused, as by default before Triton changes its mind.
    """
    chosen = {name: config.decisions[name] for name in OPTIONS if name in config.decisions}
    return {
        "enable_fp_fusion": True,
        **{name: value for name, value in chosen.items() if not (name == "maxnreg" and value == 0)},
    }


def parameters_of(
    family: TritonFamily, workload: Workload, config: Config, dtypes: tuple[str, ...]
) -> dict[str, Parameter]:
    """Each parameter of the kernel, in its order.

    As Triton does, a whole number that is 1 is compiled in.

    Args:
        family: The kernel.
        workload: What it computes.
        config: The config.
        dtypes: Types of the workload's arguments, in their order.
    """
    values = {**config.decisions, **workload.dims}
    found: dict[str, Parameter] = {}
    for name in family.kernel_parameters:
        if name == EPILOGUE:
            found[name] = Constant("_".join(workload.operator.epilogue))
        elif name in family.parameters:
            found[name] = Constant(config.decisions[name])
        elif name in family.constants:
            found[name] = Constant(Formula(family.constants[name]).value(values))
        elif name in family.scalars:
            found[name] = _scalar(Formula(family.scalars[name]).value(values))
        elif name in family.scratch:
            size = Formula(family.scratch[name]).whole_number(values)
            found[name] = Pointer(family.scratch_types[name], Scratch(size))
        else:
            position = _position(family, workload, name)
            found[name] = (
                Constant(None) if position is None else Pointer(dtypes[position], Position(position))
            )
    return found


def _scalar(value: float) -> Parameter:
    if isinstance(value, float):
        return Value("float32", value)
    if value == 1:
        return Constant(1)
    return Value("int32" if -_INT32 <= value < _INT32 else "int64", value)


def _position(family: TritonFamily, workload: Workload, name: str) -> int | None:
    """Which argument an array is; None where the operator has no such input."""
    if not family.operators:
        return family.argument_names.index(name)
    operand, inputs = family.operands[name], list(workload.operator.inputs(workload.dims))
    if operand == OUTPUT:
        return len(inputs)
    return inputs.index(operand) if operand in inputs else None
