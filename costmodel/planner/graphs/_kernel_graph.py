"""A kernel graph: what a host thread and the streams of GPUs do, and what waits for what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.planner.graphs._kernel_class import KernelClass, class_of_name
from costmodel.records._platform import Device

if TYPE_CHECKING:
    import networkx


class TaskKind(IntEnum):
    """Kind of a task."""

    KERNEL = 0
    COPY = 1
    MEMSET = 2
    HOST = 3  # work of a host thread that neither launches nor waits
    LAUNCH = 4  # a call that gives work to a stream
    SYNC = 5  # what is left of a call that waits, once its wait is over


# Kinds that run on a device.
DEVICE_KINDS = (TaskKind.KERNEL, TaskKind.COPY, TaskKind.MEMSET)


class DependencyKind(IntEnum):
    """Reason for which a task waits for another."""

    ORDER = 0  # program order of a stream or thread
    LAUNCH = 1  # a launch and what it launched
    EVENT = 2  # a stream waits for an event of another
    SYNC = 3  # a host thread waits for a stream
    DATA = 4  # it reads what the other wrote, or one thread hands work to another


@dataclass(frozen=True)
class Resource:
    """Something that runs one task at a time.

    Attributes:
        name: Name, such as ``GPU 0 stream 7``.
        is_stream: Whether it is a stream of a device; otherwise it is a host thread.
        rank: Of the process that it belongs to, if there are several that work together.
    """

    name: str
    is_stream: bool
    rank: int | None = None


@dataclass(frozen=True)
class Dependencies:
    """Pairs of tasks of which the second waits for the first. All arrays are ``(m,)``.

    Attributes:
        sources: First task of each pair.
        targets: Second task of each pair.
        kinds: ``DependencyKind`` of each pair.
        lags_s: Minimum seconds between the two tasks.
        from_start: Whether the lag counts from the start of the first task, as after a launch, instead of its
            end.
    """

    sources: Positions
    targets: Positions
    kinds: NDArray[np.int8]
    lags_s: FloatArray
    from_start: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(
        cls, sources: Any, targets: Any, kinds: Any, lags_s: Any = 0.0, from_start: Any = False
    ) -> "Dependencies":
        """Make dependencies from lists or arrays. A single kind, lag or flag applies to all."""
        n = len(sources)
        return cls(
            np.asarray(sources, dtype=np.intp),
            np.asarray(targets, dtype=np.intp),
            np.broadcast_to(np.asarray(kinds, dtype=np.int8), n),
            np.broadcast_to(np.asarray(lags_s, dtype=np.float64), n),
            np.broadcast_to(np.asarray(from_start, dtype=np.bool_), n),
        )

    @classmethod
    def joined(cls, parts: "Sequence[Dependencies]") -> "Dependencies":
        """Concatenate dependencies in this order."""
        columns = ("sources", "targets", "kinds", "lags_s", "from_start")
        return cls.of(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))

    def lagging(self, lags_s: FloatArray) -> "Dependencies":
        """Return the same dependencies with other lags."""
        return replace(self, lags_s=lags_s)

    def where(self, keep: Any) -> "Dependencies":
        """Return the dependencies that a mask or positions select."""
        return Dependencies(
            self.sources[keep],
            self.targets[keep],
            self.kinds[keep],
            self.lags_s[keep],
            self.from_start[keep],
        )


@dataclass(frozen=True)
class KernelGraph:
    """Graph of tasks, stored in columns so that a million of them fit. Arrays over tasks are ``(n,)``.

    The tasks of a resource are in its program order, which dependencies of kind ``ORDER`` also express.

    Attributes:
        names: Distinct names of tasks.
        name_ids: Position in ``names``.
        kinds: ``TaskKind`` of each task.
        resources: Streams and threads.
        resource_ids: Position in ``resources``.
        durations_s: Durations in seconds, finite and not negative.
        ready_s: Earliest known start of a task that waits for nothing; 0 for other tasks.
        sms: Number of SMs that a kernel ran on; 0 if unknown.
        blocks: Number of blocks in a kernel's grid; 0 if unknown.
        block_warps: Number of warps per block; 0 if unknown.
        sm_blocks: Number of blocks that an SM holds at once; 0 if unknown.
        scopes: What tasks were part of, such as ``Optimizer.step#Adam.step``. The first one is empty and
            stands for no scope.
        scope_ids: Position in ``scopes``.
        workloads: Names of workloads that kernels compute. The first one is empty and stands for an unknown
            workload.
        workload_ids: Position in ``workloads``.
        dependencies: Dependencies between tasks.
        assumptions: Assumptions made when the graph was created or changed, in order.
        classes: What kernels of each name are, as ``names``; told by the names alone if empty. A name that
            stands for several classes is in ``names`` several times.
        operators: Operators that launched the kernels of each name, as ``names``: an empty name where nobody
            knows; empty if nobody knows any.
        device: Model of the GPU that kernels run on; None if unknown, or if there are several.
    """

    names: tuple[str, ...]
    name_ids: NDArray[np.int32]
    kinds: NDArray[np.int8]
    resources: tuple[Resource, ...]
    resource_ids: NDArray[np.int32]
    durations_s: FloatArray
    ready_s: FloatArray
    sms: NDArray[np.int32]
    blocks: NDArray[np.int64]
    block_warps: NDArray[np.int32]
    sm_blocks: NDArray[np.int32]
    scopes: tuple[str, ...]
    scope_ids: NDArray[np.int32]
    workloads: tuple[str, ...]
    workload_ids: NDArray[np.int32]
    dependencies: Dependencies
    assumptions: tuple[str, ...] = field(default=())
    classes: tuple[KernelClass, ...] = field(default=())
    operators: tuple[str, ...] = field(default=())
    device: Device | None = None

    def __post_init__(self) -> None:
        """Refuse columns that do not fit together.

        Raises:
            ValueError: Lengths differ, a position is out of range, or a duration is negative or not finite.
        """
        n, edges = len(self), self.dependencies
        lengths = {len(each) for each in (self.kinds, self.resource_ids, self.durations_s, self.ready_s)}
        others = (self.sms, self.blocks, self.block_warps, self.sm_blocks, self.scope_ids, self.workload_ids)
        if lengths | {len(each) for each in others} != {n}:
            raise ValueError(f"all columns of tasks must have {n} rows, but some have {sorted(lengths)}")
        if not (np.isfinite(self.durations_s).all() and (self.durations_s >= 0).all()):
            raise ValueError("durations must be finite and not negative")
        if len(edges) and not min(edges.sources.min(), edges.targets.min()) >= 0:
            raise ValueError("dependencies must name tasks, but got a negative position")
        if len(edges) and not max(edges.sources.max(), edges.targets.max()) < n:
            raise ValueError(f"dependencies must name tasks below {n}, but got a larger position")
        if self.classes and len(self.classes) != len(self.names):
            raise ValueError(f"classes must be those of {len(self.names)} names, but are {len(self.classes)}")
        if self.operators and len(self.operators) != len(self.names):
            raise ValueError(
                f"operators must be those of {len(self.names)} names, but are {len(self.operators)}"
            )

    def __len__(self) -> int:
        return len(self.name_ids)

    @cached_property
    def order(self) -> Positions:
        """Return the positions of the tasks in topological order.

        Raises:
            CostModelError: If the dependencies form a cycle.
        """
        return sort_topologically(len(self), self.dependencies.sources, self.dependencies.targets)

    @cached_property
    def on_device(self) -> NDArray[np.bool_]:
        """``(n,)`` mask of the tasks that run on a device."""
        return np.isin(self.kinds, DEVICE_KINDS)

    @cached_property
    def is_stream(self) -> NDArray[np.bool_]:
        """``(resources,)`` mask of the resources that are streams."""
        return np.array([resource.is_stream for resource in self.resources], dtype=bool)

    @cached_property
    def kernel_kinds(self) -> NDArray[np.int8]:
        """``(n,)`` ``KernelKind`` of each kernel, and of what else has its name."""
        return np.array([each.kind for each in self.known_classes], dtype=np.int8)[self.name_ids]

    @cached_property
    def precisions(self) -> NDArray[np.int8]:
        """``(n,)`` ``Precision`` of each kernel."""
        return np.array([each.precision for each in self.known_classes], dtype=np.int8)[self.name_ids]

    @cached_property
    def known_classes(self) -> tuple[KernelClass, ...]:
        """What kernels of each name are: as the graph says, or told by the names."""
        return self.classes or tuple(class_of_name(name) for name in self.names)

    def name(self, task: int) -> str:
        """Return the name of a task."""
        return self.names[int(self.name_ids[task])]

    def operator(self, task: int) -> str:
        """Return the operator that launched a kernel; empty if unknown."""
        return self.operators[int(self.name_ids[task])] if self.operators else ""

    def workload(self, task: int) -> str:
        """Return the name of the workload that a task computes; empty if unknown."""
        return self.workloads[int(self.workload_ids[task])]

    def of_kind(self, *kinds: TaskKind) -> NDArray[np.bool_]:
        """Return an ``(n,)`` mask of the tasks that are of one of the kinds."""
        return np.isin(self.kinds, kinds)

    def assuming(self, *sentences: str, **columns: Any) -> Self:
        """Return the graph with other columns, and with sentences on the assumptions that this makes."""
        return replace(self, assumptions=(*self.assumptions, *sentences), **columns)

    def to_networkx(self) -> "networkx.DiGraph":
        """Convert the graph to networkx: one node per task with its columns, one edge per dependency.

        Raises:
            MissingExtraError: If networkx is not installed.
        """
        try:
            import networkx
        except ImportError:
            raise MissingExtraError("A graph of networkx", "planner") from None
        graph = networkx.DiGraph()
        graph.add_nodes_from((task, self._attributes(task)) for task in range(len(self)))
        edges = self.dependencies
        graph.add_edges_from(
            (source, target, {"kind": DependencyKind(kind).name.lower(), "lag_s": lag, "from_start": flag})
            for source, target, kind, lag, flag in zip(
                edges.sources.tolist(),
                edges.targets.tolist(),
                edges.kinds.tolist(),
                edges.lags_s.tolist(),
                edges.from_start.tolist(),
                strict=True,
            )
        )
        return graph

    def _attributes(self, task: int) -> Mapping[str, Any]:
        return {
            "name": self.name(task),
            "kind": TaskKind(self.kinds[task]).name.lower(),
            "resource": self.resources[self.resource_ids[task]].name,
            "duration_s": float(self.durations_s[task]),
            "sms": int(self.sms[task]),
            "blocks": int(self.blocks[task]),
            "scope": self.scopes[self.scope_ids[task]],
            "workload": self.workload(task),
        }


def sort_topologically(n: int, sources: Positions, targets: Positions) -> Positions:
    """Return ``(n,)`` positions of tasks, each behind its predecessors; the given order where it is one.

    Args:
        n: Number of tasks.
        sources: ``(m,)`` what is waited for.
        targets: ``(m,)`` what waits.

    Raises:
        CostModelError: Tasks wait for each other in a circle.

    Reference:
        A. B. Kahn, Topological sorting of large networks, Communications of the ACM 5(11), 1962.
    """
    if (sources < targets).all():
        return np.arange(n)
    first, successors = group_values(n, sources, targets)
    waiting = np.bincount(targets, minlength=n).tolist()
    order = [task for task in range(n) if not waiting[task]]
    for task in order:  # grows while it is read
        for successor in successors[first[task] : first[task + 1]]:
            waiting[successor] -= 1
            if not waiting[successor]:
                order.append(successor)
    if len(order) < n:
        raise CostModelError(
            f"Dependencies must not form a cycle, but {n - len(order)} of {n} tasks wait for one. Remove a "
            "dependency."
        )
    return np.array(order, dtype=np.intp)


def group_values(n: int, keys: Positions, values: Positions) -> tuple[list[int], list[int]]:
    """Group values by key, as lists: those of key ``i`` are ``values[first[i]:first[i + 1]]``."""
    by_key = np.argsort(keys, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))])
    return first.tolist(), values[by_key].tolist()


def find_circles(n: int, sources: Positions, targets: Positions) -> NDArray[np.bool_]:
    """Find the dependencies that lie on a circle of dependencies: an ``(m,)`` mask."""
    links = coo_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(n, n))
    _, component = connected_components(links, directed=True, connection="strong")
    same: NDArray[np.bool_] = component[sources] == component[targets]
    return same
