"""What the lowered program of a schedule says of the kernels that it will launch."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import transform as s_tir

from costmodel.records import KernelLaunch

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
_FLOAT_OPERATIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)


def kernel_launches(module: Any) -> tuple[KernelLaunch, ...]:
    """The kernels of a scheduled module, in order of launch.

    Loop extents are multiplied out, so both sides of a branch and masked threads count in full: the totals
    are upper bounds, and exact where tiles divide the loops.

    Args:
        module: Scheduled ``tvm.IRModule`` after its postprocessors.
    """
    body = _LOWERING(module)["main"].body
    statements = list(body) if isinstance(body, tirx.SeqStmt) else [body]
    return tuple(_Counter().count(statement) for statement in _kernels(statements))


def _kernels(statements: list[Any]) -> list[Any]:
    """Statements that hold a kernel each; declarations between them hold none."""
    return [s for s in statements if not isinstance(s, tirx.AllocBuffer | tirx.DeclBuffer)]


@dataclass
class _Counter:
    """Counts one kernel while it walks its statements; ``repeats`` is how often the current one runs."""

    repeats: int = 1
    extents: dict[str, int] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)
    parallel: int = 1
    vector_lanes: int = 1

    def count(self, statement: Any) -> KernelLaunch:
        """Walk ``statement`` and sum up."""
        callbacks = (
            (tirx.For, self._loop),
            (tirx.AttrStmt, self._attribute),
            (tirx.AllocBuffer, self._allocation),
            (tirx.BufferStore, self._store),
            (TensorLoad, self._load),
            (_FLOAT_OPERATIONS, self._operation),
            (Call, self._call),
        )
        tvm_ffi.structural_visit(statement, callbacks)
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
        self._inside(loop.body, visitor, extent, lanes)

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
        scope = str(allocation.buffer.scope()).split(".", maxsplit=1)[0]
        if scope in ("shared", "local"):
            shape = [int(extent) for extent in allocation.buffer.shape]
            copies = self._vthreads() if scope == "local" else 1  # each virtual thread keeps its own
            self.totals[f"{scope}_bytes"] += copies * math.prod(shape) * _bytes(allocation.buffer.dtype)
        visitor.default_visit(allocation)

    def _vthreads(self) -> int:
        return math.prod(extent for tag, extent in self.extents.items() if tag.startswith("vthread"))

    def _store(self, store: Any, visitor: Any) -> None:
        self._access("store", str(store.buffer.scope()), store.value.ty)
        visitor.visit(store.value)

    def _load(self, load: Any, visitor: Any) -> None:
        self._access("load", str(load.source.scope()), load.ty)

    def _access(self, action: str, scope: str, element: Any) -> None:
        memory = scope.split(".", maxsplit=1)[0]
        if memory in ("global", "shared"):
            self.totals[f"{memory}_{action}_bytes"] += self.repeats * _bytes(element)
        if memory == "global":
            width = self.vector_lanes * _bytes(element)
            self.totals["vector_bytes"] = max(width, self.totals["vector_bytes"])

    def _operation(self, operation: Any, visitor: Any) -> None:
        if "float" in str(operation.ty):
            self.totals["flops"] += self.repeats
        visitor.default_visit(operation)

    def _call(self, call: Any, visitor: Any) -> None:
        if str(call.op.name) == "tirx.if_then_else":
            visitor.visit(call.args[1])
            return
        if "float" in str(call.ty):
            self.totals["flops"] += self.repeats
        visitor.default_visit(call)


def _bytes(element: Any) -> int:
    """Bytes of one element of this type."""
    return int(tvm.DataType(str(element)).bits) // 8
