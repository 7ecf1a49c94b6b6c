"""What is asked of ``costmodel tune``."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from costmodel.errors import CostModelError


@dataclass(frozen=True)
class Outputs:
    """Files to write; None for none, but a replay always draws.

    Attributes:
        plot: Picture of latency over SM budgets.
        dispatch: Dispatch table.
        report: Page.
        json: Everything as JSON.
    """

    plot: Path | None = None
    dispatch: Path | None = None
    report: Path | None = None
    json: Path | None = None


@dataclass(frozen=True)
class TuneRequest:
    """What is asked of a search.

    Attributes:
        workload: Name of what is tuned.
        sms: Budgets in the order given; none for the whole device, or for all where several are tuned for.
        objective: Name of how several combine; None for the worst regret.
        weights: One a budget, in the order given; none but for the weighted objective.
        portfolio: Most kernels; None for one.
        free_sms: Most that freed SMs may cost; None where that is not asked.
        trials: Candidates to measure.
        screened: Configs to draw and screen at a time.
        study: Where the study is kept; None for memory.
        stop_gain: Expected gain below which the search ends.
        seed: Seed of all random choices.
        outputs: Files to write.
    """

    workload: str
    sms: tuple[int, ...]
    objective: str | None
    weights: tuple[float, ...]
    portfolio: int | None
    free_sms: float | None
    trials: int
    screened: int
    study: str | None
    stop_gain: float | None
    seed: int
    outputs: Outputs

    @property
    def is_for_several(self) -> bool:
        """Whether it is asked for several budgets."""
        return len(self.sms) > 1 or self.portfolio is not None or self.free_sms is not None

    @property
    def title(self) -> str:
        """What is tuned, in a few words."""
        if self.sms:
            return f"{self.workload} on {', '.join(map(str, self.sms))} SMs"
        return f"{self.workload} on {'several budgets' if self.is_for_several else 'the whole device'}"

    def check(self) -> None:
        """Check that the options go together.

        Raises:
            CostModelError: They do not.
        """
        if self.is_for_several and self.stop_gain is not None:
            raise CostModelError("--stop-gain must be used with one SM budget. Give --trials for several.")
        for option in ("objective", "weights"):
            if getattr(self, option) and not self.is_for_several:
                raise CostModelError(
                    f"--{option} must be used with several SM budgets, as in --sms 16,32,132."
                )
        if self.outputs.dispatch and not self.is_for_several:
            raise CostModelError(
                "--dispatch must be used with several SM budgets, as in --sms 16,32,132 or --portfolio 3."
            )


def share_of(option: str, text: str | None) -> float | None:
    """A share such as ``1%`` or ``0.01``; None for None.

    Raises:
        CostModelError: It is none, or not between 0 and 1.
    """
    if text is None:
        return None
    number, percent, rest = text.partition("%")
    with suppress(ValueError):
        share = float(number) / (100.0 if percent else 1.0)
        if not rest and 0.0 < share < 1.0:
            return share
    raise CostModelError(f"{option} must be a share above 0 and below 1, such as 1%, but got {text!r}.")


def numbers_of(option: str, text: str | None) -> tuple[float, ...]:
    """Positive numbers such as ``16,32,132``; none for None.

    Raises:
        CostModelError: A part is no positive number.
    """
    if text is None:
        return ()
    with suppress(ValueError):
        numbers = tuple(float(part) for part in text.split(","))
        if all(0.0 < number < float("inf") for number in numbers):
            return numbers
    raise CostModelError(f"{option} must be positive numbers such as 16,32,132, but got {text!r}.")


def budgets_of(text: str | None) -> tuple[int, ...]:
    """SM budgets, in the order given.

    Raises:
        CostModelError: One is no positive whole number, or stands twice.
    """
    budgets = tuple(int(number) for number in numbers_of("--sms", text))
    if budgets != numbers_of("--sms", text) or len(set(budgets)) < len(budgets):
        raise CostModelError(f"--sms must be distinct whole numbers such as 16,32,132, but got {text!r}.")
    return budgets
