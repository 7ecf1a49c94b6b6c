"""Which config each number of tokens gets, and how that is known.

A row is the best config of a table for the same sizes on the same GPU; else that of a table for like sizes on
a GPU of the same architecture; else what the framework runs without a table, wherever nothing says that it
loses.
"""

from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device
from costmodel.serving._default_rule import Framework, default_row
from costmodel.serving._kernel import (
    PARAMETERS,
    ExpertProducts,
    Kernel,
    Row,
    ScaledProduct,
    needed_shared_bytes,
)
from costmodel.serving._published import PublishedTable, published_tables

# How a row is known: a table for the same sizes and GPU, timed by whoever made it; a table for like sizes or
# another GPU, of which only the best is known; nothing, so that it is the framework's own default.
Origin = Literal["timed elsewhere", "best only", "default"]

# As many doublings of a size apart as a table may be, all sizes together, and what else counts as apart.
_MOST_APART, _OTHER_GPU, _OTHER_BLOCK = 1.0, 0.25, 0.5
_RESERVED_BYTES = 1024  # of the shared memory of an SM, for each block


class TableRow(msgspec.Struct, frozen=True):
    """A config for a number of tokens.

    Attributes:
        config: Parameters of the kernel.
        origin: How it is known.
        source: Which table it is from, in words; empty for a default.
    """

    config: Row
    origin: Origin
    source: str = ""


class _Near(NamedTuple):
    apart: float
    table: PublishedTable


def choose_rows(
    kernel: Kernel, device: Device, framework: Framework, tokens: Iterable[int]
) -> dict[int, TableRow]:
    """Return a row for each number of tokens."""
    room = room_of(device)
    near = near_tables(kernel, device, framework)
    return {count: _choose(kernel, near, count, framework, room) for count in tokens}


def room_of(device: Device) -> int:
    """Return the shared memory that a block of a GPU can have, in bytes.

    Raises:
        CostModelError: It is no GPU of NVIDIA's, which the rules of frameworks are told for.
    """
    if device.kind != "cuda" or not device.shared_bytes_per_sm:
        raise CostModelError(
            f"Tables are made for GPUs of NVIDIA, but {device.name} is none: its kernels take other "
            "parameters. `costmodel devices list` shows those that are known."
        )
    return device.shared_bytes_per_sm - _RESERVED_BYTES


def near_tables(kernel: Kernel, device: Device, framework: Framework) -> list[_Near]:
    """Return tables for like sizes on GPUs of the same architecture, the nearest first.

    Of equally near ones, those of the framework come first, then those of the newest Triton.
    """
    near = [
        _Near(_apart(kernel, device, table), table)
        for table in published_tables()
        if _is_alike(table.kernel, kernel) and _architecture(table.device) == device.architecture
    ]
    kept = [each for each in near if each.apart <= _MOST_APART]
    return sorted(kept, key=lambda each: (each.apart, each.table.framework != framework, _age(each.table)))


def _choose(kernel: Kernel, near: list[_Near], tokens: int, framework: Framework, room: int) -> TableRow:
    for apart, table in near:
        row = {name: table.row(tokens)[name] for name in PARAMETERS}
        if needed_shared_bytes(kernel, row) <= room and _fits_block(kernel, row):
            return TableRow(row, "best only" if apart else "timed elsewhere", _describe(table))
    return TableRow(default_row(framework, kernel, tokens, room), "default")


def _fits_block(kernel: Kernel, row: Row) -> bool:
    """Whether a slab has one scale for a row: kernels step through scales by whole slabs."""
    if kernel.block is None or not kernel.block[1]:
        return True
    depth, block = row["BLOCK_SIZE_K"], kernel.block[1]
    return depth % block == 0 or (kernel.block[0] == 0 and block % depth == 0)


def _is_alike(one: Kernel, other: Kernel) -> bool:
    if isinstance(one, ExpertProducts) and isinstance(other, ExpertProducts):
        return one.precision == other.precision
    return type(one) is type(other)


def _apart(kernel: Kernel, device: Device, table: PublishedTable) -> float:
    doublings = np.abs(np.log2(_sizes(kernel)) - np.log2(_sizes(table.kernel))).sum()
    other_gpu = table.device != device.name
    other_block = _scaled(kernel) != _scaled(table.kernel)
    return float(doublings + _OTHER_GPU * other_gpu + _OTHER_BLOCK * other_block)


def _scaled(kernel: Kernel) -> tuple[int, int] | None:
    """The block of a scale; groups of packed weights are in no table's name."""
    return kernel.block if kernel.block and all(kernel.block) else None


def _sizes(kernel: Kernel) -> tuple[int, int]:
    if isinstance(kernel, ScaledProduct):
        return kernel.columns, kernel.depth
    return kernel.experts, kernel.width


@cache
def _architecture(device: str) -> str:
    """The architecture of a GPU; empty where it is unknown."""
    try:
        return find_device(device).architecture
    except CostModelError:
        return ""


def _age(table: PublishedTable) -> tuple[int, ...]:
    return tuple(-int(part) for part in table.triton.split(".")) if table.triton else (0,)


def _describe(table: PublishedTable) -> str:
    sizes = " x ".join(map(str, _sizes(table.kernel)))
    triton = f", Triton {table.triton}" if table.triton else ""
    return f"{table.framework}, {table.device}, {sizes}{triton}"
