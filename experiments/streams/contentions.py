"""What kernels that run at once could take instead of what ``first_come`` says."""

from collections.abc import Sequence

from costmodel.planner import KernelGraph
from costmodel.planner.whatif._sharing import BESIDE, RunningKernel, Slowdown


def shared_alike(_: KernelGraph, *, beside: float = BESIDE) -> Slowdown:
    """All take longer by as much as they want more room than there is."""

    def slowdown(works: Sequence[RunningKernel]) -> Sequence[float]:
        slower = beside if len(works) > 1 else 1.0
        full = max(1.0, sum(work.share for work in works))
        return [slower * (full if work.share else 1.0) for work in works]

    return slowdown
