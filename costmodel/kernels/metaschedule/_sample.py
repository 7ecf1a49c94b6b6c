"""Opens design spaces, and draws candidates from them."""

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from costmodel.errors import MissingExtraError
from costmodel.kernels._sample import sample
from costmodel.records._candidate import Candidate, KernelLaunch
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace


@lru_cache(maxsize=64)
def open_space(workload: Workload, kind: TargetKind) -> "MetaScheduleSpace":
    """MetaSchedule's design space of a workload; the same object for the same arguments.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    if find_spec("tvm") is None:
        raise MissingExtraError("A MetaSchedule design space", "tvm")
    from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace  # loads TVM

    return MetaScheduleSpace(workload, kind)


def sample_candidates(
    workload: Workload, kind: TargetKind, count: int, seed: int, **options: Any
) -> list[Candidate]:
    """Draw valid candidates of a workload that all lower to different programs; see ``kernels.sample``.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    return sample(open_space(workload, kind), count, seed, **options)


def lowered_launches(module: Any) -> tuple[KernelLaunch, ...]:
    """What the lowered program of any scheduled module says of its kernels, see ``KernelLaunch``.

    Takes 2 to 15 ms, as TVM's own features do.

    Args:
        module: Scheduled ``tvm.IRModule`` after its postprocessors, with one function ``main``.

    Returns:
        The kernels in order of launch; none where the program cannot be lowered or has sizes that are not
        known.
    """
    from costmodel.kernels.metaschedule._lowered import kernel_launches  # loads TVM

    try:
        return kernel_launches(module)
    except Exception:  # noqa: BLE001 (TVM raises its own error types; of such a program nothing is known)
        return ()
