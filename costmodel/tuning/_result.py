"""What ``tune`` gives back."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.search import Search, Trial
from costmodel.tuning.report import (
    CHOSEN,
    BudgetCurve,
    Findings,
    ReportTable,
    answer,
    curves_figure,
    kernels_table,
    page_of,
    trials_frame,
    trials_table,
    values_of,
    write_report,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class TuneResult(Findings):
    """The kernels to run, every trial, and how they compare; in a notebook it shows itself.

    Attributes:
        search: All that was measured, as arrays: ``latency_s``, ``ranked``, ``portfolio``, ``provenance``.
        ranges: The chosen kernels, and the SM budgets that each is for.
        most: Kernels that were allowed.
        free: The fewest SMs that are enough; None where that was not asked.
        curves: Latency over SM budgets of the choice and of others.
        service: What a service beside it lost; None where there was none.
        searches: What found it, one a source.

    Example:
        >>> result = tune("matmul-m16-n1024-k1024", sms=32, trials=4)
        >>> len(result.trials), result.best.outcomes[0].value
        (4, 'ok')
    """

    searches: tuple[Search, ...] = ()

    @property
    def best(self) -> Trial:
        """The best trial: at one SM budget the fastest, over several by the objective.

        Raises:
            CostModelError: No kernel that was measured works at all budgets.
        """
        return self.search.best

    @property
    def trials(self) -> "pd.DataFrame":
        """One row a trial: its config, how it ended, predicted and measured seconds."""
        return trials_frame(self.search)

    @property
    def expected_gain(self) -> float | None:
        """By which share of the best latency another measurement is expected to improve on it.

        Of several sources the largest. None where no model can tell, as over several SM budgets.
        """
        gains = [gain for search in self.searches if (gain := search.expected_gain) is not None]
        return max(gains, default=None)

    @property
    def answer(self) -> tuple[str, ...]:
        """What to run, how it compares with other choices, and where the answer came from."""
        return answer(self)

    @property
    def free_sms(self) -> int | None:
        """The fewest SMs that cost at most as much as was allowed; None where that was not asked."""
        return None if self.free is None else self.search.sms[self.free.budget]

    @property
    def tables(self) -> tuple[ReportTable, ...]:
        """The trials from the best to the worst, and for several SM budgets the kernels to run."""
        several = len(self.search.sms) > 1
        return (trials_table(self), *([kernels_table(self)] if several else []))

    def plot(self, path: Path | str | None = None) -> Any:
        """A figure of latency over SM budgets: the choice, the best, and the whole-device choice.

        On a device nobody knows other budgets than those tuned for, unless ``measure_curves`` was asked.

        Args:
            path: PNG, SVG or PDF to write it to as well; None for none.

        Raises:
            CostModelError: The file cannot be written.
        """
        from costmodel.figures import save_figure

        chosen = {part: at for r in self.dispatch_table.ranges for part, at in r.latency_s.items()}
        curves = self.curves or [BudgetCurve(CHOSEN, chosen)]
        figure = curves_figure(curves, unit=self.unit, sms=self.search.sms, title=self.title)
        if path is not None:
            save_figure(figure, Path(path))
        return figure

    def save_report(self, path: Path | str) -> None:
        """Write one HTML page: the answer, tables, pictures of latency over SMs, progress and predictions.

        Raises:
            CostModelError: The file cannot be written.
        """
        write_report(page_of(self), Path(path))

    def save_dispatch_table(self, path: Path | str) -> None:
        """Write the dispatch table as JSON, which ``costmodel.load_dispatch_table`` reads.

        Raises:
            CostModelError: The file cannot be written.
        """
        self.dispatch_table.save(path)

    def to_dict(self) -> dict[str, Any]:
        """Everything, by name: the choice, trials in the order of measurement, curves, provenance."""
        return values_of(self)

    def __repr__(self) -> str:
        """The answer in a line."""
        return f"<TuneResult: {self.answer[0]}>"

    def _repr_html_(self) -> str:
        """The answer, and the trials with the kernels to run below, as a notebook shows them."""
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.answer)
        return sentences + "".join(table.to_html() for table in self.tables[::-1])
