"""What the compiler gave a kernel."""

import msgspec


class KernelResources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the compiler gave one kernel, which the lowered program does not tell.

    Attributes:
        registers_per_thread: 32-bit registers of a thread; they limit how many blocks an SM holds.
        stack_bytes: Local memory of a thread: arrays with computed indices, and spilled registers.
    """

    registers_per_thread: int
    stack_bytes: int
