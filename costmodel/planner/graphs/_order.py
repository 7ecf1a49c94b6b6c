"""An order in which no task stands before one that it waits for."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from costmodel.arrays import Positions
from costmodel.errors import CostModelError


def topological_order(n: int, sources: Positions, targets: Positions) -> Positions:
    """``(n,)`` positions of tasks, each behind its predecessors; the given order where it is one.

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
    first, successors = grouped(n, sources, targets)
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


def grouped(n: int, keys: Positions, values: Positions) -> tuple[list[int], list[int]]:
    """The values of each key, as lists: those of key ``i`` are ``values[first[i]:first[i + 1]]``."""
    by_key = np.argsort(keys, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))])
    return first.tolist(), values[by_key].tolist()


def in_circles(n: int, sources: Positions, targets: Positions) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """``(m,)`` whether a dependency lies on a circle of dependencies."""
    links = coo_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(n, n))
    _, component = connected_components(links, directed=True, connection="strong")
    same: np.ndarray[tuple[int], np.dtype[np.bool_]] = component[sources] == component[targets]
    return same
