"""What the kernels of a program move to and from device memory, where that is not what their statements say.

Neighbouring threads that access memory far apart move more: whole sectors, see ``moved_share``. An element
that a loop accumulates into is kept in a register: it is read once before the loop and written once after it.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir import Call, TensorLoad

from costmodel.kernels.metaschedule._lowered import kernels_of, launches_of, lower
from costmodel.kernels.metaschedule._shared_memory import bytes_of
from costmodel.records._candidate import KernelLaunch

SECTOR_BYTES = 32
_WARP = 32
_NEIGHBOURS = "threadIdx.x"

# A variable of an index, and how many values from 0 it has in one access.
Axis = tuple[Any, int]

_ARITHMETIC = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
}


def program_launches(module: Any) -> tuple[KernelLaunch, ...]:
    """The kernels of a scheduled module, see ``kernel_launches``, with the bytes that device memory moves.

    A kernel that stages operands in shared memory has the bytes that its statements read and write: its
    threads share each copy so that neighbours copy neighbouring elements.

    Args:
        module: Scheduled ``tvm.IRModule`` after its postprocessors.
    """
    lowered = lower(module)
    launches, kernels = launches_of(lowered), kernels_of(lowered)
    return tuple(_with_traffic(launch, kernel) for launch, kernel in zip(launches, kernels, strict=True))


def _with_traffic(launch: KernelLaunch, kernel: Any) -> KernelLaunch:
    traffic = _Traffic()
    traffic.visit(kernel)
    if traffic.stages:
        return launch
    return msgspec.structs.replace(
        launch, global_load_bytes=round(traffic.load_bytes), global_store_bytes=round(traffic.store_bytes)
    )


@dataclass(frozen=True)
class _Loop:
    """A loop around a statement; all iterations of a vector are one access."""

    variable: Any
    extent: int
    is_vector: bool = False


@dataclass
class _Traffic:
    """Sums up the traffic of one kernel while it walks its statements.

    Attributes:
        load_bytes: Bytes that its reads move.
        store_bytes: Bytes that its writes move.
        stages: Whether it copies from device memory to shared memory.
        threads: Axes of grid and blocks by tag, once they are bound.
        loops: The loops around the current statement, from the outermost.
        accumulator: The store that is visited, where its value has the element that it replaces.
    """

    load_bytes: float = 0.0
    store_bytes: float = 0.0
    stages: bool = False
    threads: dict[str, _Loop] = field(default_factory=dict)
    loops: list[_Loop] = field(default_factory=list)
    accumulator: Any = None

    def visit(self, statement: Any) -> None:
        """Walk ``statement`` and sum up."""
        callbacks = (
            (tirx.For, self._loop),
            (tirx.AttrStmt, self._attribute),
            (tirx.BufferStore, self._store),
            (TensorLoad, self._load),
            (Call, self._call),
        )
        tvm_ffi.structural_visit(statement, callbacks)

    def _loop(self, loop: Any, visitor: Any) -> None:
        self.loops.append(
            _Loop(loop.loop_var, int(loop.extent), is_vector=loop.kind == tirx.ForKind.VECTORIZED)
        )
        self.visit(loop.body)
        self.loops.pop()

    def _attribute(self, attribute: Any, visitor: Any) -> None:
        """Bind a thread axis for what is inside; one that is bound again is the same axis."""
        axis = attribute.node
        bound = attribute.attr_key in ("thread_extent", "virtual_thread")
        tag = str(axis.thread_tag) if bound else ""
        if not bound or tag in self.threads:
            self.visit(attribute.body)
            return
        self.threads[tag] = _Loop(axis.var, int(attribute.value))
        self.visit(attribute.body)
        del self.threads[tag]

    def _store(self, store: Any, visitor: Any) -> None:
        loads = _loads_of(store.value)
        scope = str(store.buffer.scope())
        self.stages |= scope.startswith("shared") and any(_is_global(load.source) for load in loads)
        with self._accumulating(store if any(_is_same(load, store) for load in loads) else None):
            if scope == "global":
                is_kept = self.accumulator is not None
                self.store_bytes += self._moved_bytes(store.indices, store.value.ty, is_kept=is_kept)
            self.visit(store.value)

    @contextmanager
    def _accumulating(self, store: Any) -> Iterator[None]:
        self.accumulator = store
        yield
        self.accumulator = None

    def _load(self, load: Any, visitor: Any) -> None:
        if _is_global(load.source):
            is_kept = self.accumulator is not None and _is_same(load, self.accumulator)
            self.load_bytes += self._moved_bytes(load.indices, load.ty, is_kept=is_kept)

    def _call(self, call: Any, visitor: Any) -> None:
        """Of a padded element count the one that is read."""
        if str(call.op.name) == "tirx.if_then_else":
            self.visit(call.args[1])
        else:
            visitor.default_visit(call)

    def _moved_bytes(self, indices: Sequence[Any], element: Any, *, is_kept: bool) -> float:
        """Bytes that the accesses of all threads to an element move.

        Args:
            indices: One: buffers are flat.
            element: Its type.
            is_kept: Whether loops that it does not depend on keep it in a register.
        """
        (index,) = indices
        loops = _around(self.loops, index) if is_kept else self.loops
        asked = bytes_of(element) * math.prod(each.extent for each in (*loops, *self.threads.values()))
        neighbours = self.threads.get(_NEIGHBOURS)
        axes = [(neighbours.variable, min(_WARP, neighbours.extent))] if neighbours else []
        axes += [(loop.variable, loop.extent) for loop in loops if loop.is_vector]
        return asked * moved_share(index, bytes_of(element), axes)


def _around(loops: Sequence[_Loop], index: Any) -> Sequence[_Loop]:
    """The loops but the innermost ones that an index does not depend on."""
    depends = [i for i, loop in enumerate(loops) if _uses(index, loop.variable)]
    return loops[: depends[-1] + 1 if depends else 0]


def _uses(index: Any, variable: Any) -> bool:
    found = []
    tvm_ffi.structural_visit(index, ((tirx.Var, lambda each, _: found.append(each.same_as(variable))),))
    return any(found)


def _loads_of(value: Any) -> list[Any]:
    """All elements that a value is made of."""
    found: list[Any] = []
    tvm_ffi.structural_visit(value, ((TensorLoad, lambda load, _: found.append(load)),))
    return found


def _is_global(buffer: Any) -> bool:
    return str(buffer.scope()) == "global"


def _is_same(load: Any, store: Any) -> bool:
    """Whether a store replaces the element of a load."""
    same = tvm_ffi.structural_equal(load.indices, store.indices)
    return bool(load.source.same_as(store.buffer) and same)


def moved_share(index: Any, element_bytes: int, axes: Sequence[Axis]) -> float:
    """Bytes of the sectors that one access takes over the bytes that it asks for.

    Below 1 where threads ask for the same element, 1 where neighbours ask for neighbouring ones, and 8 where
    each asks for a float in a sector of its own. 1 also where the index is more than arithmetic, as one that
    is read from another array: nothing is known of it.

    Args:
        index: Position in a flat buffer that begins with a sector.
        element_bytes: Bytes of an element.
        axes: The threads of a warp, and the lanes of each. Other variables of the index are taken as 0.
    """
    values = np.meshgrid(*(np.arange(extent) for _, extent in axes), indexing="ij")
    try:
        positions = _values(index, [(name, value) for (name, _), value in zip(axes, values, strict=True)])
    except NotImplementedError:
        return 1.0
    sectors = np.unique(positions * element_bytes // SECTOR_BYTES).size
    accesses = int(np.prod([extent for _, extent in axes]))
    return sectors * SECTOR_BYTES / (accesses * element_bytes)


def _values(index: Any, known: Sequence[tuple[Any, NDArray[Any]]]) -> NDArray[Any]:
    """What an index is for these values of its variables.

    Raises:
        NotImplementedError: It is more than arithmetic.
    """
    if isinstance(index, tirx.Var):
        return next((value for name, value in known if name.same_as(index)), np.zeros(1, dtype=int))
    if isinstance(index, tirx.IntImm):
        return np.array([int(index)])
    operation = _ARITHMETIC.get(type(index))
    if operation is None:
        raise NotImplementedError(f"An index must be arithmetic of loops and threads, but got {index}.")
    return np.asarray(operation(_values(index.a, known), _values(index.b, known)))
