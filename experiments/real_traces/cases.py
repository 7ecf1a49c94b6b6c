"""What is predicted from which trace, and the variant that was measured of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from costmodel.planner import KernelGraph, fuse, on_sms
from costmodel.planner.whatif._fuse import fused_optimizer, remove_launches
from costmodel.planner.whatif._half_precision import half_precision

Row = Mapping[str, Any]
Transform = Callable[[KernelGraph], KernelGraph]


@dataclass(frozen=True)
class Case:
    """One prediction.

    Attributes:
        network: Its name.
        base: Variant whose trace is changed.
        target: Variant that was measured.
        what_if: What is changed, as a group of rows of the table.
        transforms: In order.
    """

    network: str
    base: str
    target: str
    what_if: str
    transforms: tuple[Transform, ...]


def cases(rows: list[Row], gap_s: Callable[[str], float]) -> Iterator[Case]:
    """Each pair of measured variants that differ in one thing, and whole chains from the plainest one.

    Args:
        rows: What was measured.
        gap_s: Seconds between kernels of a CUDA graph, of a network.
    """
    by_network: dict[str, dict[str, Row]] = {}
    for row in rows:
        if not row["error"]:
            by_network.setdefault(row["network"], {})[row["variant"]] = row
    for network, variants in by_network.items():
        for base in variants.values():
            for target in variants.values():
                changes = [change for change in CHANGES if base[change] != target[change]]
                steps = [_step(change, base, target, gap_s(network)) for change in changes]
                if steps and all(steps) and (len(steps) == 1 or _is_plainest(base)):
                    what_if = " + ".join(name for name, _ in steps)
                    transforms = tuple(step for _, step in steps)
                    yield Case(network, base["variant"], target["variant"], what_if, transforms)


def _is_plainest(row: Row) -> bool:
    return row["variant"] in ("eager", "foreach")


def _step(change: str, base: Row, target: Row, gap_s: float) -> tuple[str, Transform] | None:
    """Name and transform of a change; None where it goes the other way."""
    before, after = base[change], target[change]
    steps: dict[tuple[str, Any, Any], tuple[str, Transform]] = {
        ("fused", "", "gelu"): ("fused gelu", partial(_fuse, scope="gelu")),
        ("fused", "", "attention"): ("fused attention", partial(_fuse, scope="attention")),
        ("half", False, True): ("half precision", half_precision),
        ("optimizer", "forloop", "fused"): ("fused optimiser", fused_optimizer),
        ("optimizer", "foreach", "fused"): ("fused optimiser", fused_optimizer),
        ("graph", False, True): ("CUDA graphs", partial(remove_launches, gap_s=gap_s)),
        ("sms", 0, 64): ("64 SMs", partial(on_sms, sms=64)),
        ("sms", 0, 32): ("32 SMs", partial(on_sms, sms=32)),
    }
    return steps.get((change, before, after))


def _fuse(graph: KernelGraph, scope: str) -> KernelGraph:
    return fuse(graph, "*", scope=scope)


CHANGES = ("fused", "half", "optimizer", "graph", "sms")
