"""Facts about a launch before anything is compiled, and about the kernel afterwards."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from costmodel.errors import CostModelError
from costmodel.kernels.family._formula import Formula
from costmodel.records._candidate import KernelLaunch
from costmodel.records._kernel_resources import KernelResources

# Formulas by field of ``KernelLaunch``, or a function from the arguments to values of its fields.
LaunchFacts = Mapping[str, float | str] | Callable[[Mapping[str, Any]], Mapping[str, float]]

_WARP_THREADS = 32
_WORD_BYTES = 4
_OPTIONS = ("grid", "warmup")  # what a launch takes beside the kernel's arguments


def launch_of(
    arguments: Mapping[str, Any], config: Any, grid: Any, facts: LaunchFacts | None
) -> tuple[KernelLaunch, ...]:
    """The launch of a config; none where its grid cannot be known.

    Args:
        arguments: The kernel's arguments by name, without those of the config.
        config: The ``triton.Config``.
        grid: The grid of the launch, or a function of the arguments.
        facts: What else is known. Formulas may use whole numbers and texts among the arguments, the config's
            parameters, ``blocks`` and ``threads`` of a block.

    Raises:
        CostModelError: A formula is wrong, or says no field of ``KernelLaunch``.
    """
    meta = {name: value for name, value in arguments.items() if name not in _OPTIONS} | config.all_kwargs()
    sizes: Any = ()
    with suppress(Exception):  # a launch is then as little known as before; Triton tells what is wrong
        sizes = grid(meta) if callable(grid) else grid
        sizes = tuple(map(int, sizes))
    if not sizes:
        return ()
    blocks, threads = math.prod(sizes) * config.num_ctas, _WARP_THREADS * config.num_warps
    known = {**meta, "blocks": blocks, "threads": threads}
    told = facts(known) if callable(facts) else _evaluated(facts or {}, known)
    if unknown := set(told) - set(KernelLaunch.__struct_fields__):
        raise CostModelError(f"launch must name fields of KernelLaunch, but got {sorted(unknown)}.")
    counted = {"blocks": blocks, "threads_per_block": threads, **told}
    return (KernelLaunch(**{name: int(value) for name, value in counted.items()}),)


def resources_of(kernel: Any) -> tuple[KernelResources, ...]:
    """What the compiler gave a kernel that was launched; none where Triton does not say it, as interpreting.

    Args:
        kernel: What a launch gives back. Its spills are the words of a thread's local memory.
    """
    registers, spills = getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None)
    return () if registers is None or spills is None else (KernelResources(registers, _WORD_BYTES * spills),)


def _evaluated(formulas: Mapping[str, float | str], known: Mapping[str, Any]) -> dict[str, float]:
    plain = {name: value for name, value in known.items() if isinstance(value, int | float | str)}
    return {field: Formula(text).value(plain) for field, text in formulas.items()}
