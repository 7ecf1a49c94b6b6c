"""Facts read from PTX: a few warps of the middle block stand for all."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.kernels._artifact import resources_by_kernel, static_shared_bytes
from costmodel.kernels._read_facts import ReadFacts, mean_facts
from costmodel.kernels.cuda._nvrtc import Compiled
from costmodel.kernels.cuda._ptx import PtxKernel, parse_ptx
from costmodel.kernels.cuda._ptx_values import LANES
from costmodel.kernels.cuda._ptx_walk import WarpPlace, WarpWalk
from costmodel.kernels.cuda._warp_counts import WarpCounts
from costmodel.kernels.family._base import Geometry

_APART = 1 << 40  # bytes between the beginnings of arrays
_LANE_OPS = ("float_ops", "special_ops", "convert_ops", "integer_ops")
# What Triton's programs say, and a text of PTX does not.
_NOT_IN_PTX = (
    *("scalar_ops", "reductions", "reduced_elements", "reduced_rows", "reduction_size"),
    *("scans", "scanned_elements", "rearranged_elements", "thread_scalar_ops"),
    *("conversions", "converted_elements", "cross_warp_reductions", "descriptors"),
)


class PtxArgument(NamedTuple):
    """What a kernel is called with.

    Attributes:
        size_bytes: Size of an array; 0 of a number.
        number: A number; None of an array.
        is_written: Whether the kernel writes the array.
    """

    size_bytes: int
    number: float | None
    is_written: bool


def read_ptx(compiled: Compiled, geometry: Geometry, arguments: Sequence[PtxArgument]) -> ReadFacts:
    """Read what a compiled kernel does.

    Args:
        compiled: The kernel.
        geometry: Its launch, the only row.
        arguments: What it takes, in order.

    Raises:
        CostModelError: Its text is not understood.
    """
    kernel = parse_ptx(compiled.ptx, compiled.kernel)
    (x, y, z), (width, height, depth) = geometry.grid[0].tolist(), geometry.block[0].tolist()
    threads = (width, height, depth)
    warps = -(-math.prod(threads) // LANES)
    values = [
        (1 + i) * _APART
        if each.number is None
        else int(each.number)
        if each.number == int(each.number)
        else None
        for i, each in enumerate(arguments)
    ]

    def facts_of(warp: int) -> dict[str, float]:
        place = WarpPlace((x // 2, y // 2, z // 2), LANES * warp, (x, y, z), threads)
        counts = WarpCounts(find_loops(kernel))
        WarpWalk(kernel, values, place, counts).run()
        return _facts(counts, warps)

    # The first and the last warp may do what no other does; each other one is like the nearest of three.
    inner = sorted({max(1, warps * each // 4) for each in (1, 2, 3)})
    like = [min(inner, key=lambda each: abs(each - warp)) for warp in range(1, warps - 1)]
    walked = {each: facts_of(each) for each in {0, *like, warps - 1}}
    resources = resources_by_kernel(compiled.cubin)[compiled.kernel]
    written = sum(each.size_bytes for each in arguments if each.is_written)
    facts = mean_facts([walked[each] for each in (0, *like, warps - 1)[:warps]])
    programs = x * y * z
    return ReadFacts(
        **facts,
        programs=programs,
        threads=math.prod(threads),
        shared_bytes=static_shared_bytes(compiled.cubin, compiled.kernel) + int(geometry.dynamic_bytes[0]),
        read_array_bytes=sum(each.size_bytes for each in arguments if not each.is_written),
        written_array_bytes=written,
        atomics_per_address=4 * facts["atomics"] * programs / max(4, written),
        register_limit=resources.registers_per_thread,
    )


def find_loops(kernel: PtxKernel) -> list[tuple[int, int]]:
    """First and last basic block of each loop."""
    ends = [(block[-1], i) for i, block in enumerate(kernel.blocks) if block and block[-1].name == "bra"]
    return [(to, i) for branch, i in ends if (to := kernel.labels[branch.operands[0]]) <= i]


def _facts(counts: WarpCounts, warps: int) -> dict[str, float]:
    """Facts of a program of so many such warps, full ones; those of threads are of the warp."""
    return {**_traffic(counts, warps), **_work(counts, warps), **_of_threads(counts, warps)}


def _traffic(counts: WarpCounts, warps: int) -> dict[str, float]:
    """What the program moves to and from device memory."""

    def of_all(*names: str) -> dict[str, float]:
        return {name: warps * counts[name] for name in names}

    def run_bytes(kind: str) -> float:
        moved = counts[f"{kind}_bytes"]
        return float(np.exp(counts[f"{kind}_log_runs"] / moved)) if moved else 0.0

    in_loops, turns = counts["loop_load_bytes"], max(1.0, counts["loop_steps"])
    return {
        "loads": counts["loads"] + counts["copies"],
        **of_all("load_bytes", "load_sectors", "load_distinct_sectors", "load_requests"),
        "load_run_bytes": run_bytes("load"),
        "load_once_bytes": warps * counts["load_bytes"],
        "loop_load_bytes": warps * in_loops / turns,
        "front_load_bytes": warps * (counts["load_bytes"] - in_loops),
        "tile_bytes": warps * counts["widest_load"],
        "stores": counts["stores"],
        **of_all("store_bytes", "store_sectors", "store_requests"),
        "store_run_bytes": run_bytes("store"),
        **of_all("atomics", "atomic_sectors"),
        "masked_share": counts["masked_bytes"] / max(1.0, counts["all_bytes"]),
    }


def _work(counts: WarpCounts, warps: int) -> dict[str, float]:
    """What the program computes, and how its loops run."""
    return {
        "products": warps * counts["products"],
        "tensor_flops": warps * counts["flops"],
        **{name: counts[name] for name in ("product_m", "product_n", "product_k", "product_bits")},
        "operand_bytes": warps * counts["operand_bytes"],
        **{name: LANES * warps * counts[name] for name in _LANE_OPS},
        **dict.fromkeys(_NOT_IN_PTX, 0.0),
        "loops": counts["loops"],
        "loop_steps": counts["loop_steps"],
        "inner_trips": counts["longest_loop"],
        "pipeline_stages": counts["copies_ahead"] + (counts["copies"] > 0),
        "memory_waits": counts["memory_waits"],
        **{name: counts[name] for name in ("guessed_bounds", "guessed_branches", "guessed_accesses")},
        "unknown_operations": 0.0,
    }


def _of_threads(counts: WarpCounts, warps: int) -> dict[str, float]:
    """What a thread executes, how its accesses lie, and what it shares with others."""
    return {
        **{f"thread_{name}": counts[name] for name in (*_LANE_OPS, "loads", "copies", "stores")},
        "thread_load_bytes": counts["load_bytes"] / LANES,
        "thread_copy_bytes": counts["copy_bytes"],
        "thread_store_bytes": counts["store_bytes"] / LANES,
        "thread_atomics": counts["atomic_instructions"],
        "access_bytes": -counts["narrowest"] if np.isfinite(counts["narrowest"]) else 0.0,
        "replicated_load_bytes": warps * counts["replicated_load_bytes"],
        "thread_tensor_flops": counts["flops"] / LANES,
        "is_group_product": counts["is_group"],
        **{name: counts[name] for name in ("shared_load_words", "shared_store_words", "bank_turns")},
        "barriers": counts["barriers"],
        "shuffles": counts["shuffles"],
        "copies_ahead": counts["copies_ahead"],
        "load_request_sectors": warps * counts["load_sectors"],
        "store_request_sectors": warps * counts["store_sectors"],
        "request_lines": warps * (counts["load_lines"] + counts["store_lines"]),
    }
