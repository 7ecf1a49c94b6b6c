"""What a launch stands for in the words of the record store: kernel, sizes, types, config, launch facts."""

import hashlib
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from string import ascii_lowercase
from typing import Any

import triton
from triton.runtime.jit import JITFunction

from costmodel.errors import CostModelError
from costmodel.kernels.family._formula import Formula
from costmodel.records._candidate import Config, Decision, KernelLaunch
from costmodel.records._identity import content_id
from costmodel.records._measurement import KernelResources
from costmodel.records._workload import Workload

# Short names of element types, Triton's own; others keep theirs.
_TYPES = {"float": "fp", "bfloat": "bf", "uint": "u", "int": "i"}
# Formulas by field of ``KernelLaunch``, or a function from the arguments to values of its fields.
LaunchHints = Mapping[str, float | str] | Callable[[Mapping[str, Any]], Mapping[str, float]]
_WARP_THREADS = 32
_WORD_BYTES = 4
_OPTIONS = ("grid", "warmup")  # what a launch takes beside the kernel's arguments


@dataclass(frozen=True)
class Question:
    """What a launch asks, but for the platform.

    Attributes:
        workload: The kernel, with the types of its tensors in its name, and whole numbers among the values of
            the key as its dims.
        space: Names source code, Triton's version, the whole key and the type of each tensor: timings of one
            space are of one kernel.
    """

    workload: Workload
    space: str

    @property
    def family(self) -> str:
        """What kernels of other sizes share, see ``costmodel.records.Candidate.family``."""
        return self.workload.kind


def letters_of(names: Sequence[str]) -> dict[str, str]:
    """The letter that stands for each argument of a key: its first letter, or the next one that is free.

    Raises:
        CostModelError: There are more arguments than letters.

    Example:
        >>> letters_of(["M", "N", "num_tokens"])
        {'M': 'm', 'N': 'n', 'num_tokens': 'o'}
    """
    found: dict[str, str] = {}
    for name in names:
        first = max(ascii_lowercase.find(name[:1].lower()), 0)
        free = [each for each in ascii_lowercase[first:] + ascii_lowercase if each not in found.values()]
        if not free:
            raise CostModelError(
                f"A key must have at most 26 arguments, but got {len(names)}. Leave some out."
            )
        found[name] = free[0]
    return found


def tensor_types(arguments: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Name the element type of each tensor among the arguments of a launch.

    Args:
        arguments: The arguments by name, in any order.
        names: Names of the kernel's arguments, in the order in which it declares them.

    Returns:
        Types by the place of the tensor, in the order of ``names``: the name of its argument, ``x.base`` for
        the tensor behind a descriptor, ``x[0]`` for an item of a tuple. What is no tensor has no type.
    """
    return dict(each for name in names if name in arguments for each in _typed(name, arguments[name]))


def _typed(place: str, argument: Any) -> Iterator[tuple[str, str]]:
    if hasattr(argument, "dtype"):
        yield place, str(argument.dtype)
    elif isinstance(argument, tuple | list):
        for i, item in enumerate(argument):
            yield from _typed(f"{place}[{i}]", item)
    elif hasattr(argument, "base"):  # a descriptor, Triton's or Gluon's
        yield from _typed(f"{place}.base", argument.base)


def make_question(
    function: Any, key: Mapping[str, Any], types: Mapping[str, str], letters: Mapping[str, str]
) -> Question:
    """Make the question that a launch asks.

    Args:
        function: The ``@triton.jit`` function.
        key: Value of each argument of the key, in order; positive whole numbers are dims.
        types: Types of the tensors among all arguments, see ``tensor_types``.
        letters: The letter of each argument of the key.
    """
    dims = {name: value for name, value in key.items() if type(value) is int and value > 0}
    others = {name: value for name, value in key.items() if name not in dims}
    told = [f"{name}_{value}" for name, value in others.items()]
    name = re.sub(
        r"\W+", "_", "_".join([function.__name__, *type_runs([*types.values()]), *told]), flags=re.ASCII
    )
    hashed = content_id(
        source_hash(function),
        triton.__version__,
        list(key),
        {each: [type(value).__qualname__, str(value)] for each, value in others.items()},
        types,
    )
    workload = Workload(f"triton.{name}", {letters[each]: value for each, value in dims.items()}, "")
    return Question(workload, f"triton-{name}-{hashed[:8]}")


def triton_to_config(config: Any) -> Config:
    """A ``triton.Config`` as the store has it; clusters and a limit of registers only where asked for."""
    options: dict[str, Any] = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if config.num_ctas != 1:
        options["num_ctas"] = config.num_ctas
    for name in ("maxnreg", "ir_override"):
        if getattr(config, name, None) is not None:
            options[name] = getattr(config, name)
    return Config({name: _decision(value) for name, value in {**config.kwargs, **options}.items()})


@cache
def source_hash(function: Any) -> str:
    """Hash of the source of a kernel and of all that it calls; under the interpreter of its own alone."""
    if isinstance(function, JITFunction):
        return str(function.cache_key)
    return hashlib.sha256(inspect.getsource(function.fn).encode()).hexdigest()


def type_runs(dtypes: Sequence[str]) -> list[str]:
    """Return types, each with how many times it comes in a row, as names of kernels have them.

    Example:
        >>> type_runs(["torch.float16", "torch.float16", "torch.int32"])
        ['fp16x2', 'i32']
    """
    runs: list[tuple[str, int]] = []
    for dtype in dtypes:
        short = re.sub(
            r"^(bfloat|float|uint|int)(?=\d)", lambda found: _TYPES[found[1]], dtype.rpartition(".")[2]
        )
        if runs and runs[-1][0] == short:
            runs[-1] = (short, runs[-1][1] + 1)
        else:
            runs.append((short, 1))
    return [f"{short}x{count}" if count > 1 else short for short, count in runs]


def _decision(value: Any) -> Decision:
    """A value of a config as the store has it; infinity, which no file holds, as a text."""
    if isinstance(value, bool):
        return int(value)
    return (
        value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else str(value)
    )


def find_launch(
    arguments: Mapping[str, Any], config: Any, grid: Any, facts: LaunchHints | None
) -> tuple[KernelLaunch, ...]:
    """Return the launch of a config; none where its grid cannot be known.

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


def read_resources(kernel: Any) -> tuple[KernelResources, ...]:
    """What the compiler gave a kernel that was launched; none where Triton does not say it, as interpreting.

    Args:
        kernel: What a launch gives back. Its spills are the words of a thread's local memory.
    """
    registers, spills = getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None)
    return () if registers is None or spills is None else (KernelResources(registers, _WORD_BYTES * spills),)


def _evaluated(formulas: Mapping[str, float | str], known: Mapping[str, Any]) -> dict[str, float]:
    plain = {name: value for name, value in known.items() if isinstance(value, int | float | str)}
    return {field: Formula(text).value(plain) for field, text in formulas.items()}
