"""Which config each number of tokens gets, and how that is known.

Where the model knows the kernel and the GPU, a row is what it expects to be the fastest, if the framework's
default is expected to be slower by the model's margin, else the default. On other GPUs a row is that of a
table for the same sizes and GPU, or, where doubt is allowed, of one for like sizes on the same architecture.
Where a GPU times rows, it decides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device
from costmodel.serving._default_rule import Framework, default_row
from costmodel.serving._forms import PublishedTable, published_tables
from costmodel.serving._kernel import (
    PARAMETERS,
    ExpertProducts,
    Kernel,
    Row,
    ScaledProduct,
    meets_scales,
    needed_shared_bytes,
)
from costmodel.serving._row_model import RowModel, shipped_rows

if TYPE_CHECKING:
    from costmodel.serving._time import RowTimer, TimedRow

# How a row is known: this GPU timed it beside the default; a table for the same sizes and GPU, timed by its
# author; the model of rows; a table for like sizes or another GPU, of which only the best is known; nothing,
# or this GPU: it is the framework's default.
Origin = Literal["timed", "timed elsewhere", "predicted", "best only", "default"]

# As many doublings of a size apart as a table may be, all sizes together, and what else counts as apart.
_MOST_APART, _OTHER_GPU, _OTHER_BLOCK = 1.0, 0.25, 0.5
_DIGITS = 6  # of a logarithm: what machines add up differently must not decide
_LEAST_ROWS = 16  # of a tile that kernels of all frameworks multiply
_RESERVED_BYTES = 1024  # of the shared memory of an SM, for each block


class TableRow(msgspec.Struct, frozen=True):
    """A config for a number of tokens.

    Attributes:
        config: Parameters of the kernel.
        origin: How it is known.
        source: Which table it is from, in words; empty if from none.
        gain: Expected seconds of the framework's default over those of the row, and the ends of the 90 %
            interval of this ratio; None where the model knows no such kernel on such a GPU. Where it was
            timed, what was measured, see ``TimedRow``.
    """

    config: Row
    origin: Origin
    source: str = ""
    gain: tuple[float, float, float] | None = None


class _Near(NamedTuple):
    apart: float
    table: PublishedTable


def choose_rows(  # noqa: PLR0913, PLR0917 (what is asked)
    kernel: Kernel,
    device: Device,
    framework: Framework,
    tokens: Sequence[int],
    sms: int | None = None,
    unsure: bool = False,
    timer: "RowTimer | None" = None,
) -> dict[int, TableRow]:
    """Return a row for each number of tokens.

    Args:
        kernel: What for.
        device: The GPU.
        framework: What will read them.
        tokens: Numbers of tokens.
        sms: SMs that are granted. Default: all.
        unsure: Whether rows of like tables are taken where the model does not know the GPU.
        timer: What times rows on the GPU. Default: nothing.
    """
    room = room_of(device)
    near = near_tables(kernel, device, framework) if sms in (None, device.sms) else []
    if not kernel.is_ours:
        return _from_tables(kernel, near, tokens, framework, room, unsure)
    offered = offered_rows(kernel, room)
    chooser = _Chooser(shipped_rows(), kernel, device, sms or device.sms, framework, near, offered)
    if chooser.model.knows(kernel, device):
        chosen = {count: chooser.choose(count) for count in tokens}
    else:
        chosen = _from_tables(kernel, near, tokens, framework, room, unsure)
    if timer:
        timed = timer.choose(kernel, {count: chooser.order(count) for count in tokens})
        chosen |= {count: _as_timed(row) for count, row in timed.items()}
    return chosen


def _as_timed(row: "TimedRow") -> TableRow:
    gain, low, high = (round(each, 3) for each in row.gain)
    return TableRow(row.config, "timed" if row.gain[0] > 1 else "default", gain=(gain, low, high))


def offered_rows(kernel: Kernel, room: int) -> list[Row]:
    """Return the configs that any table has for kernels of these types, as far as they fit, each once."""
    found = {
        tuple(row.get(name, 0) for name in PARAMETERS): None
        for table in published_tables()
        if _is_alike(table.kernel, kernel)
        for row in table.rows.values()
    }
    rows = [dict(zip(PARAMETERS, each, strict=True)) for each in sorted(found)]
    return [row for row in rows if row["BLOCK_SIZE_M"] >= _LEAST_ROWS and _runs(kernel, row, room)]


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


@dataclass(frozen=True)
class _Chooser:
    """Chooses rows where the model knows the kernel.

    Attributes:
        model: The model.
        kernel: What for.
        device: The GPU.
        sms: SMs that are granted.
        framework: What will read the rows.
        near: Tables for like sizes, the nearest first.
        offered: Configs to choose among.
    """

    model: RowModel
    kernel: Kernel
    device: Device
    sms: int
    framework: Framework
    near: Sequence[_Near]
    offered: Sequence[Row]

    def choose(self, tokens: int) -> TableRow:
        """Return the row of a number of tokens."""
        table = self._table(tokens)
        rows, gains = self._expect(tokens, table)
        best = int(np.argmax(gains))
        if gains[best] <= self.model.margin_of(self.kernel):
            return TableRow(rows[0], "default", gain=(1.0, 1.0, 1.0))
        won = table if table and best == 1 else TableRow(rows[best], "predicted")
        return self._told(won, gains[best])

    def order(self, tokens: int) -> list[Row]:
        """Return the default of a number of tokens, what the nearest table has, and what may be faster."""
        table = self._table(tokens)
        rows, gains = self._expect(tokens, table)
        first = 2 if table else 1
        return rows[:first] + [rows[first + i] for i in np.argsort(-gains[first:], kind="stable")]

    def _expect(self, tokens: int, table: TableRow | None) -> tuple[list[Row], FloatArray]:
        """Rows, of which the default is the first, and the log of how many times as long that takes."""
        default = default_row(self.framework, self.kernel, tokens, room_of(self.device))
        rows = [default, *([table.config] if table else []), *self.offered]
        log_s = self.model.compare(self.kernel, tokens, rows, self.sms, self.device)
        return rows, np.round(log_s[0] - log_s, _DIGITS)

    def _table(self, tokens: int) -> TableRow | None:
        """What the nearest table has that runs."""
        room = room_of(self.device)
        return next(_near_rows(self.kernel, self.near, tokens, self.framework, room), None)

    def _told(self, row: TableRow, gain: float) -> TableRow:
        low, high = (float(np.exp(gain + each)) for each in self.model.spread)
        told = tuple(round(each, 3) for each in (float(np.exp(gain)), low, high))
        return msgspec.structs.replace(row, gain=told)


def _from_tables(  # noqa: PLR0913, PLR0917 (what is asked)
    kernel: Kernel,
    near: Sequence[_Near],
    tokens: Sequence[int],
    framework: Framework,
    room: int,
    unsure: bool,
) -> dict[int, TableRow]:
    """Rows where nothing but tables is known."""
    kept = [each for each in near if unsure or not each.apart]
    found = {count: next(_near_rows(kernel, kept, count, framework, room), None) for count in tokens}
    return {
        count: row or TableRow(default_row(framework, kernel, count, room), "default")
        for count, row in found.items()
    }


def _near_rows(
    kernel: Kernel, near: Sequence[_Near], tokens: int, framework: Framework, room: int
) -> Iterator[TableRow]:
    """Yield what near tables have, as far as it runs."""
    for apart, table in near:
        row = {name: table.row(tokens).get(name, 0) for name in PARAMETERS}
        is_shared = row["BLOCK_SIZE_M"] >= _LEAST_ROWS or table.framework == framework
        if is_shared and _runs(kernel, row, room):
            yield TableRow(row, "best only" if apart else "timed elsewhere", _describe(table))


def _runs(kernel: Kernel, row: Row, room: int) -> bool:
    return (
        all(row.values())
        and needed_shared_bytes(kernel, row) <= room
        and meets_scales(kernel, row, whole=True)
    )


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
