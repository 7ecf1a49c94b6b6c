"""How a kernel in CUDA machine code is launched."""

import msgspec


class Value(msgspec.Struct, frozen=True, tag="value"):
    """A parameter that is passed by value, whatever the arguments are.

    Attributes:
        dtype: Its type, as NumPy names it.
        value: The value.
    """

    dtype: str
    value: int | float


class Scratch(msgspec.Struct, frozen=True, tag="scratch"):
    """A parameter that points to work memory, zeroed once, before the first launch.

    Attributes:
        size_bytes: Size; a null pointer of 0.
    """

    size_bytes: int


class Position(msgspec.Struct, frozen=True, tag="argument"):
    """A parameter that is an argument.

    Attributes:
        position: Which one.
    """

    position: int


class LaunchNote(msgspec.Struct, frozen=True):
    """How a kernel is launched, in the file ``<candidate_id>.launch.json`` beside its machine code.

    Attributes:
        kernel: Name of the kernel.
        grid: Blocks along each axis.
        block: Threads of a block along each axis.
        shared_bytes: Dynamic shared memory of a block.
        constants: ``__constant__`` arrays by name: the position of the argument that is copied into each
            before the kernel runs.
        parameters: What the kernel takes, in its order; None for the arguments as they are.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    constants: dict[str, int] = {}
    parameters: tuple[Value | Scratch | Position, ...] | None = None
