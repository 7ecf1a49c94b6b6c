"""The result of ``tune``."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from costmodel.arguments import check_path
from costmodel.report._page import TextTable
from costmodel.search._search import Search
from costmodel.search._trial import Trial
from costmodel.tuning._answer import answer
from costmodel.tuning._figures import plot_curves
from costmodel.tuning._findings import CHOSEN, BudgetCurve, Findings
from costmodel.tuning._page import (
    kernels_table,
    page_of,
    result_values,
    trials_frame,
    trials_table,
    write_report,
)

if TYPE_CHECKING:
    import pandas as pd


class _FormerTable(tuple[Trial, ...]):
    """Trials, which answer as the table that they were in 0.3, too, with a warning, until 0.5."""

    to_frame: "Callable[[], pd.DataFrame]"

    @classmethod
    def of(cls, trials: tuple[Trial, ...], to_frame: "Callable[[], pd.DataFrame]") -> "_FormerTable":
        found = cls(trials)
        found.to_frame = to_frame
        return found

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, Integral | slice) else self._table()[key]

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)  # the result, which makes the table, has locks

    def __getattr__(self, name: str) -> Any:
        from pandas import DataFrame

        if name.startswith("_") or not (hasattr(DataFrame, name) or name in self.to_frame()):
            raise AttributeError(f"trials are a tuple, without {name}: to_frame() of the result is a table.")
        return getattr(self._table(), name)

    def _table(self) -> "pd.DataFrame":
        message = "The table of a result's trials is now result.to_frame(); trials are a tuple from 0.5 on."
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        return self.to_frame()


@dataclass(frozen=True, repr=False)
class TuneResult(Findings):
    """The result of ``tune``: the kernels to run, every trial, and a comparison with other choices.

    A notebook displays the answer and the tables.

    Attributes:
        search: All trials, and what they give as arrays: ``latency_s``, ``ranked``, ``portfolio``.
        ranges: The chosen kernels, and the SM budgets that each one serves.
        most: Maximum number of kernels that was allowed.
        free: The fewest SMs that are enough; None if ``free_sms`` was not given.
        curves: Latency over SM budgets, for the chosen kernels and for other choices.
        left_out: Why a source was left out, by its name.
        remarks: What the runner says of how measuring went, such as what a service beside it lost.
        searches: The searches, one per source.

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
            CostModelError: No measured kernel works at all SM budgets.
        """
        return self.search.best

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, in the order of measurement."""
        return _FormerTable.of(self.search.trials, self.to_frame)

    @property
    def service(self) -> NoReturn:
        """Where 0.3 had how a service beside the search fared; it goes in 0.5."""
        raise AttributeError(
            "A result has no service since 0.4: remarks says how it fared, and "
            "on=costmodel.tuning.Beside(runner, log, on_end=print) is told at the end."
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per trial: its config, outcome, and predicted and measured latency in seconds."""
        return trials_frame(self.search)

    @property
    def expected_gain(self) -> float | None:
        """Expected gain of the next measurement, as a share of the best latency.

        The largest over several sources. None if no model can estimate it, as for several SM budgets.
        """
        gains = [gain for search in self.searches if (gain := search.expected_gain) is not None]
        return max(gains, default=None)

    @property
    def answer(self) -> tuple[str, ...]:
        """Sentences on what to run, how it compares with other choices, and its provenance."""
        return answer(self)

    @property
    def free_sms(self) -> int | None:
        """The fewest SMs within the allowed loss of latency; None if ``free_sms`` was not given."""
        return None if self.free is None else self.search.sms[self.free.budget]

    @property
    def tables(self) -> tuple[TextTable, ...]:
        """The trials from best to worst and, for several SM budgets, the kernels to run."""
        several = len(self.search.sms) > 1
        return (trials_table(self), *([kernels_table(self)] if several else []))

    def plot(self, path: Path | str | None = None) -> Any:
        """Plot latency over SM budgets: the chosen kernels, the best known, and the whole-device choice.

        After a search on a device, the plot shows only the tuned budgets unless ``measure_curves`` was set.

        Args:
            path: PNG, SVG or PDF file to write as well. Default: no file.

        Returns:
            The Matplotlib figure.

        Raises:
            CostModelError: The file cannot be written.
        """
        from costmodel.report._figures import save_figure

        chosen = {part: at for r in self.dispatch_table.ranges for part, at in r.latency_s.items()}
        curves = self.curves or [BudgetCurve(CHOSEN, chosen)]
        figure = plot_curves(curves, unit=self.unit, sms=self.search.sms, title=self.title)
        if path is not None:
            save_figure(figure, check_path("path", path))
        return figure

    def save_report(self, path: Path | str) -> None:
        """Write one HTML page with the answer, tables, and plots of latency, progress and predictions.

        Raises:
            CostModelError: The file cannot be written.
        """
        write_report(page_of(self), check_path("path", path))

    def save_dispatch_table(self, path: Path | str) -> None:
        """Write the dispatch table as JSON, for ``costmodel.load_dispatch_table``.

        Raises:
            CostModelError: The file cannot be written.
        """
        self.dispatch_table.save(path)

    def to_dict(self) -> dict[str, Any]:
        """Return the choice, trials in order of measurement, curves and provenance as JSON values."""
        return result_values(self)

    def __repr__(self) -> str:
        """Return the answer in one line."""
        return f"<TuneResult: {self.answer[0]}>"

    def _repr_html_(self) -> str:
        """Return the answer and the tables as HTML, for notebooks."""
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.answer)
        return sentences + "".join(table.to_html() for table in self.tables[::-1])
