"""The most that tiles alive at once take, by the order in which the IR has their uses."""

from collections.abc import Callable

from costmodel.kernels.triton._ir import IrOperation, Region, Type

# What is made again where it is used, and so takes nothing.
_FREE = frozenset(("arith.constant", "tt.splat", "tt.make_range", "tt.broadcast", "tt.expand_dims"))


def most_live(function: IrOperation, size_of: Callable[[Type], float]) -> float:
    """Return the most that tiles alive at once in a function take.

    Args:
        function: The function.
        size_of: What a value of a type takes.
    """
    return max((_most(region, 0.0, size_of) for region in function.regions), default=0.0)


def _most(region: Region, around: float, size_of: Callable[[Type], float]) -> float:
    last = {name: i for i, each in enumerate(region.operations) for name in each.names}
    live: dict[str, float] = {}
    most = around
    for i, operation in enumerate(region.operations):
        held = around + sum(live.values())
        if operation.name.startswith("scf."):
            most = max([most, *(_most(inner, held, size_of) for inner in operation.regions)])
        if operation.name not in _FREE:
            for name, kind in zip(operation.results, operation.result_types, strict=False):
                if kind.shape and last.get(name, -1) > i and not kind.is_pointer:
                    live[name] = size_of(kind)
        most = max(most, around + sum(live.values()))
        for name in [name for name in live if last.get(name, -1) <= i]:
            del live[name]
    return most
