"""What a tracked run keeps of an evaluation."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from costmodel.evaluation._judge import KS
from costmodel.evaluation._report import NOTE, EvaluationReport
from costmodel.report._table import TextTable
from costmodel.tracking._items import Artifact, ChildRun, Item, Metric, Note, Parameter, Table, Tag

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
        yield Tag("headline", f"score_at_1/{report.best_learner}")
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
    yield Tag("headline", "score_at_1")
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
    table = TextTable("", ("learner", "Score@1 [95 %]", "Score@10", "gap recovered"), rows)
    shown = table.to_markdown(is_text=True)
    return f"**{report.split}**: means over {summary[0]['tasks']} tasks\n\n{shown}\n\n{NOTE}"
