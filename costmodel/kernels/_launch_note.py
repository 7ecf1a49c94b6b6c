"""How a kernel in CUDA machine code is launched."""

import msgspec


class Value(msgspec.Struct, frozen=True, tag="value"):
    """A parameter that is passed by value, independent of the arguments.

    Attributes:
        dtype: Type, as named by NumPy.
        value: The value.
    """

    dtype: str
    value: int | float


class Scratch(msgspec.Struct, frozen=True, tag="scratch"):
    """A parameter that points to work memory, zeroed once, before the first launch.

    Attributes:
        size_bytes: Size in bytes; 0 gives a null pointer.
    """

    size_bytes: int


class Position(msgspec.Struct, frozen=True, tag="argument"):
    """A parameter that is an argument.

    Attributes:
        position: Position of the argument.
    """

    position: int


class LaunchNote(msgspec.Struct, frozen=True):
    """Launch of a kernel, stored in ``<candidate_id>.launch.json`` next to its machine code.

    Attributes:
        kernel: Name of the kernel.
        grid: Number of blocks along each axis.
        block: Number of threads of a block along each axis.
        shared_bytes: Dynamic shared memory of a block, in bytes.
        constants: ``__constant__`` arrays by name, each with the position of the argument that is copied into
            it before the kernel runs.
        parameters: Parameters of the kernel, in order; None for the arguments as they are.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    constants: dict[str, int] = {}
    parameters: tuple[Value | Scratch | Position, ...] | None = None
