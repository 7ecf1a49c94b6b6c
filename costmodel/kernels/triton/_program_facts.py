"""What one program does, counted in Triton's first dialect (TTIR), whose tiles have no layout yet."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._ir import IrOperation, Type, most_live
from costmodel.kernels.triton._values import Array, Value
from costmodel.kernels.triton._walk import Walk

SECTOR_BITS = 256
SPECIAL = frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "math": (
            *("exp", "exp2", "expm1", "log", "log2", "log1p", "erf", "sin", "cos", "tan", "tanh", "rsqrt"),
            *("sqrt", "powf", "fpowi", "atan2"),
        ),
        "arith": ("divf", "remf"),
        "tt": ("precise_sqrt", "precise_divf", "extern_elementwise", "elementwise_inline_asm"),
    }.items()
    for name in names
)
CONVERSIONS = frozenset(
    (
        "arith.extf",
        "arith.truncf",
        "arith.sitofp",
        "arith.uitofp",
        "arith.fptosi",
        "arith.fptoui",
        "tt.fp_to_fp",
    )
)
_REARRANGING = frozenset(("tt.trans", "tt.reshape", "tt.join", "tt.split", "tt.cat", "tt.gather"))
_ACCESSES = {
    "tt.load": "load",
    "tt.descriptor_load": "load",
    "tt.descriptor_gather": "load",
    "tt.store": "store",
    "tt.descriptor_store": "store",
    "tt.descriptor_scatter": "store",
    "tt.atomic_rmw": "atomic",
    "tt.atomic_cas": "atomic",
    "tt.descriptor_reduce": "atomic",
}
MASK = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}
_MOST_LOOKED_AT = 4096  # addresses of a tile, whole along the contiguous axis
_WIDEST_BYTES = 16
_WARP_THREADS = 32


@dataclass(frozen=True)
class Access:
    """One load, store or atomic operation on a tile.

    Attributes:
        kind: ``load``, ``store`` or ``atomic``.
        type: Type of the tile.
        times: How often a program does it.
        changes: How often its address or mask changes.
        share: Share of its elements that is not masked.
        array: Position of the argument; -1 if unknown.
        is_known: Whether its addresses are.
        sectors: Distinct sectors of all its elements.
        run: Contiguous elements.
        seen: Numbers of the sectors that were looked at, with how many stand for each.
        is_in_loop: Whether it is in a loop.
    """

    kind: str
    type: Type
    times: float
    changes: float
    share: float
    array: int
    is_known: bool
    sectors: float
    run: int
    seen: tuple[NDArray[Any], float]
    is_in_loop: bool

    @property
    def bytes(self) -> float:
        """Bytes that are moved each time."""
        return self.type.bytes * self.share

    def requests(self, warps: int) -> float:
        """Requests of warps each time, at the widest access that addresses allow."""
        of_thread = max(1.0, self.type.size / (_WARP_THREADS * warps))
        element = self.type.bits / 8
        width = max(element, min(_WIDEST_BYTES, self.run * element, of_thread * element))
        busy = min(warps, math.ceil(self.type.size / _WARP_THREADS))
        return busy * of_thread * element / width


_COUNTED = (
    *("products", "tensor_flops", "product_m", "product_n", "product_k", "product_bits", "operand_bytes"),
    *("float_ops", "special_ops", "convert_ops", "integer_ops", "scalar_ops", "reductions"),
    *("reduced_elements", "reduced_rows", "reduction_size", "scans", "scanned_elements"),
    *("rearranged_elements", "loops", "loop_steps", "inner_trips", "pipeline_stages", "carried_bytes"),
    "descriptors",
)


@dataclass
class ProgramCounter:
    """Counts what one program does.

    Args:
        warps: Warps of a program.
    """

    warps: int
    found: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    accesses: list[Access] = field(default_factory=list)

    def enter_loop(self, operation: IrOperation, carried: Sequence[Value], trips: float, walk: Walk) -> None:
        """Count a loop."""
        self.found["loops"] += walk.times
        self.found["loop_steps"] += walk.times * trips
        if not any(each.name in ("scf.for", "scf.while") for each in operation.inside()):
            self.found["inner_trips"] = max(self.found["inner_trips"], trips)
        stages = operation.number("tt.num_stages")
        self.found["pipeline_stages"] = max(self.found["pipeline_stages"], stages or 0)
        tiles = sum(each.type.bytes for each in carried if each.type.shape)
        self.found["carried_bytes"] = max(self.found["carried_bytes"], tiles)

    def facts(self, walk: Walk) -> dict[str, float]:
        """Return what was counted on a walk."""
        return {
            **{name: self.found[name] for name in _COUNTED},
            "live_bytes": most_live(walk.module.kernel, lambda kind: kind.bytes),
            "memory_waits": walk.waits,
            "guessed_bounds": float(walk.guesses.bounds),
            "guessed_branches": float(walk.guesses.branches),
            "unknown_operations": float(walk.guesses.unknown),
            **_access_facts(self.accesses, walk, self.warps),
        }

    def count(
        self, operation: IrOperation, operands: Sequence[Value], results: Sequence[Value], walk: Walk
    ) -> None:
        """Count an operation."""
        name, kind = operation.name, results[0].type
        changes = walk.times_at(max((each.depth for each in operands), default=0))
        if name in _ACCESSES:
            self.accesses.append(_access(operation, operands, walk))
        elif name.startswith("tt.dot"):
            self._product(operands, kind, walk.times)
        elif name == "tt.make_tensor_descriptor":
            self.found["descriptors"] += walk.times
        elif name in ("tt.reduce", "tt.scan"):
            self._reduce(operation, operands, changes)
        elif name in SPECIAL:
            self.found["special_ops"] += kind.size * changes
        elif name in CONVERSIONS:
            self.found["convert_ops"] += kind.size * changes
        elif name in _REARRANGING or name == "tt.histogram":
            self.found["rearranged_elements"] += max(kind.size, operands[0].type.size) * changes
        elif name.startswith(("arith.", "math.", "tt.addptr", "tt.clampf", "tt.mulhiui")):
            self._elementwise(operation, kind, changes)

    def _elementwise(self, operation: IrOperation, kind: Type, changes: float) -> None:
        if operation.name == "arith.constant":
            return
        is_whole = kind.is_integer or kind.is_pointer or kind.element == "index"
        name = "scalar_ops" if not kind.shape else "integer_ops" if is_whole else "float_ops"
        self.found[name] += kind.size * changes

    def _product(self, operands: Sequence[Value], kind: Type, times: float) -> None:
        a, b = operands[0].type, operands[1].type
        sides = {"product_m": kind.shape[-2], "product_n": kind.shape[-1], "product_k": a.shape[-1]}
        if math.prod(sides.values()) >= math.prod(self.found[name] for name in sides):
            self.found |= sides
            self.found["product_bits"] = a.bits
        self.found["products"] += times
        self.found["tensor_flops"] += 2 * kind.size * a.shape[-1] * times
        self.found["operand_bytes"] += (a.bytes + b.bytes) * times

    def _reduce(self, operation: IrOperation, operands: Sequence[Value], changes: float) -> None:
        source = operands[0].type
        along = source.shape[operation.number("axis") or 0]
        work = sum(each.name.startswith(("arith.", "math.")) for each in operation.inside())
        self.found["float_ops"] += source.size * work * changes
        if operation.name == "tt.scan":
            self.found["scans"] += changes
            self.found["scanned_elements"] += source.size * changes
            return
        self.found["reductions"] += changes
        self.found["reduced_elements"] += source.size * changes
        self.found["reduced_rows"] += source.size / along * changes
        self.found["reduction_size"] = max(self.found["reduction_size"], along)


def _access_facts(accesses: Sequence[Access], walk: Walk, warps: int) -> dict[str, float]:
    """Count what accesses move."""
    of: Mapping[str, list[Access]] = {
        kind: [each for each in accesses if each.kind == kind] for kind in ("load", "store", "atomic")
    }
    loads, stores, atomics = of["load"], of["store"], of["atomic"]
    tiles = [each for each in loads if each.type.size > 1]
    whole = sum(each.type.bytes * each.times for each in (*loads, *stores))
    atomic_count = _sum(atomics, lambda each: each.type.size * each.share)
    changed = _array_bytes(atomics, walk) / max((each.type.bits / 8 for each in atomics), default=4.0)
    return {
        **{
            f"{kind}{fact}": value
            for kind, those in (("load", loads), ("store", stores))
            for fact, value in (
                ("s", _sum(those, lambda _: 1.0)),
                ("_bytes", _sum(those, lambda each: each.bytes)),
                ("_sectors", _sum(those, lambda each: each.sectors)),
                ("_requests", _sum(those, lambda each: each.requests(warps))),
                ("_run_bytes", _run_bytes(those)),
            )
        },
        "load_distinct_sectors": _distinct_sectors(loads),
        "load_once_bytes": sum(each.bytes * each.changes for each in loads),
        "loop_load_bytes": sum(each.bytes for each in tiles if each.is_in_loop),
        "front_load_bytes": sum(each.bytes for each in tiles if not each.is_in_loop),
        "tile_bytes": max((each.type.bytes for each in loads), default=0.0),
        "atomics": atomic_count,
        "atomic_sectors": _sum(atomics, lambda each: each.sectors),
        "atomics_per_address": atomic_count * math.prod(walk.rules.grid) / changed
        if changed
        else float(bool(atomics)),
        "masked_share": 1.0 - _sum((*loads, *stores), lambda each: each.bytes) / whole if whole else 0.0,
        "read_array_bytes": _array_bytes(loads, walk),
        "written_array_bytes": _array_bytes((*stores, *atomics), walk),
        "guessed_accesses": float(sum(not each.is_known for each in accesses)),
    }


def _sum(accesses: Sequence[Access], amount: Any) -> float:
    return float(sum(amount(each) * each.times for each in accesses))


def _run_bytes(accesses: Sequence[Access]) -> float:
    """Geometric mean of the bytes of contiguous runs, weighted by bytes; 0 without tiles."""
    tiles = [each for each in accesses if each.type.size > 1]
    weight = _sum(tiles, lambda each: each.type.bytes)
    if not weight:
        return 0.0
    logs = _sum(tiles, lambda each: each.type.bytes * math.log2(each.run * each.type.bits / 8))
    return float(2.0 ** (logs / weight))


def _array_bytes(accesses: Sequence[Access], walk: Walk) -> float:
    """Size of the arrays that accesses go to."""
    arrays = [walk.arguments[i] for i in {each.array for each in accesses} if 0 <= i < len(walk.arguments)]
    return float(sum(each.bytes for each in arrays if isinstance(each, Array)))


def _distinct_sectors(accesses: Sequence[Access]) -> float:
    """Sectors that accesses touch, where those to one array in one turn of the same loops share them."""
    groups = defaultdict[tuple[int, float, float], list[Access]](list)
    for each in accesses:
        groups[each.array, each.times, each.seen[1]].append(each)
    total = 0.0
    for (array, times, weight), those in groups.items():
        if array < 0 or len(those) == 1 or not all(each.is_known for each in those):
            total += sum(each.sectors for each in those) * times
        else:
            total += len(np.unique(np.concatenate([each.seen[0] for each in those]))) * weight * times
    return total


def _access(operation: IrOperation, operands: Sequence[Value], walk: Walk) -> Access:
    """Look at where an access goes."""
    pointer, name = operands[0], operation.name
    place = MASK.get(name, len(operands))
    mask = operands[place] if place < len(operands) and operands[place].type.element == "i1" else None
    kind = pointer.type.pointee
    if "descriptor" in name:
        kind = operation.result_types[0] if operation.results else _stored(operands, kind)
    looked = _look(pointer, mask, kind)
    share = 1.0
    if mask is not None and mask.number is not None and not mask.is_guess:
        share = float(np.mean(mask.number))
    in_rows = "descriptor" in name
    sectors, run, seen = looked or (max(1.0, kind.size * kind.bits / SECTOR_BITS), 1, (np.empty(0), 0.0))
    return Access(
        _ACCESSES[name],
        kind,
        walk.times,
        walk.times_at(max(each.depth for each in ((*operands,) if in_rows else (pointer, mask or pointer)))),
        share,
        pointer.array,
        in_rows or (looked is not None and not pointer.is_guess),
        sectors,
        kind.shape[-1] if in_rows and kind.shape else run,
        seen,
        walk.loops > 0,
    )


def _stored(operands: Sequence[Value], kind: Type) -> Type:
    return next((each.type for each in operands[1:] if each.type.shape), kind)


def _look(
    pointer: Value, mask: Value | None, kind: Type
) -> tuple[float, int, tuple[NDArray[Any], float]] | None:
    """Sectors and run of a tile, and the sectors of the part that was looked at; None if nothing is known."""
    if pointer.number is None:
        return None
    if kind.size <= 1:
        at = np.asarray(pointer.number).ravel()[:1] * kind.bits // SECTOR_BITS
        is_done = mask is None or mask.number is None or bool(np.all(mask.number))
        return float(is_done), 1, (at, 1.0)
    offsets = np.broadcast_to(np.asarray(pointer.number), kind.shape)
    part = _part(offsets)
    looked_at = offsets[part]
    chosen = looked_at.ravel()
    if mask is not None and mask.number is not None and not mask.is_guess:
        chosen = looked_at[np.broadcast_to(np.asarray(mask.number), kind.shape)[part].astype(bool)]
        if not chosen.size:  # a part that is masked says nothing of the rest
            chosen = looked_at.ravel()[:1]
    weight = offsets.size / looked_at.size
    seen = np.unique(chosen * kind.bits // SECTOR_BITS)
    return len(seen) * weight, _run(offsets), (seen, weight)


def _part(offsets: NDArray[Any]) -> tuple[slice, ...]:
    """A corner of a large tile, whole along the axis whose elements are next to one another."""
    sizes = list(offsets.shape)
    if offsets.size > _MOST_LOOKED_AT:
        fast = max(range(offsets.ndim), key=lambda axis: (_is_contiguous(offsets, axis), axis))
        left = max(1, _MOST_LOOKED_AT // sizes[fast])
        for axis in range(offsets.ndim):
            if axis != fast:
                sizes[axis] = min(sizes[axis], left)
                left = max(1, left // sizes[axis])
    return tuple(slice(0, size) for size in sizes)


def _is_contiguous(offsets: NDArray[Any], axis: int) -> bool:
    if offsets.shape[axis] < 2:
        return False
    first = np.moveaxis(offsets, axis, 0).reshape(offsets.shape[axis], -1)[:2, 0]
    return bool(abs(int(first[1]) - int(first[0])) == 1)


def _run(offsets: NDArray[Any]) -> int:
    """Contiguous elements along any axis, from the first on."""
    longest = 1
    for axis, size in enumerate(offsets.shape):
        if size > 1:
            index = tuple(slice(None) if each == axis else 0 for each in range(offsets.ndim))
            steps = np.diff(offsets[index])
            breaks = np.flatnonzero(steps != 1)
            longest = max(longest, int(breaks[0]) + 1 if breaks.size else size)
    return longest
