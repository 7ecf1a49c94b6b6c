"""Facts read from Triton's IR, of a kernel's text or of a kernel."""

import math
import re
from collections.abc import Callable
from functools import partial

from costmodel.kernels._read_facts import ReadFacts, Reading, describe_failure, mean_facts
from costmodel.kernels.triton._ir import Module, parse_ir
from costmodel.kernels.triton._layouts import WARP_THREADS, Layouts
from costmodel.kernels.triton._lower import LoweredTexts, Lowering, lower_kernel
from costmodel.kernels.triton._program_facts import ProgramCounter
from costmodel.kernels.triton._reach import find_fault
from costmodel.kernels.triton._read_cache import ReadCache, ReadEntry
from costmodel.kernels.triton._thread_facts import ThreadCounter
from costmodel.kernels.triton._values import ReadLaunch, Rules
from costmodel.kernels.triton._walk import Counter, Walk

# Registers of an SM since Kepler, the most that a thread can have, and the units in which they are given.
_SM_REGISTERS, _MOST_REGISTERS, _REGISTER_UNIT = 65536, 255, 8
# Places of the programs that stand for all, where the place decides what a program does.
_PLACES = (1 / 6, 1 / 2, 5 / 6)


def read_texts(texts: LoweredTexts, launch: ReadLaunch) -> ReadFacts:
    """Read the facts of a kernel from its text.

    Raises:
        ValueError: The text is none that is understood.
    """
    found = _walked(parse_ir(texts.ttir), launch, with_layouts=False)
    if texts.ttgir:
        found |= _walked(parse_ir(texts.ttgir), launch, with_layouts=True)
    if texts.shared_bytes >= 0:
        found["shared_bytes"] = texts.shared_bytes
    found |= {"programs": math.prod(launch.grid), "threads": WARP_THREADS * launch.warps}
    if texts.ttgir:
        found["register_limit"] = _register_limit(texts.ttgir, launch.warps)
    return ReadFacts(**{name: float(value) for name, value in found.items()})


def _register_limit(ttgir: str, warps: int) -> int:
    """Registers that a thread can have: what it may, what an SM has for so many warps, or what is told."""
    told = re.search(r"ttg\.maxnreg = (\d+)", ttgir)
    fitting = _SM_REGISTERS // (WARP_THREADS * warps) // _REGISTER_UNIT * _REGISTER_UNIT
    return min(_MOST_REGISTERS, fitting, int(told[1]) if told else _MOST_REGISTERS)


def _walked(module: Module, launch: ReadLaunch, *, with_layouts: bool) -> dict[str, float]:
    """Count one program, or the mean of several where its place decides what it does."""
    found = []
    for place in (_PLACES[1], _PLACES[0], _PLACES[2]):
        x, y, z = (min(size - 1, int(size * place)) for size in launch.grid)
        counter: Counter = ProgramCounter(launch.warps)
        if with_layouts:
            counter = ThreadCounter(Layouts(module.layouts, launch.warps))
        rules = Rules(launch.grid, (x, y, z), follows_alignment=with_layouts)
        walk = Walk(module, launch.arguments, rules, counter)
        walk.run()
        found.append(counter.facts(walk))
        if not walk.depends_on_program or math.prod(launch.grid) == 1:
            break
    return mean_facts(found)


def read_kernel(lowering: Lowering, launch: ReadLaunch, cache: ReadCache | None = None) -> Reading:
    """Lower a kernel and read its facts, unless they are in the cache. What fails becomes a note.

    Args:
        lowering: What is lowered.
        launch: How it is launched.
        cache: What was lowered and read before; None for nothing.
    """
    lower = partial(lower_kernel, lowering)
    try:
        if cache is None:
            return Reading(read_texts(lower(), launch))
        return Reading(_facts(lower, launch, cache.entry(lowering, launch)))
    except Exception as error:  # noqa: BLE001 (of Triton, or a text unlike any known: the kernel stays unread)
        return Reading(note=describe_failure(error))


def read_kept(
    lower: Callable[[bool], LoweredTexts], launch: ReadLaunch, entry: ReadEntry, *, with_faults: bool
) -> Reading:
    """Return what a kernel does, unless its files have it. What fails becomes a note.

    Args:
        lower: Lowers it, on to the second dialect or not.
        launch: How it is launched.
        entry: Its files.
        with_faults: Whether what cannot be right is a failure, see ``find_fault``.
    """
    try:
        if with_faults and (fault := _fault(lower, launch, entry)):
            return Reading(note=fault)
        return Reading(_facts(partial(lower, True), launch, entry))
    except Exception as error:  # noqa: BLE001 (of Triton, or a text unlike any known: the kernel stays unread)
        return Reading(note=describe_failure(error))


def _facts(lower: Callable[[], LoweredTexts], launch: ReadLaunch, entry: ReadEntry) -> ReadFacts:
    facts = entry.facts()
    if facts is None:
        texts = entry.texts()
        if texts is None:
            texts = lower()
            entry.keep_texts(texts)
        facts = read_texts(texts, launch)
        entry.keep_facts(facts)
    return facts


def _fault(lower: Callable[[bool], LoweredTexts], launch: ReadLaunch, entry: ReadEntry) -> str:
    fault = entry.fault()
    if fault is None:
        texts = entry.texts() or lower(False)
        fault = find_fault(parse_ir(texts.ttir), launch)
        entry.keep_fault(fault)
    return fault
