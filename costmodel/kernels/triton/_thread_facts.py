"""What one thread does, counted in Triton's second dialect (TTGIR), where tiles have layouts.

What a layout makes several threads do alike counts for each of them.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

from costmodel.kernels.triton._ir import IrOperation, Type, most_live
from costmodel.kernels.triton._layouts import WARP_THREADS, Layouts
from costmodel.kernels.triton._program_facts import CONVERSIONS, MASK, SPECIAL
from costmodel.kernels.triton._values import Value
from costmodel.kernels.triton._walk import Walk
from costmodel.kernels.triton.accesses._requests import bank_turns, touched

_WIDEST_BYTES, _SECTOR_BYTES = 16, 32
_COPY = "ttg.async_copy_global_to_local"
_COPY_BACK = "ttng.async_tma_copy_local_to_global"
_COPIES = (_COPY, "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather")
_COUNTED = (
    *(
        "thread_float_ops",
        "thread_special_ops",
        "thread_convert_ops",
        "thread_integer_ops",
        "thread_scalar_ops",
    ),
    *("thread_loads", "thread_load_bytes", "thread_copies", "thread_copy_bytes", "thread_stores"),
    *("thread_store_bytes", "thread_atomics", "access_bytes", "replicated_load_bytes", "thread_tensor_flops"),
    *("is_group_product", "shared_load_words", "shared_store_words", "conversions", "converted_elements"),
    *("barriers", "shuffles", "cross_warp_reductions", "copies_ahead", "load_request_sectors"),
    *("store_request_sectors", "request_lines", "bank_turns"),
)
_ASKS = {_COPY: 2, **MASK}  # place of the mask


class ThreadCounter:
    """Counts what one thread does.

    Args:
        layouts: How tiles are spread over threads.
    """

    def __init__(self, layouts: Layouts) -> None:
        self.found: dict[str, float] = defaultdict(float)
        self._layouts = layouts

    def enter_loop(self, operation: IrOperation, carried: Sequence[Value], trips: float, walk: Walk) -> None:
        """Count nothing: loops are counted in the first dialect."""

    def facts(self, walk: Walk) -> dict[str, float]:
        """Return what was counted on a walk."""
        live = most_live(walk.module.kernel, self._layouts.words_of_thread)
        return {**{name: self.found[name] for name in _COUNTED}, "thread_live_words": live}

    def count(
        self, operation: IrOperation, operands: Sequence[Value], results: Sequence[Value], walk: Walk
    ) -> None:
        """Count an operation."""
        name, kind, times = operation.name, results[0].type, walk.times
        elements = self._layouts.of_thread(kind) if kind.shape else 0.0
        if name in ("tt.load", "tt.store"):
            self._access(operation, operands, times)
        elif name in _COPIES:
            self._copy(operation, operands, times)
        elif name == _COPY_BACK:
            tile = operation.types[-1]
            self.found["thread_stores"] += times
            self.found["thread_store_bytes"] += tile.bytes / self._layouts.threads * times
            self.found["store_request_sectors"] += tile.bytes / _SECTOR_BYTES * times
        elif name.startswith("tt.atomic"):
            self.found["thread_atomics"] += max(1.0, elements) * times
        elif name in ("tt.reduce", "tt.scan"):
            self._reduce(operation, operands, times)
        elif name in ("tt.dot", "ttng.warp_group_dot"):
            self._product(operation, operands, kind, times)
        elif name.startswith("ttg.") or name == "gpu.barrier":
            self._exchange(operation, operands, kind, times)
        elif name in SPECIAL:
            self.found["thread_special_ops"] += elements * times
        elif name in CONVERSIONS:
            self.found["thread_convert_ops"] += elements * times
        elif name.startswith(("arith.", "math.", "tt.addptr", "tt.clampf", "tt.mulhiui")):
            self._elementwise(operation, kind, elements, times)

    def _elementwise(self, operation: IrOperation, kind: Type, elements: float, times: float) -> None:
        if operation.name == "arith.constant":
            return
        is_whole = kind.is_integer or kind.is_pointer or kind.element == "index"
        if kind.shape:
            self.found["thread_integer_ops" if is_whole else "thread_float_ops"] += elements * times
        else:
            self.found["thread_scalar_ops"] += times

    def _access(self, operation: IrOperation, operands: Sequence[Value], times: float) -> None:
        kind, tile = operation.name.partition(".")[2], operands[0].type.pointee
        elements, element = max(1.0, self._layouts.of_thread(tile)), tile.bits / 8
        width = self._together(operation, operands, tile)
        accesses = max(1.0, elements * element / width) * times
        self.found[f"thread_{kind}s"] += accesses
        self.found[f"thread_{kind}_bytes"] += elements * element * times
        self._touch(operation, operands, tile, width, accesses)
        if kind == "load" and tile.shape:
            repeated = elements * self._layouts.threads - tile.size
            self.found["replicated_load_bytes"] += repeated * element * times

    def _copy(self, operation: IrOperation, operands: Sequence[Value], times: float) -> None:
        tile = operands[0].type.pointee if operands[0].type.is_pointer else operation.types[-1]
        elements, element = self._layouts.of_thread(tile), tile.bits / 8
        if operation.name != _COPY:  # one thread asks for a whole tile
            self.found["thread_copies"] += times
            self.found["thread_copy_bytes"] += tile.bytes / self._layouts.threads * times
            self.found["load_request_sectors"] += tile.bytes / _SECTOR_BYTES * times
            return
        width = self._together(operation, operands, tile)
        accesses = max(1.0, elements * element / width) * times
        self.found["thread_copies"] += accesses
        self.found["thread_copy_bytes"] += elements * element * times
        self._touch(operation, operands, tile, width, accesses)
        self.found["bank_turns"] += bank_turns(tile, operation.types[-1], self._layouts, width) * times

    def _together(self, operation: IrOperation, operands: Sequence[Value], tile: Type) -> float:
        """Bytes that a thread accesses at once: what is contiguous, aligned and masked alike."""
        if not tile.shape:
            return tile.bits / 8
        element, elements = tile.bits / 8, self._layouts.vector(tile)
        axis, told = self._layouts.fastest(tile), operands[0].alignment
        if told is not None:
            elements = min(elements, told[axis].run, max(1, int(told[axis].divisor // element)))
        mask = _mask_of(operation, operands)
        if mask is not None and mask.alignment is not None:
            elements = min(elements, mask.alignment[axis].alike)
        return min(_WIDEST_BYTES, element * max(1, elements))

    def _touch(
        self, operation: IrOperation, operands: Sequence[Value], tile: Type, width: float, accesses: float
    ) -> None:
        """Count what the requests of all warps touch, and how narrow they are."""
        each = touched(operands[0], _mask_of(operation, operands), tile, width, self._layouts)
        requests = accesses * self._layouts.warps
        kind = "store" if operation.name == "tt.store" else "load"
        if kind == "store":  # of threads that hold the same, one writes
            held = max(1.0, self._layouts.of_thread(tile)) * self._layouts.threads
            requests *= min(1.0, max(1, tile.size) / held)
        self.found[f"{kind}_request_sectors"] += each.sectors * requests
        self.found["request_lines"] += each.lines * requests
        self._narrowest(tile, width)

    def _narrowest(self, tile: Type, width: float) -> None:
        if tile.size > WARP_THREADS:
            self.found["access_bytes"] = min(self.found["access_bytes"] or _WIDEST_BYTES, width)

    def _reduce(self, operation: IrOperation, operands: Sequence[Value], times: float) -> None:
        source, axis = operands[0].type, operation.number("axis") or 0
        elements = self._layouts.of_thread(source)
        warps, lanes = self._layouts.along(source, axis)
        work = sum(each.name.startswith(("arith.", "math.")) for each in operation.inside())
        rows = max(1.0, elements * warps * lanes / source.shape[axis])
        steps = math.log2(lanes) * (1 if operation.name == "tt.reduce" else 2)
        self.found["thread_float_ops"] += elements * work * times
        self.found["shuffles"] += steps * rows * len(operands) * times
        self.found["cross_warp_reductions"] += (warps > 1) * times
        self.found["barriers"] += 2 * (warps > 1) * times

    def _product(self, operation: IrOperation, operands: Sequence[Value], kind: Type, times: float) -> None:
        depth = operation.types[0].shape[-1] if operation.types else operands[0].type.shape[-1]
        flops = 2 * self._layouts.of_thread(kind) * depth * times
        if self._layouts.is_product(kind):
            self.found["thread_tensor_flops"] += flops
            group = float(self._layouts.group_products(kind))
            self.found["is_group_product"] = max(self.found["is_group_product"], group)
        else:
            self.found["thread_float_ops"] += flops / 2

    def _exchange(self, operation: IrOperation, operands: Sequence[Value], kind: Type, times: float) -> None:
        """Count what goes through shared memory, and who waits for whom."""
        name = operation.name
        if name == "ttg.convert_layout":
            source = operation.types[0]
            if source.layout != kind.layout and kind.size > 1:
                self.found["conversions"] += times
                self.found["converted_elements"] += self._layouts.of_thread(kind) * times
                self.found["barriers"] += times
        elif name in ("ttg.local_alloc", "ttg.local_store"):
            if operands and operands[0].type.shape:  # an allocation without one holds nothing yet
                tile = operands[0].type
                self.found["shared_store_words"] += self._layouts.words_of_thread(tile) * times
                self.found["bank_turns"] += bank_turns(tile, operation.types[-1], self._layouts) * times
                self.found["barriers"] += times
        elif name == "ttg.local_load":
            self.found["shared_load_words"] += self._layouts.words_of_thread(kind) * times
            self.found["bank_turns"] += bank_turns(kind, operation.types[0], self._layouts) * times
        elif name == "ttg.async_wait":
            self.found["copies_ahead"] = max(self.found["copies_ahead"], operation.number("num") or 0)
            self.found["barriers"] += times
        elif "barrier" in name:
            self.found["barriers"] += times


def _mask_of(operation: IrOperation, operands: Sequence[Value]) -> Value | None:
    place = _ASKS.get(operation.name, len(operands))
    mask = operands[place] if place < len(operands) else None
    return mask if mask is not None and mask.type.element == "i1" else None
