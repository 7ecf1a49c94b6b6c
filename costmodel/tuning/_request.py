"""What a search is asked for."""

from dataclasses import dataclass

from costmodel.collector import Runner
from costmodel.errors import CostModelError
from costmodel.records import Platform
from costmodel.search import Objective, ObjectiveName, SearchGoal


@dataclass(frozen=True)
class TuneRequest:
    """What a search is asked for.

    Attributes:
        workload: Name of what is tuned.
        sms: SM budgets in the order given; none for the whole device, or for all where several are tuned for.
        objective: Name of how several combine; None for the worst regret.
        weights: One a budget, in the order given; none but for the weighted objective.
        portfolio: Most kernels; None for one.
        free_sms: Most that freed SMs may cost, as a share of the latency; None where that is not asked.
        trials: Candidates to measure.
        stop_gain: Expected gain below which the search ends, as a share of the best latency; None for never.

    Raises:
        CostModelError: These do not go together, or one is out of range.
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
        """Check what can be checked before anything is opened."""
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
        """Whether it is asked for several SM budgets."""
        return len(self.sms) > 1 or self.portfolio is not None or self.free_sms is not None

    @property
    def title(self) -> str:
        """What is tuned, in a few words."""
        if self.sms:
            return f"{self.workload} on {', '.join(map(str, self.sms))} SMs"
        return f"{self.workload} on {'several SM budgets' if self.is_for_several else 'the whole device'}"

    @property
    def goal(self) -> SearchGoal:
        """What is looked for."""
        one = self.portfolio is None and self.free_sms is None
        return SearchGoal.ONE_KERNEL if one else SearchGoal.PORTFOLIO

    def most(self, budgets: int) -> int:
        """Kernels that are allowed for so many budgets."""
        if self.portfolio is not None:
            return self.portfolio
        return 1 if self.free_sms is None else budgets

    def platforms(self, runner: Runner) -> tuple[Platform, ...]:
        """The platforms of the budgets, by granted SMs; freed SMs are counted from the whole device.

        Raises:
            CostModelError: A budget cannot be granted.
        """
        asked: tuple[int | None, ...] = self.sms
        if not asked:
            asked = runner.budgets if self.is_for_several else (None,)
        found = [runner.platform(sms) for sms in asked]
        if self.free_sms is not None:
            found.append(runner.platform())
        return tuple(platform for _, platform in sorted({p.sms_granted: p for p in found}.items()))

    def objective_for(self, platforms: tuple[Platform, ...]) -> Objective:
        """The objective, its weights in the order of the platforms.

        Raises:
            CostModelError: There is no such objective, or the weights do not fit.
        """
        weights = self.weights
        if len(weights) == len(self.sms):
            weights = tuple(weight for _, weight in sorted(zip(self.sms, weights, strict=True)))
        return Objective.make(self.objective or ObjectiveName.WORST_REGRET, len(platforms), weights or None)
