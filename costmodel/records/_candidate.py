"""Candidates: configs of a workload, with what is known of their kernels before they run; many as arrays."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arguments import is_text
from costmodel.errors import InvalidArgumentError, shorten
from costmodel.records._identity import content_id
from costmodel.records._workload import Workload

# Spaces of sources are named <source>-<family>-<hash>. Those of these two have TVM's parameters, whatever the
# program.
_SPACE_OF_SOURCE = re.compile(r"(?!metaschedule-|tir-)(\w+)-(\w+)-[0-9a-f]{8}")

Decision = int | float | str | tuple[int, ...]

# Fields of ``KernelLaunch`` that the data of a kernel decide, as where it gathers or skips zeros.
DATA_FACTS = ("device_bytes", "atomics", "atomic_addresses", "busiest_block_bytes", "longest_chain")


def _written(default: int = 0) -> Any:
    """Make a field that is always written: ``omit_defaults`` does not omit values from a factory."""
    return msgspec.field(default_factory=lambda: default)


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One choice of a space's parameters.

    Attributes:
        decisions: Value of each named parameter: a number, a category or the factors of a tiled loop.
    """

    decisions: dict[str, Decision]

    def __post_init__(self) -> None:
        """Check the decisions, also when a file is decoded, and take numbers of NumPy for Python's.

        Raises:
            InvalidArgumentError: One is no decision, or not called by a text. Files could not hold it.
        """
        if not _are_plain(self.decisions):
            plain = {name: _to_decision(name, value) for name, value in self.decisions.items()}
            msgspec.structs.force_setattr(self, "decisions", plain)

    @property
    def config_id(self) -> str:
        """Content address of the decisions."""
        return content_id(self.decisions)


def _are_plain(decisions: Mapping[str, Decision]) -> bool:
    """Whether nothing of these needs to be looked at closely: decoding a store asks that of every config."""
    for name, value in decisions.items():
        if isinstance(value, tuple):
            is_plain = {*map(type, value)} <= {int}
        elif isinstance(value, str):
            is_plain = value.isascii()
        else:
            is_plain = type(value) is int or (type(value) is float and math.isfinite(value))
        if not (is_plain and type(name) is str and name.isascii()):
            return False
    return True


def _to_decision(name: object, value: object) -> Decision:
    """Return the decision that a value of a parameter is.

    Raises:
        InvalidArgumentError: It is none, or the parameter is not called by a text.
    """
    if isinstance(name, str) and is_text(name):
        if isinstance(value, str) and is_text(value):
            return value
        if isinstance(value, Integral):  # True as 1: files hold no other
            return int(value)
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
        if isinstance(value, list | tuple) and all(isinstance(each, Integral) for each in value):
            return tuple(map(int, value))
    raise InvalidArgumentError(
        "A config must give each parameter, by a text, a text, a finite number or whole factors, but got "
        f"{shorten(repr(name))}: {shorten(repr(value))}. Write a text for anything else."
    )


def source_name(space: str) -> str:
    """Return the name of the kernel source with which the name of a space begins."""
    return space.partition("-")[0]


class KernelLaunch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the lowered program says of one kernel that it launches. Counts are totals of one run.

    Of a program that is no known operator, and stages no operands in shared memory, the bytes of device
    memory are those that a GPU moves for the threads: whole sectors, and not what stays in a register.

    On a CPU, ``blocks`` counts the iterations of the parallel loop and ``threads_per_block`` is 1.

    The last five are ``DATA_FACTS``, said of kernels whose work depends on their data. Records of launches
    that say none of them have no such fields.

    Attributes:
        blocks: Thread blocks in the grid; 0 of a library's call, whose kernels are not known, as all else
            that is not said of it.
        threads_per_block: Threads in a block.
        vthreads: Virtual threads that each thread runs one after the other, or tiles of a persistent kernel.
        shared_bytes: Shared memory of a block.
        local_bytes: Bytes of local buffers (meant for registers) of a thread.
        global_load_bytes: Bytes that all threads read from device memory, repeats included.
        global_store_bytes: Bytes that all threads write to device memory.
        shared_load_bytes: Bytes that all threads read from shared memory.
        shared_store_bytes: Bytes that all threads write to shared memory.
        flops: Floating-point operations of all threads.
        tensor_flops: The part of ``flops`` that Tensor Cores do.
        vector_bytes: Widest vectorised access to device memory, in bytes.
        unroll_steps: Loop steps that the compiler may unroll, or that a program of Triton pipelines.
        device_bytes: Bytes through device memory, where the data say how many of those that threads read and
            write are distinct, or how many the L2 cache keeps; 0 where that is not said.
        atomics: Atomic operations of all threads on device memory; 0 for none.
        atomic_addresses: Distinct addresses of these, or as many as would each be met as often as the busiest
            where some are met more often than others; 0 where that is not said.
        busiest_block_bytes: Bytes that the block with the most work reads from and writes to device memory; 0
            where that is not said.
        longest_chain: Loads from device memory that the thread with the most work waits for, one after the
            other; those under way at once count as one. 0 where that is not said.
    """

    blocks: int
    threads_per_block: int
    vthreads: int = _written(1)
    shared_bytes: int = _written()
    local_bytes: int = _written()
    global_load_bytes: int = _written()
    global_store_bytes: int = _written()
    shared_load_bytes: int = _written()
    shared_store_bytes: int = _written()
    flops: int = _written()
    tensor_flops: int = _written()
    vector_bytes: int = _written()
    unroll_steps: int = _written()
    device_bytes: int = 0
    atomics: int = 0
    atomic_addresses: int = 0
    busiest_block_bytes: int = 0
    longest_chain: int = 0


class Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A config of a workload.

    Attributes:
        workload: The workload.
        space: Name of the space of the config, with a hash of its definition.
        config: The config.
        launches: The kernels that it launches, in order; empty if unknown.
    """

    workload: Workload
    space: str
    config: Config
    launches: tuple[KernelLaunch, ...] = ()

    @property
    def source(self) -> str:
        """Name of the source of its kernels, with which the name of its space begins.

        Example:
            >>> workload = Workload.parse("matmul-m64-n64-k64")
            >>> Candidate(workload, "metaschedule-cuda-0123abcd", Config({"tile": 4})).source
            'metaschedule'
        """
        return source_name(self.space)

    @cached_property
    def family(self) -> str:
        """Family of its parameters. Parameters with one name mean the same in all kernels of a family.

        For kernels of a source, it is the part of the space's name between source and hash. Kernels of
        another suite have one family per kind. It is empty if decisions mean the same in every space, as
        TVM's do.

        Example:
            >>> workload = Workload.parse("matmul-m64-n64-k64")
            >>> Candidate(workload, "cuda-matmul_float32-0123abcd", Config({"tile": 4})).family
            'cuda.matmul_float32'
        """
        if self.workload.is_opaque:
            return self.workload.kind
        named = _SPACE_OF_SOURCE.fullmatch(self.space)
        return f"{named[1]}.{named[2]}" if named else ""

    @cached_property
    def candidate_id(self) -> str:
        """Content address of workload, space and config, without the launches."""
        return content_id(self.workload, self.space, self.config.decisions)


SKETCH = "sketch"  # name of the decision that picks a space's sketch


@dataclass(frozen=True)
class ConfigBatch:
    """Configs of one workload that decide the same: those of one sketch of a space.

    Attributes:
        workload: What they compute.
        size: Number of configs, n.
        decisions: Value of each decision: ``(n, parts)`` int64 for the factors of a tiled loop, ``(n,)`` for
            a number or a category; in the order of the space.

    Example:
        >>> configs = [Config({"tile.C.i": (2, 2)})]
        >>> batch = ConfigBatch.from_configs(Workload.parse("matmul-m4-n4-k4"), configs)
        >>> batch.decisions["tile.C.i"].shape
        (1, 2)
    """

    workload: Workload
    size: int
    decisions: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        """Check that every decision has n rows."""
        lengths = {name: len(values) for name, values in self.decisions.items()}
        if any(length != self.size for length in lengths.values()):
            raise ValueError(f"each decision must have {self.size} rows, but got {lengths}")

    @classmethod
    def from_configs(cls, workload: Workload, configs: Sequence[Config]) -> "ConfigBatch":
        """The columns of these configs, which must decide the same.

        Raises:
            ValueError: Their decisions differ in name, or in the number of factors.
        """
        names = list(configs[0].decisions) if configs else []
        if any(config.decisions.keys() != set(names) for config in configs):
            raise ValueError(f"all configs must decide {sorted(names)}, as the first of them does")
        rows = {name: [config.decisions[name] for config in configs] for name in names}
        return cls(workload, len(configs), {name: np.array(values) for name, values in rows.items()})

    def configs(self, rows: Sequence[int] | NDArray[np.intp] | None = None) -> list[Config]:
        """The configs of these rows, or of all."""
        rows = range(self.size) if rows is None else rows
        lists = {name: values[rows].tolist() for name, values in self.decisions.items()}
        return [
            Config({name: _decision(values[i]) for name, values in lists.items()}) for i in range(len(rows))
        ]

    def take(self, rows: NDArray[Any]) -> "ConfigBatch":
        """The configs of these rows (positions, or a mask) as columns."""
        chosen = {name: values[rows] for name, values in self.decisions.items()}
        return ConfigBatch(self.workload, len(np.arange(self.size)[rows]), chosen)

    def named(self, prefix: str) -> list[NDArray[Any]]:
        """Columns of the decisions whose name starts so, in order."""
        return [values for name, values in self.decisions.items() if name.startswith(prefix)]


def config_batches(candidates: Sequence[Candidate]) -> list[tuple[NDArray[np.intp], ConfigBatch]]:
    """Candidates by workload and sketch: the positions of each group, and its columns."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for position, candidate in enumerate(candidates):
        decisions = candidate.config.decisions
        shape = tuple((name, _shape(value)) for name, value in decisions.items())
        key = (candidate.workload.name, decisions.get(SKETCH), shape)
        groups.setdefault(key, []).append(position)
    return [
        (
            np.array(positions, dtype=np.intp),
            ConfigBatch.from_configs(
                candidates[positions[0]].workload, [candidates[i].config for i in positions]
            ),
        )
        for positions in groups.values()
    ]


def _shape(value: Decision) -> int | str:
    """What must agree between the values of a column: the number of factors, else the type."""
    return len(value) if isinstance(value, tuple) else type(value).__name__


def _decision(value: Any) -> Decision:
    """A value of a column as a config has it."""
    return tuple(value) if isinstance(value, list) else value
