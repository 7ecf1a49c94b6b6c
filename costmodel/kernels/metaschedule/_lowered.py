"""What the lowered program of a schedule says of the kernels that it will launch."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import transform as s_tir

from costmodel.errors import CostModelError
from costmodel.kernels.family._base import Geometry
from costmodel.kernels.metaschedule._shared_memory import (
    FRAGMENT_SIDE,
    PIPELINE_STAGES,
    bytes_of,
    pipeline_copies,
)
from costmodel.records._candidate import KernelLaunch

_LOWERING = tvm.transform.Sequential(
    [
        s_tir.CanonicalizeLoop(),
        s_tir.LowerCrossThreadReduction(),
        s_tir.LowerInitBlock(),
        s_tir.PlanAndUpdateBufferAllocationLocation(),
        s_tir.ConvertBlocksToOpaque(),
        s_tir.LiftThreadBinding(),
        s_tir.CompactBufferAllocation(),
        s_tir.UnifyThreadBinding(),
        s_tir.LowerMatchBuffer(),
        s_tir.StmtSimplify(),
        s_tir.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        s_tir.StmtSimplify(),
    ]
)
# Dynamic shared memory is reused between buffers by their lifetimes, which depend on what is unrolled before.
_MERGING = tvm.transform.Sequential(
    [
        tirx.transform.VectorizeLoop(),
        tirx.transform.StorageRewrite(),
        tirx.transform.UnrollLoop(),
        tirx.transform.StmtSimplify(),
        s_tir.MergeSharedMemoryAllocations(),
    ]
)
_WARP = 32  # threads that hold a fragment together
_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)
# Calls on fragments, and what they do to shared memory.
_FRAGMENT_CALLS = {
    "tvm_fill_fragment": "",
    "tvm_mma_sync": "",
    "tvm_load_matrix_sync": "load",
    "tvm_store_matrix_sync": "store",
}


def kernel_launches(module: Any) -> tuple[KernelLaunch, ...]:
    """The kernels of a scheduled module, in order of launch.

    Loop extents are multiplied out, so both sides of a branch and masked threads count in full: the totals
    are upper bounds, and exact where tiles divide the loops. What a warp does together, with a fragment of a
    matrix, counts once.

    Args:
        module: Scheduled ``tvm.IRModule`` after its postprocessors.
    """
    return launches_of(lower(module))


def lower(module: Any) -> Any:
    """A scheduled module with flat buffers and explicit threads, whose kernels can be counted."""
    return _LOWERING(module)


def launches_of(lowered: Any) -> tuple[KernelLaunch, ...]:
    """The kernels of a lowered module, see ``kernel_launches``."""
    kernels = kernels_of(lowered)
    counters = [_Counter() for _ in kernels]
    launches = tuple(c.count(kernel) for c, kernel in zip(counters, kernels, strict=True))
    if not any(counter.dynamic for counter in counters):
        return launches
    dynamic = _dynamic_bytes(lowered)
    return tuple(
        msgspec.structs.replace(launch, shared_bytes=launch.shared_bytes + size)
        for launch, size in zip(launches, dynamic, strict=True)
    )


def geometry_of(lowered: Any) -> Geometry:
    """How a lowered module with one kernel launches it.

    Raises:
        CostModelError: It has several.
    """
    kernels = kernels_of(lowered)
    if len(kernels) != 1:
        raise CostModelError(f"A program must launch one kernel to be read, but launches {len(kernels)}.")
    counter = _Counter()
    counter.visit(kernels[0])
    axes = {
        what: [[counter.extents.get(f"{what}.{axis}", 1) for axis in "xyz"]]
        for what in ("blockIdx", "threadIdx")
    }
    dynamic = _dynamic_bytes(lowered) if counter.dynamic else [0]
    return Geometry(np.array(axes["blockIdx"]), np.array(axes["threadIdx"]), np.array(dynamic))


def _dynamic_bytes(lowered: Any) -> list[int]:
    return list(map(_dynamic_shared_bytes, kernels_of(_MERGING(lowered))))


def operations_of(statement: Any) -> int:
    """Arithmetic operations of one run of a statement; those of indices do not count."""
    counter = _Counter()
    counter.visit(statement)
    return counter.totals["flops"]


def kernels_of(module: Any) -> list[Any]:
    """Statements that hold a kernel each; declarations between them hold none."""
    body = module["main"].body
    statements = list(body) if isinstance(body, tirx.SeqStmt) else [body]
    return [s for s in statements if not isinstance(s, tirx.AllocBuffer | tirx.DeclBuffer)]


def _dynamic_shared_bytes(kernel: Any) -> int:
    """Dynamic shared memory that a kernel allocates."""
    sizes = []

    def allocation(statement: Any, visitor: Any) -> None:
        if statement.buffer.scope() == "shared.dyn":
            sizes.append(_size(statement.buffer))
        visitor.default_visit(statement)

    tvm_ffi.structural_visit(kernel, ((tirx.AllocBuffer, allocation),))
    return sum(sizes)


@dataclass
class _Counter:
    """Counts one kernel while it walks its statements; ``repeats`` is how often the current one runs.

    ``dynamic`` tells that there is dynamic shared memory, which is not counted; ``storing`` that what is
    visited is a value of integers, whose operations count as those of floats do. Elsewhere integers are
    indices.
    """

    repeats: int = 1
    extents: dict[str, int] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)
    parallel: int = 1
    vector_lanes: int = 1
    shared_copies: int = 1
    dynamic: bool = False
    storing: bool = False

    def visit(self, statement: Any) -> None:
        """Walk ``statement`` and count."""
        callbacks = (
            (tirx.For, self._loop),
            (tirx.AttrStmt, self._attribute),
            (tirx.AllocBuffer, self._allocation),
            (tirx.BufferStore, self._store),
            (TensorLoad, self._load),
            (_OPERATIONS, self._operation),
            (Call, self._call),
        )
        tvm_ffi.structural_visit(statement, callbacks)

    def count(self, statement: Any) -> KernelLaunch:
        """Walk ``statement`` and sum up."""
        self.visit(statement)
        grid = [extent for tag, extent in self.extents.items() if tag.startswith("blockIdx")]
        block = [extent for tag, extent in self.extents.items() if tag.startswith("threadIdx")]
        return KernelLaunch(
            blocks=math.prod(grid) if grid else self.parallel,
            threads_per_block=math.prod(block),
            vthreads=self._vthreads(),
            **self.totals,
        )

    def _loop(self, loop: Any, visitor: Any) -> None:
        extent = int(loop.extent)
        if loop.kind == tirx.ForKind.PARALLEL:
            self.parallel *= extent
        if "pragma_auto_unroll_max_step" in loop.annotations:
            self._unroll(int(loop.annotations["pragma_auto_unroll_max_step"]))
        lanes = extent if loop.kind == tirx.ForKind.VECTORIZED else 1
        copies = pipeline_copies(loop.annotations.get(PIPELINE_STAGES, [0]))
        self.shared_copies *= copies
        self._inside(loop.body, visitor, extent, lanes)
        self.shared_copies //= copies

    def _attribute(self, attribute: Any, visitor: Any) -> None:
        extent = 1
        if attribute.attr_key in ("thread_extent", "virtual_thread"):
            tag, size = str(attribute.node.thread_tag), int(attribute.value)
            # A thread axis that is bound again inside its own binding is the same axis.
            extent = 1 if tag in self.extents else size
            self.extents[tag] = max(size, self.extents.get(tag, 1))
        elif attribute.attr_key == "pragma_auto_unroll_max_step":
            self._unroll(int(attribute.value))
        self._inside(attribute.body, visitor, extent)

    def _inside(self, body: Any, visitor: Any, extent: int, lanes: int = 1) -> None:
        """Visit a body that runs ``extent`` times, ``lanes`` of them in one vector access."""
        self.repeats *= extent
        self.vector_lanes *= lanes
        visitor.visit(body)
        self.repeats //= extent
        self.vector_lanes //= lanes

    def _unroll(self, steps: int) -> None:
        self.totals["unroll_steps"] = max(steps, self.totals["unroll_steps"])

    def _allocation(self, allocation: Any, visitor: Any) -> None:
        scope, size = str(allocation.buffer.scope()), _size(allocation.buffer)
        if scope == "shared":
            self.totals["shared_bytes"] += size * self.shared_copies
        elif scope == "shared.dyn":
            self.dynamic = True
        elif scope == "local":
            self.totals["local_bytes"] += size * self._vthreads()  # each virtual thread keeps its own
        elif scope.startswith("wmma."):
            self.totals["local_bytes"] += size // _WARP
        visitor.default_visit(allocation)

    def _vthreads(self) -> int:
        return math.prod(extent for tag, extent in self.extents.items() if tag.startswith("vthread"))

    def _store(self, store: Any, visitor: Any) -> None:
        self._access("store", str(store.buffer.scope()), store.value.ty)
        self.storing = "int" in str(store.value.ty)
        visitor.visit(store.value)
        self.storing = False

    def _load(self, load: Any, visitor: Any) -> None:
        self._access("load", str(load.source.scope()), load.ty)

    def _access(self, action: str, scope: str, element: Any) -> None:
        memory = scope.split(".", maxsplit=1)[0]
        if memory in ("global", "shared"):
            self.totals[f"{memory}_{action}_bytes"] += self.repeats * bytes_of(element)
        if memory == "global":
            width = self.vector_lanes * bytes_of(element)
            self.totals["vector_bytes"] = max(width, self.totals["vector_bytes"])

    def _counts(self, element: Any) -> bool:
        """Whether operations of this type work on data."""
        return "float" in str(element) or (self.storing and "int" in str(element))

    def _operation(self, operation: Any, visitor: Any) -> None:
        if self._counts(operation.ty):
            self.totals["flops"] += self.repeats
        visitor.default_visit(operation)

    def _call(self, call: Any, visitor: Any) -> None:
        name = str(call.op.name).removeprefix("tirx.")
        if name == "if_then_else":
            visitor.visit(call.args[1])
        elif name in _FRAGMENT_CALLS:
            self._fragment(name, call)
        else:
            if self._counts(call.ty):
                self.totals["flops"] += self.repeats
            visitor.default_visit(call)

    def _fragment(self, name: str, call: Any) -> None:
        """A call that all threads of a warp make together: each is counted for its share."""
        if name == "tvm_mma_sync":
            operations = 2 * self.repeats * FRAGMENT_SIDE**3 // _WARP
            self.totals["flops"] += operations
            self.totals["tensor_flops"] += operations
        elif action := _FRAGMENT_CALLS[name]:
            pointer = call.args[5]
            element = pointer.args[0].ty
            self.totals[f"shared_{action}_bytes"] += (
                self.repeats * FRAGMENT_SIDE**2 * bytes_of(element) // _WARP
            )


def _size(buffer: Any) -> int:
    """Bytes of a buffer."""
    return math.prod(int(extent) for extent in buffer.shape) * bytes_of(buffer.dtype)
