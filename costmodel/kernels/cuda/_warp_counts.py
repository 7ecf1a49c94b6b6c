"""Counts what one warp does, instruction by instruction and access by access."""

import re
from collections.abc import Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.cuda._ptx import PtxInstruction
from costmodel.kernels.cuda._ptx_values import LANES, Known, Lanes

_SECTOR, _LINE, _WORD, _BANKS = 5, 7, 2, 32  # logarithms of bytes, but for the banks
_SPECIAL = frozenset(("ex2", "lg2", "sin", "cos", "rsqrt", "sqrt", "rcp", "tanh"))
_EITHER = frozenset(("add", "sub", "mul", "mad", "min", "max", "neg", "abs", "selp", "setp"))
_WHOLE = frozenset(
    (
        "div",
        "rem",
        "and",
        "or",
        "xor",
        "not",
        "shl",
        "shr",
        "bfi",
        "bfe",
        "lop3",
        "shf",
        "prmt",
        "popc",
        "clz",
    )
)
_FLOATS = re.compile(r"(b?f)(16|32|64)(x2)?")
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_GROUP_WARPS = 4  # that multiply together
_RANDOM_TURNS = 3.5  # of banks that serve 32 words anywhere

# What is added up, and of what the largest is kept.
_SUMS = (
    *("float_ops", "special_ops", "convert_ops", "integer_ops", "flops", "products", "operand_bytes"),
    *("loads", "load_bytes", "load_sectors", "load_distinct_sectors", "load_requests", "load_lines"),
    *("load_log_runs", "replicated_load_bytes", "masked_bytes", "all_bytes", "loop_load_bytes", "copies"),
    *(
        "copy_bytes",
        "stores",
        "store_bytes",
        "store_sectors",
        "store_requests",
        "store_lines",
        "store_log_runs",
    ),
    *("atomics", "atomic_instructions", "atomic_sectors", "shared_load_words", "shared_store_words"),
    *("bank_turns", "barriers", "shuffles", "memory_waits", "loops", "loop_steps"),
    *("guessed_bounds", "guessed_branches", "guessed_accesses"),
)
_LARGEST = (
    *("product_m", "product_n", "product_k", "product_bits", "is_group", "copies_ahead", "longest_loop"),
    *("widest_load", "narrowest"),  # the latter negative
)
COUNTED = (*_SUMS, *_LARGEST)
_AT = {name: i for i, name in enumerate(COUNTED)}


class WarpCounts:
    """Counts of one warp; each is a number by a name of ``COUNTED``.

    Args:
        loops: First and last basic block of each loop.
    """

    def __init__(self, loops: Sequence[tuple[int, int]]) -> None:
        self._loops = loops
        self._values = np.zeros(len(COUNTED))
        self._values[_AT["narrowest"]] = -np.inf
        self._of_blocks: dict[int, FloatArray] = {}
        self._turns: dict[int, int] = {}
        self._sectors: set[int] = set()
        self._waits = self._in_loop = False

    def __getitem__(self, name: str) -> float:
        """A count."""
        return float(self._values[_AT[name]])

    def add(self, name: str, value: float) -> None:
        """Add to a count."""
        self._values[_AT[name]] += value

    def sums(self) -> FloatArray:
        """What is added up until now."""
        return self._values[: len(_SUMS)].copy()

    def enter(self, block: int, instructions: Sequence[PtxInstruction]) -> None:
        """Begin a basic block: what does not access memory is counted here."""
        if block not in self._of_blocks:
            self._of_blocks[block] = _computing(instructions)
        counts, sums = self._of_blocks[block], len(_SUMS)
        self._in_loop = any(first <= block <= last for first, last in self._loops)
        self._waits = False
        self._values[:sums] += counts[:sums]
        self._values[sums:] = np.maximum(self._values[sums:], counts[sums:])

    def leave(self) -> None:
        """End a basic block, whose loads do not wait for each other."""
        self.add("load_distinct_sectors", len(self._sectors))
        self.add("memory_waits", self._waits)
        self._sectors.clear()

    def turn(self, block: int, *, is_first: bool) -> None:
        """Count a turn of the loop that ends with a block; behind the first turn there are two."""
        self._turns[block] = 2 if is_first else self._turns[block] + 1
        self.add("loops", is_first)
        self.add("loop_steps", 1 + is_first)
        self._raise("longest_loop", self._turns[block])

    def skip(self, block: int, once: FloatArray, turns: int) -> None:
        """Count so many turns of a loop more, of which each counts the same."""
        self._values[: len(_SUMS)] += turns * once
        self._turns[block] += turns
        self._raise("longest_loop", self._turns[block])

    def _raise(self, name: str, value: float) -> None:
        self._values[_AT[name]] = max(self._values[_AT[name]], value)

    def access(
        self, instruction: PtxInstruction, addresses: Sequence[Known], lanes: Lanes, active: Lanes
    ) -> None:
        """Count an access of the lanes that make it, of those that could."""
        parts, name = instruction.parts, instruction.name
        width = instruction.access_bytes
        if not lanes.any():
            self.add("masked_bytes", LANES * width)
            self.add("all_bytes", LANES * width)
            return
        if name == "wmma":
            self._fragment(instruction)
        elif name == "cp" and "async" in parts and "global" in parts:
            self._of_device("copy", addresses[-1], width, lanes, active)
            self._of_shared("store", addresses[0], width, lanes)
        elif name in ("red", "atom") and "shared" not in parts:
            self._atomic(addresses[0], width, lanes)
        elif "shared" in parts or name == "ldmatrix":
            kinds = (
                ("load", "store")
                if name in ("atom", "red")
                else ("load" if name.startswith("ld") else "store",)
            )
            for kind in kinds:
                self._of_shared(kind, addresses[0], width, lanes)
        elif not {"const", "local"} & set(parts):
            self._of_device("load" if name.startswith("ld") else "store", addresses[0], width, lanes, active)

    def _of_device(self, kind: str, address: Known, width: int, lanes: Lanes, active: Lanes) -> None:
        count = int(lanes.sum())
        of = "store" if kind == "store" else "load"
        self.add("masked_bytes", (LANES - count) * width)
        self.add("all_bytes", LANES * width)
        self.add("copies" if kind == "copy" else f"{of}s", 1)
        if kind == "copy":
            self.add("copy_bytes", width)
        self.add(f"{of}_bytes", count * width)
        self.add(f"{of}_requests", 1)
        self._raise("narrowest", -width)
        if of == "load":
            self._raise("widest_load", LANES * width)
            self.add("loop_load_bytes", count * width * self._in_loop)
            self._waits = True
        if address is None:
            self.add("guessed_accesses", 1)
            sectors, lines, distinct = count * -(-width // 32), count, count
        else:
            told = address[lanes]
            found = _units(told, width, _SECTOR)
            sectors, lines, distinct = len(found), len(_units(told, width, _LINE)), len(set(told.tolist()))
            if of == "load":
                self._sectors |= found
        if address is None and of == "load":
            self.add("load_distinct_sectors", sectors)
        runs = distinct if address is None else _count_runs(address[lanes], width)
        self.add(f"{of}_sectors", sectors)
        self.add(f"{of}_lines", lines)
        self.add(f"{of}_log_runs", count * width * np.log(distinct * width / runs))
        if of == "load":
            self.add("replicated_load_bytes", (count - distinct) * width)

    def _fragment(self, instruction: PtxInstruction) -> None:
        """Count a fragment of a matrix that a warp loads or stores together, as if banks served it evenly."""
        kind, of = instruction.parts[:2]
        shape = next(found for each in instruction.parts if (found := _SHAPE.fullmatch(each)))
        m, n, k = map(int, shape.groups())
        elements = {"a": m * k, "b": k * n}.get(of, m * n)
        words = elements * instruction.access_bytes / LANES / (1 << _WORD)
        self.add(f"shared_{kind}_words", words)
        self.add("bank_turns", words)
        self.add("guessed_accesses", "shared" not in instruction.parts)

    def _atomic(self, address: Known, width: int, lanes: Lanes) -> None:
        count = int(lanes.sum())
        self.add("atomics", count)
        self.add("atomic_instructions", 1)
        self.add("guessed_accesses", address is None)
        self.add("atomic_sectors", count if address is None else len(_units(address[lanes], width, _SECTOR)))
        self._waits = True

    def _of_shared(self, kind: str, address: Known, width: int, lanes: Lanes) -> None:
        words = max(1, width >> _WORD)
        self.add(f"shared_{kind}_words", words)
        if address is None:
            self.add("guessed_accesses", 1)
            self.add("bank_turns", _RANDOM_TURNS * words)
            return
        found = np.fromiter(_units(address[lanes], width, _WORD), np.int64)
        self.add("bank_turns", int(np.bincount(found % _BANKS).max()))


def _units(address: Lanes, width: int, size: int) -> set[int]:
    """Sectors, lines or words (by the logarithm of their bytes) that accesses of a width touch."""
    first, last = address >> size, (address + width - 1) >> size
    found = set(first.tolist())
    for step in range(1, int((last - first).max()) + 1):
        found |= set(np.minimum(first + step, last).tolist())
    return found


def _count_runs(address: Lanes, width: int) -> int:
    """Runs of bytes that lie side by side."""
    each = np.unique(address)
    return 1 + int((np.diff(each) > width).sum())


def _computing(instructions: Sequence[PtxInstruction]) -> FloatArray:
    """Counts of the instructions of a basic block that access no memory."""
    found = np.zeros(len(COUNTED))
    found[_AT["narrowest"]] = -np.inf
    for each in instructions:
        for name, value in _counted(each):
            at = _AT[name]
            found[at] = max(found[at], value) if name in _LARGEST else found[at] + value
    return found


def _counted(instruction: PtxInstruction) -> list[tuple[str, float]]:
    """What an instruction counts as."""
    name, parts = instruction.name, instruction.parts
    if name in ("mma", "wmma", "wgmma") and not {"load", "store"} & set(parts):
        return _product(name, parts)
    if name == "cp":
        waits = "wait_group" in parts
        return [("copies_ahead", float(instruction.operands[0]))] if waits else []
    of = "float" if any(_FLOATS.fullmatch(each) for each in parts) else "integer"
    kinds = {
        **dict.fromkeys(("bar", "barrier"), ("barriers", 1)),
        "shfl": ("shuffles", 1),
        "fma": ("float_ops", 2),
        **dict.fromkeys(_WHOLE, ("integer_ops", 1)),
        **dict.fromkeys(_EITHER, (f"{of}_ops", 1)),
        **dict.fromkeys(_SPECIAL, ("special_ops", 1)),
        "div": ("special_ops" if of == "float" else "integer_ops", 1),
        "cvt": ("convert_ops" if of == "float" else "integer_ops", 1),
    }
    return [kinds[name]] if name in kinds else []


def _product(name: str, parts: tuple[str, ...]) -> list[tuple[str, float]]:
    shape = next((found for each in parts if (found := _SHAPE.fullmatch(each))), None)
    if shape is None:
        return []
    m, n, k = map(int, shape.groups())
    is_group = name == "wgmma"
    share = 1 / _GROUP_WARPS if is_group else 1.0
    bits = next((int(found[2]) for each in parts[::-1] if (found := _FLOATS.fullmatch(each))), 8)
    bits = min(bits, *(int(found[2]) for each in parts if (found := _FLOATS.fullmatch(each))), 32)
    return [
        ("products", share),
        ("flops", 2 * m * n * k * share),
        ("operand_bytes", (m * k + k * n) * bits / 8 * share),
        *(("product_m", m), ("product_n", n), ("product_k", k), ("product_bits", bits)),
        ("is_group", is_group),
    ]
