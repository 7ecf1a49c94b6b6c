"""The request that describes a search."""

from dataclasses import dataclass

from costmodel.collector.runners._base import Runner
from costmodel.errors import CostModelError
from costmodel.records._platform import Platform
from costmodel.search._objective import Objective, ObjectiveName, SearchGoal


@dataclass(frozen=True)
class TuneRequest:
    """The request that describes a search.

    Attributes:
        workload: Name of the workload.
        sms: SM budgets in the order given. Empty for the whole device, or for all SM budgets with a portfolio
            or ``free_sms``.
        objective: How several SM budgets combine; None for the worst regret.
        weights: One weight per SM budget, in the order given. Empty unless the objective is weighted.
        portfolio: Maximum number of kernels; None for one kernel.
        free_sms: Maximum loss of latency for freeing SMs, as a share; None not to look for free SMs.
        trials: Number of candidates to measure.
        stop_gain: Expected gain below which the search ends, as a share of the best latency; None for no
            such limit.

    Raises:
        CostModelError: Values contradict each other, or one is out of range.
    """

    workload: str
    sms: tuple[int, ...] = ()
    objective: str | None = None
    weights: tuple[float, ...] = ()
    portfolio: int | None = None
    free_sms: float | None = None
    trials: int = 16
    stop_gain: float | None = None

    def __post_init__(self) -> None:
        """Check everything that needs no device or file."""
        if len(set(self.sms)) < len(self.sms) or any(sms < 1 for sms in self.sms):
            raise CostModelError(f"SM budgets must be distinct and at least 1, but got {self.sms}.")
        for name in ("trials", "portfolio"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise CostModelError(f"{name} must be at least 1, but got {count}.")
        for name in ("free_sms", "stop_gain"):
            share = getattr(self, name)
            if share is not None and not 0.0 < share < 1.0:
                raise CostModelError(f"{name} must be a share above 0 and below 1, but got {share:g}.")
        for name in ("objective", "weights"):
            if getattr(self, name) and not self.is_for_several:
                raise CostModelError(
                    f"An objective and weights must be for several SM budgets, such as 16,32,132, but got "
                    f"{name} {getattr(self, name)} for one."
                )

    @property
    def is_for_several(self) -> bool:
        """Whether the request covers several SM budgets."""
        return len(self.sms) > 1 or self.portfolio is not None or self.free_sms is not None

    @property
    def title(self) -> str:
        """Short description of the request."""
        if self.sms:
            return f"{self.workload} on {', '.join(map(str, self.sms))} SMs"
        return f"{self.workload} on {'several SM budgets' if self.is_for_several else 'the whole device'}"

    @property
    def goal(self) -> SearchGoal:
        """Whether to search for one kernel or a portfolio."""
        one = self.portfolio is None and self.free_sms is None
        return SearchGoal.ONE_KERNEL if one else SearchGoal.PORTFOLIO

    def most(self, budgets: int) -> int:
        """Return the maximum number of kernels for this number of SM budgets."""
        if self.portfolio is not None:
            return self.portfolio
        return 1 if self.free_sms is None else budgets

    def platforms(self, runner: Runner) -> tuple[Platform, ...]:
        """Return one platform per SM budget, sorted by granted SMs, with the whole device for ``free_sms``.

        Raises:
            CostModelError: An SM budget cannot be granted.
        """
        asked: tuple[int | None, ...] = self.sms
        if not asked:
            asked = runner.budgets if self.is_for_several else (None,)
        found = [runner.platform(sms) for sms in asked]
        if self.free_sms is not None:
            found.append(runner.platform())
        return tuple(platform for _, platform in sorted({p.sms_granted: p for p in found}.items()))

    def objective_for(self, platforms: tuple[Platform, ...]) -> Objective:
        """Make the objective, with weights in the order of the platforms.

        Raises:
            CostModelError: The objective is unknown, or the weights do not match the SM budgets.
        """
        weights = self.weights
        if len(weights) == len(self.sms):
            weights = tuple(weight for _, weight in sorted(zip(self.sms, weights, strict=True)))
        return Objective.make(self.objective or ObjectiveName.WORST_REGRET, len(platforms), weights or None)
