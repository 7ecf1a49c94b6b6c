"""The report of an evaluation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from costmodel.arguments import check_path
from costmodel.errors import CostModelError
from costmodel.evaluation import _statistics
from costmodel.evaluation._draw import plot_report
from costmodel.evaluation._judge import EPS, KS, RANDOM, WHOLE_DEVICE, FewShot
from costmodel.evaluation._sides import NOVELTY
from costmodel.files import write_json, write_whole
from costmodel.report._page import TextTable
from costmodel.tracking._items import Artifact, ChildRun, Item, Metric, Note, Parameter, Table, tell_answer

if TYPE_CHECKING:
    from costmodel.report._figures import NotebookFigure


NOTE = (
    "Score@k: best latency / best latency among the k chosen first: those of the best scores, or of the list "
    f"that a model makes itself, which begins with its best score. {RANDOM}: the exact expectation of "
    f"drawing configs at random. {WHOLE_DEVICE}: ranks configs as they were measured on the largest SM "
    "budget of the same workload and device; it has seen measurements that no learner has. Gap recovered: "
    "the first choice that runs against the whole-device choice, pooled over tasks on less than the largest "
    "budget; 1 is the best config everywhere, 0 the whole-device choice. N_eps: median measurements until "
    f"within {EPS:.0%} of the best. Latency error: median of |predicted / measured - 1|; bias: geometric "
    "mean of predicted / measured. Coverage: share of configs measured within their predicted interval, "
    "after n measurements of those not measured; width: median of its upper / lower end. Intervals: 95 % "
    "bootstraps over workloads, or over devices "
    "where these are held out. Learning: all folds and runs."
)
SHOTS_NOTE = (
    "After n measurements: best latency / best latency measured; +k: of these and the k next of the list. A "
    "model is adapted after each number of measurements shown. All configs of a task count, those measured "
    "too. The gap recovered is that of the best measured."
)


# Columns of the summary that a notebook shows.
_SHOWN = ("tasks", "score_at_1", "score_at_10", "gap_recovered", "n_eps", "latency_error")


@dataclass(frozen=True, repr=False)
class EvaluationReport:
    """Results of an evaluation.

    Attributes:
        tasks: One row per learner, run and task: ``learner``, ``run`` (number of the run, from 0), ``task``,
            ``workload``, ``kind``, ``device``, ``sms_granted``, ``configs``, ``whole_device`` (whether it has
            the largest SM budget of its device), ``workload_is``, ``device_is`` and ``budget_is`` (see
            ``novelty``), ``score_at_1``, ``score_at_5``, ``score_at_10``, ``score_at_25``, ``regret_error``,
            ``n_eps``, ``log_excess`` (log of the first choice that runs / best), ``ran`` (number of configs
            that ran), ``latency_error`` (median |predicted / measured - 1|), ``log_bias`` (mean log of
            predicted / measured), ``covered`` (configs that ran within their interval) and
            ``interval_width`` (median high / low). The last four are NaN without prediction. The references
            ``random`` and, if there are tasks on parts of a device, ``whole device`` are among the learners.
        split: Name of the split.
        seconds: Seconds that each learner took to fit and predict, over all folds and runs.
        cluster: Column of ``tasks`` whose values are resampled for the intervals.
        shots: One row per learner, run, task and number of measurements (see ``measure_in_turn``); empty if
            nothing was measured.
        few_shot: How tasks were measured; None if they were not.
        baseline: The learner with which the others are compared; None if there is none.
        remarks: What was held out together or left out, as sentences.
        source: What was evaluated, as JSON values: configuration, datasets and their hashes, folds.
    """

    tasks: pd.DataFrame
    split: str
    seconds: Mapping[str, float]
    cluster: str = "workload"
    shots: pd.DataFrame = field(default_factory=pd.DataFrame)
    few_shot: FewShot | None = None
    baseline: str | None = None
    remarks: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def learners(self) -> list[str]:
        """Names of the learners, references first."""
        return [str(name) for name in pd.unique(self.tasks["learner"])]

    @cached_property
    def partial_budgets(self) -> list[int]:
        """SM budgets below the largest of their device, ascending."""
        partial = self.tasks.loc[~self.tasks["whole_device"].astype(bool), "sms_granted"]
        return sorted({int(sms) for sms in partial})

    @cached_property
    def has_intervals(self) -> bool:
        """Whether any learner predicts intervals, zero-shot or after measurements."""
        frames = [frame for frame in (self.tasks, self.shots) if len(frame)]
        return any(bool(frame["covered"].notna().any()) for frame in frames)

    @cached_property
    def best_learner(self) -> str | None:
        """The learner with the highest mean Score@1; None if only references were evaluated."""
        return _statistics.best_learner(self)

    def summary(self) -> pd.DataFrame:
        """Return one row per learner: mean Score@k with 95% intervals, medians, 10th percentiles, and more.

        ``gap_recovered`` also has an interval. ``n_eps``, ``regret_error`` and ``latency_error`` are medians
        over tasks, ``latency_bias`` is a geometric mean, and ``seconds`` covers learning and predicting.
        """
        return _statistics.summary_table(self)

    def statistics(self) -> list[dict[str, Any]]:
        """Return the summary as nested JSON values, with the mean Score@k of each run."""
        return _statistics.learner_statistics(self)

    def against(self, baseline: str | None = None) -> list[dict[str, Any]]:
        """Return paired differences from a baseline on the same tasks and win rates, per other learner.

        Args:
            baseline: Name of a learner. Default: the baseline of the report.

        Raises:
            CostModelError: The baseline is none of the learners.
        """
        name = baseline or self.baseline
        if name not in self.learners:
            raise CostModelError(
                f"The baseline must be among the learners, {', '.join(self.learners)}, but got {name!r}."
            )
        return _statistics.comparison(self, name)

    def by_budget(self) -> pd.DataFrame:
        """Return ``score_at_1`` (mean and median) and ``gap_recovered`` per learner and SM budget."""
        return _statistics.table_by(self, ["sms_granted"])

    def by_device(self) -> pd.DataFrame:
        """Return the columns of ``by_budget`` per learner and device."""
        return _statistics.table_by(self, ["device"])

    def by_novelty(self) -> pd.DataFrame:
        """Return the columns of ``by_budget`` per learner and kind of novelty (see ``novelty``)."""
        return _statistics.table_by(self, list(NOVELTY))

    def by_shots(self) -> pd.DataFrame:
        """Return means over tasks and runs, per learner and number of measurements.

        ``gap_recovered`` has the ends of its interval. ``n_eps`` and ``n_eps_1``, the median numbers of
        measurements until within 5% and 1% of the best, are in the last row of each learner. Empty if nothing
        was measured.
        """
        return _statistics.table_by_shots(self)

    def by_coverage(self) -> pd.DataFrame:
        """Return the coverage of intervals over all tasks, by device and by SM budget.

        One row per learner, number of ``shots`` and group of tasks: ``by`` (``all``, ``device`` or
        ``sms_granted``), ``of`` (its value), and the results of ``coverage``. All configs count without
        measurements; after measurements, only the unmeasured ones. Empty if no learner predicts intervals.
        """
        return _statistics.table_by_coverage(self)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all tables by name; tables without data are empty."""
        return {
            "summary": self.summary().reset_index(),
            "against": pd.json_normalize(self.against()) if self.baseline else pd.DataFrame(),
            "by_budget": self.by_budget(),
            "by_device": self.by_device(),
            "by_novelty": self.by_novelty(),
            "by_shots": self.by_shots(),
            "by_coverage": self.by_coverage(),
            "tasks": self.tasks,
        }

    def plot(self, path: str | Path | None = None, *, by: str | None = None) -> "NotebookFigure":
        """Plot the report.

        Args:
            path: PNG, PDF or SVG file to write as well. Default: no file.
            by: ``budget`` (Score@1 and gap recovered over SM budgets), ``shots`` (over measurements) or
                ``learner`` (Score@1 of each). Default: the first of these with data.

        Raises:
            CostModelError: There is no data for this plot, or the file cannot be written.
        """
        from costmodel.report._figures import save_figure

        figure = plot_report(self, by)
        if path is not None:
            save_figure(figure, check_path("path", path))
        return figure

    def save(self, folder: str | Path) -> None:
        """Write ``report.json``, one CSV file per table, and the plots that have data.

        Raises:
            CostModelError: A file cannot be written.
        """
        folder = check_path("folder", folder)
        write_json(folder / "report.json", self.to_dict())
        for name, table in self.tables().items():
            if not table.empty:
                write_whole(folder / f"{name}.csv", table.to_csv(index=False).encode())
        if self.partial_budgets:
            self.plot(folder / "report.png", by="budget")
        if self.few_shot:
            self.plot(folder / "shots.png", by="shots")

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as JSON values; NaN becomes null when written."""
        frames = {
            "by_budget": self.by_budget(),
            "by_device": self.by_device(),
            "by_novelty": self.by_novelty(),
            "by_coverage": self.by_coverage(),
        }
        shots = {"by_shots": self.by_shots(), "shots": self.shots} if self.few_shot else {}
        return {
            **self.source,
            "split": self.split,
            "remarks": list(self.remarks),
            "note": NOTE,
            "seconds": dict(self.seconds),
            "summary": self.statistics(),
            **({"against": self.against()} if self.baseline else {}),
            **{name: table.to_dict("records") for name, table in (frames | shots).items()},
            "tasks": self.tasks.to_dict("records"),
        }

    def __repr__(self) -> str:
        best = self.best_learner
        found = f", best {best}" if best else ""
        return f"EvaluationReport({self.split}: {self._counted}{found})"

    def _repr_html_(self) -> str:
        summary = self.summary()
        shown = summary[[name for name in _SHOWN if name in summary]]
        table = shown.to_html(float_format="{:.3f}".format, na_rep="", border=0)
        return f"<p><b>{escape(self.split)}</b>: {self._counted}</p>{table}"

    @property
    def _counted(self) -> str:
        learners = sum(name not in (RANDOM, WHOLE_DEVICE) for name in self.learners)
        return f"{learners} learner{'s' * (learners != 1)} on {self.tasks['task'].nunique():,} tasks"


_SCORES = tuple(f"score_at_{k}" for k in KS)
_NUMBERS = ("regret_error", "n_eps", "latency_error", "latency_bias", "gap_recovered", "coverage")


def describe_report(report: EvaluationReport) -> Iterator[Item]:
    """Metrics by learner, tables by task, pictures, and one run below for each learner."""
    summary = sorted(report.statistics(), key=lambda entry: -entry["score_at_1"]["mean"])
    yield Note(_note(report, summary))
    for score in ("score_at_1", "score_at_10"):
        yield from (Metric(f"{score}/{entry['learner']}", entry[score]["mean"]) for entry in summary)
    for name in ("gap_recovered", "latency_error"):
        yield from (Metric(f"{name}/{entry['learner']}", entry[name]) for entry in summary)
    if report.best_learner:
        best = next(entry for entry in summary if entry["learner"] == report.best_learner)
        yield from tell_answer("score_at_1", best["score_at_1"]["mean"], f"score_at_1/{report.best_learner}")
    tables = report.tables()
    for name, table in tables.items():
        yield Table(f"tables/{name}.csv", table)
    if report.partial_budgets:
        yield Artifact("plots/by_budget.png", partial(report.plot, by="budget"))
    if report.few_shot:
        yield Artifact("plots/by_measurements.png", partial(report.plot, by="shots"))
    for entry in summary:
        yield ChildRun(entry["learner"], _learner(report, tables, entry))


def _learner(
    report: EvaluationReport, tables: Mapping[str, pd.DataFrame], entry: Mapping[str, Any]
) -> Iterator[Item]:
    """Everything about one learner; curves are over SM budgets, over measurements and over runs."""
    name = entry["learner"]
    yield Parameter("learner", name)
    yield Parameter("split", report.split)
    yield from tell_answer("score_at_1", entry["score_at_1"]["mean"])
    yield Metric("tasks", entry["tasks"])
    for score in _SCORES:
        runs = entry["runs"][score]
        if len(runs) > 1:
            yield from (Metric(f"by_run/{score}", value, run) for run, value in enumerate(runs))
        low, high = entry[score]["mean_ci95"]
        ends = {"": entry[score]["mean"], "_low": low, "_high": high, "_p10": entry[score]["p10"]}
        yield from (Metric(f"{score}{end}", value) for end, value in ends.items())
    yield from (Metric(number, entry[number]) for number in _NUMBERS)
    if name in report.seconds:
        yield Metric("learning_s", report.seconds[name])
    yield from _curve(tables["by_budget"], name, "sms_granted", "by_sms", ("score_at_1", "gap_recovered"))
    yield from _curve(tables["by_shots"], name, "shots", "by_measurements", ("score_after", "score_at_1"))
    yield Table("tables/tasks.csv", report.tasks[report.tasks["learner"] == name])


def _curve(
    table: pd.DataFrame, learner: str, step: str, group: str, columns: tuple[str, ...]
) -> Iterator[Metric]:
    """Columns of a table as metrics whose step is another column."""
    if table.empty:
        return
    for row in table[table["learner"] == learner].to_dict("records"):
        yield from (Metric(f"{group}/{column}", row[column], int(row[step])) for column in columns)


def _note(report: EvaluationReport, summary: list[dict[str, Any]]) -> str:
    """The result as a table in Markdown, and what the numbers mean."""
    rows = []
    for entry in summary:
        score, (low, high) = entry["score_at_1"]["mean"], entry["score_at_1"]["mean_ci95"]
        rows.append(
            (
                entry["learner"],
                f"{score:.3f} [{low:.2f}, {high:.2f}]",
                f"{entry['score_at_10']['mean']:.3f}",
                "" if pd.isna(entry["gap_recovered"]) else f"{entry['gap_recovered']:.2f}",
            )
        )
    table = TextTable("", ("learner", "Score@1 [95 %]", "Score@10", "gap recovered"), rows, "llll")
    return f"**{report.split}**: means over {summary[0]['tasks']} tasks\n\n{table.to_markdown()}\n\n{NOTE}"
