"""Elementwise and reduction kernels as Inductor writes them: what their code does, and blocks for them."""

import ast
import re
from collections.abc import Sequence
from itertools import product
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np

from costmodel.arrays import FloatArray

TEMPLATE = "triton_heuristics.template("  # in the code of products
HELD = "persistent_reduction"  # its programs hold whole rows in registers
KINDS = ("pointwise", "reduction", HELD)
_AXES = {"XBLOCK": "x", "YBLOCK": "y", "R0_BLOCK": "r0_"}  # of the sizes
_LARGEST = {"XBLOCK": 4096, "YBLOCK": 1024, "R0_BLOCK": 8192}
_WARPS = (1, 2, 4, 8, 16)
_FEWEST, _MOST = 32, 16384  # elements of a block
_LEAST_OF_THREAD, _MOST_OF_THREAD = 0.5, 64
_MOST_OF_GRID = 65535  # in any dimension but the first
# What has needs of its own: sums over programs, descriptors, hints, rows that are split, symbolic sizes.
_NOT_READ = ("tl.atomic_", "tensor_descriptor", "block_ptr", "AutotuneHint.", "RSPLIT", "ks0", "R1_BLOCK")
_BITS = re.compile(r"\d+")
_COSTLY = ("exp", "erf", "tanh", "rsqrt", "sqrt", "log", "pow", "sigmoid", "div")
_THREADS_OF_SM, _PROGRAMS_OF_SM = 2048, 32


class BlockSizes(NamedTuple):
    """What a kernel's programs work on.

    Attributes:
        x: Size of a block along the rows or elements; 1 where the kernel fixes it.
        y: Along the second axis of an elementwise kernel; else 1.
        r: Of what is summed, in a turn of its loop; of a kernel that holds rows, the row.
        warps: Of a program.
    """

    x: int
    y: int
    r: int
    warps: int

    @property
    def elements(self) -> int:
        """Elements of a block."""
        return self.x * self.y * self.r


class FusedKernel(NamedTuple):
    """An elementwise or reduction kernel.

    Attributes:
        kind: One of ``KINDS``.
        parameters: Of ``XBLOCK``, ``YBLOCK`` and ``R0_BLOCK``, those that can be chosen.
        x: Elements along the first axis, or rows.
        y: Along the second; else 1.
        r: Of a row that is summed; else 1.
        read_bytes: Of an element, by all loads.
        written_bytes: Of an element, by all stores.
        loads: How many there are in the code.
        along: How many loads and stores are contiguous along x, y and r.
        reductions: How many there are.
        costly: Exponentials, roots and other functions.
        steps: Assignments.
        least_of_thread: Fewest elements of a block for each thread: conversions of float8 take several.
    """

    kind: str
    parameters: tuple[str, ...]
    x: int
    y: int
    r: int
    read_bytes: int
    written_bytes: int
    loads: int
    along: tuple[int, int, int]
    reductions: int
    costly: int
    steps: int
    least_of_thread: float = _LEAST_OF_THREAD


def read_fused(source: str) -> FusedKernel | None:
    """Return what a kernel's code says; None where its blocks cannot be chosen: it has atomics or three axes.

    Args:
        source: Of the module that Inductor writes for a kernel.
    """
    function, call = _parts(source)
    if function is None or call is None or call.func.attr not in KINDS:
        return None
    hints = {each.arg: each.value for each in call.keywords}
    sizes = {name: int(size) for name, size in ast.literal_eval(hints["size_hints"]).items()}
    body = ast.get_source_segment(source, function) or ""
    if not sizes.keys() <= set(_AXES.values()) or any(each in source for each in _NOT_READ):
        return None
    known = re.findall(r"^\s*(x|y|r0_)numel = (\d+)$", body, re.MULTILINE)
    sizes |= {axis: int(size) for axis, size in known}  # the hints are rounded up to powers of two
    names = [each.arg for each in function.args.args]
    asked = hints.get("min_elem_per_thread")
    widths = _widths(hints["triton_meta"])
    accesses = re.findall(r"tl\.(load|store)\((\w+) \+ (\(.*?\)|\w+),", body)
    bytes_of = {
        way: sum(widths.get(p, 4) for each, p, _ in accesses if each == way) for way in ("load", "store")
    }
    return FusedKernel(
        kind=call.func.attr,
        parameters=tuple(name for name in _AXES if name in names),
        x=sizes.get("x", 1),
        y=sizes.get("y", 1),
        r=sizes.get("r0_", 1),
        read_bytes=bytes_of["load"],
        written_bytes=bytes_of["store"],
        loads=sum(way == "load" for way, *_ in accesses),
        along=_contiguous([index for *_, index in accesses]),
        reductions=len(re.findall(r"tl\.sum|triton_helpers\.(?:max2|welford|any|promote)|tl\.reduce", body)),
        costly=sum(len(re.findall(rf"\.{each}\w*\(", body)) for each in _COSTLY),
        steps=len(re.findall(r"^\s*tmp\d+ = ", body, re.MULTILINE)),
        least_of_thread=max(_LEAST_OF_THREAD, ast.literal_eval(asked) if asked else 0),
    )


def with_blocks(source: str, chosen: Sequence[BlockSizes]) -> str:
    """Return the code with blocks in place of Inductor's rules for them; several are timed at the first run.

    Args:
        source: Of a kernel that ``read_fused`` reads.
        chosen: At least one.
    """
    function, call = _parts(source)
    given = {each.arg: ast.get_source_segment(source, each.value) for each in call.keywords}
    names = [each.arg for each in function.args.args] if function else []
    configs = ", ".join(_config_code(each, names) for each in chosen)
    made = (
        f"triton_heuristics.cached_autotune({given['size_hints']}, [{configs}], "
        f"triton_meta={given['triton_meta']}, "
        f"heuristic_type=triton_heuristics.HeuristicType.{call.func.attr.upper()}, filename=__file__, "
        f"inductor_meta={given['inductor_meta']} | {{'dynamic_scale_rblock': False}})"
    )
    return source.replace(ast.get_source_segment(source, call) or "", made, 1)


def _config_code(blocks: BlockSizes, names: Sequence[str]) -> str:
    sides = dict(zip(_AXES, blocks[:3], strict=True))
    held = {name: size for name, size in sides.items() if name in names}
    return f"triton.Config({held}, num_warps={blocks.warps}, num_stages=1)"


def _parts(source: str) -> tuple[ast.FunctionDef | None, Any]:
    """The kernel's function and the call of Inductor that decorates it."""
    functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    for function in functions:
        for each in function.decorator_list:
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
                return function, each
    return None, None


def _widths(triton_meta: ast.expr) -> dict[str, int]:
    """Bytes of what each pointer points to."""
    found: dict[str, int] = {}
    for node in ast.walk(triton_meta):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "signature":
                    pointers = ast.literal_eval(value)
                    found |= {name: _bytes(kind) for name, kind in pointers.items() if kind[:1] == "*"}
    return found


def _bytes(pointer: str) -> int:
    bits = _BITS.search(pointer)
    return max(1, int(bits[0]) // 8) if bits else 4


def _contiguous(indices: Sequence[str]) -> tuple[int, int, int]:
    """How many indices have a coefficient of 1 at a variable of x, y and r."""

    def count(prefix: str) -> int:
        alone = re.compile(rf"(?<![\w*]){prefix}(?:\d+|index)\b(?!\s*[*/%])")
        return sum(bool(alone.search(each)) for each in indices)

    return count("x"), count("y"), count("r0_")


def possible_blocks(kernel: FusedKernel) -> list[BlockSizes]:
    """Return blocks that are neither tiny nor huge, by powers of two."""
    axes = {"XBLOCK": kernel.x, "YBLOCK": kernel.y, "R0_BLOCK": kernel.r}
    sides = [
        _powers(min(_up(axes[name]), _LARGEST[name])) if name in kernel.parameters else [_fixed(kernel, name)]
        for name in _AXES
    ]
    found = []
    for x, y, r in product(*sides):
        elements = x * y * r
        if not min(_FEWEST, r) <= elements <= _MOST or kernel.y / y > _MOST_OF_GRID:
            continue
        found += [
            BlockSizes(x, y, r, warps)
            for warps in _WARPS
            if kernel.least_of_thread <= elements / (32 * warps) <= _MOST_OF_THREAD
        ]
    return found


def _fixed(kernel: FusedKernel, name: str) -> int:
    return _up(kernel.r) if name == "R0_BLOCK" and kernel.kind == HELD else 1


def _up(size: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << max(0, size - 1).bit_length()


def _powers(most: int) -> list[int]:
    return [1 << i for i in range(most.bit_length())]


COLUMNS = (
    "held", "looped", "log_x", "log_y", "log_r", "read_bytes", "written_bytes", "loads",
    "along_x", "along_y", "along_r", "reductions", "costly", "steps",
    "log_block_x", "log_block_y", "log_block_r", "log_warps", "log_elements", "log_of_thread",
    "log_run_bytes", "log_programs", "log_programs_of_sm", "log_waves", "last_wave", "log_turns",
    "wasted", "log_bytes_of_sm", "log_sms", "log_in_flight",
)  # fmt: skip


def fused_columns(kernel: FusedKernel, blocks: Sequence[BlockSizes], sms: int) -> FloatArray:
    """Describe a kernel with each of some blocks on a number of SMs: ``(n, len(COLUMNS))``."""
    return np.array([_row(kernel, each, sms) for each in blocks], np.float64)


def _row(kernel: FusedKernel, blocks: BlockSizes, sms: int) -> list[float]:
    turns = ceil(kernel.r / blocks.r)
    programs = ceil(kernel.x / blocks.x) * ceil(kernel.y / blocks.y)
    covered = programs * blocks.x * blocks.y * turns * blocks.r
    at_once = min(_PROGRAMS_OF_SM, _THREADS_OF_SM // (32 * blocks.warps)) * sms
    of_thread = blocks.elements / (32 * blocks.warps)
    width = max(1.0, kernel.read_bytes / max(1, kernel.loads))
    side = dict(zip(kernel.along, (blocks.x, blocks.y, blocks.r), strict=True))[max(kernel.along)]
    element_bytes = max(1, kernel.read_bytes + kernel.written_bytes)
    waves = programs / at_once
    return [
        kernel.kind == HELD, kernel.kind == "reduction", log2(kernel.x), log2(kernel.y), log2(kernel.r),
        kernel.read_bytes, kernel.written_bytes, kernel.loads,
        *kernel.along, kernel.reductions, kernel.costly, kernel.steps,
        log2(blocks.x), log2(blocks.y), log2(blocks.r), log2(blocks.warps), log2(blocks.elements),
        log2(of_thread),
        log2(side * width), log2(programs), log2(programs / sms), log2(waves), waves / ceil(waves),
        log2(turns),
        covered / (kernel.x * kernel.y * kernel.r), log2(covered * element_bytes / sms), log2(sms),
        log2(blocks.elements * element_bytes * min(programs, at_once) / sms),
    ]  # fmt: skip
