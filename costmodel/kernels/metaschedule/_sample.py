"""Draws candidates from a design space: at random, or near configs that are known to be good."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.errors import InvalidConfigError, MissingExtraError
from costmodel.kernels._design_space import neighbour
from costmodel.kernels.metaschedule._distinct import DistinctPrograms
from costmodel.records import Candidate, Config, KernelLaunch, TargetKind, Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace

# After this many draws in a row that repeat a config or a program, what is drawn from counts as exhausted: a
# program that 2 % of the draws give is then missed with a probability of 2 %. It happens near the fastest
# kernels of row-wise reductions, whose sketch has two decisions, and in small spaces.
_MOST_REPEATS = 200


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


def sample_candidates(  # noqa: PLR0913 (one argument a knob, all but three optional)
    workload: Workload,
    kind: TargetKind,
    count: int,
    seed: int,
    *,
    parents: Sequence[Config] = (),
    known: Sequence[Candidate] = (),
    time_limit_s: float = 600.0,
    on_progress: Callable[[int], None] | None = None,
) -> list[Candidate]:
    """Draw valid candidates that all lower to different programs.

    Args:
        workload: What they compute.
        kind: Kind of device.
        count: How many to draw. Fewer come back where the space or the time does not give as many.
        seed: Seed; the same arguments draw the same candidates as long as time does not run out.
        parents: Configs to start from. With parents, a draw changes one of them in one to three parameters
            until their neighbourhood is exhausted; after that, and without parents, it is uniform over each
            parameter's choices.
        known: Candidates of this workload that are there already, not to be drawn again.
        time_limit_s: Seconds after which to stop.
        on_progress: Called with the number drawn so far, after each.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    space = open_space(workload, kind)
    rng = np.random.default_rng(seed)
    programs = DistinctPrograms(space, known)
    found: list[Candidate] = []
    tried: set[str] = set()
    repeats = 0
    deadline = time.monotonic() + time_limit_s
    # Nearly all draws verify; 400 for each candidate end the search where none does.
    for _ in range(400 * count):
        if repeats == _MOST_REPEATS and parents:
            parents, repeats = (), 0
        if len(found) == count or repeats == _MOST_REPEATS or time.monotonic() > deadline:
            break
        config = _draw(space, parents, rng)
        if config.config_id in tried:
            repeats += 1
            continue
        tried.add(config.config_id)
        try:
            candidate = space.candidate(config)
        except InvalidConfigError:
            continue
        if not programs.add(candidate):
            repeats += 1
            continue
        repeats = 0
        found.append(candidate)
        if on_progress:
            on_progress(len(found))
    return found


def _draw(space: "MetaScheduleSpace", parents: Sequence[Config], rng: np.random.Generator) -> Config:
    """A random config, or one near a random parent."""
    if not parents:
        return space.sample(rng)
    return neighbour(space, parents[int(rng.integers(len(parents)))], rng)


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
