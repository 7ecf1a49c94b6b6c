"""What ``costmodel evaluate`` prints and writes."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.cli._output import console, print_line, print_table
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.evaluation._report import EvaluationReport


def print_report(report: "EvaluationReport") -> None:
    """Print the tables that the report has something for, and what they mean."""
    from costmodel.evaluation._report import NOTE, SHOTS_NOTE

    for remark in report.remarks:
        print_line(remark)
    summary = report.statistics()
    print_table(_score_table(report, summary))
    if report.partial_budgets:
        print_table(_budget_table(report, summary))
    print_table(_cost_table(report, summary))
    if report.baseline:
        print_table(_comparison_table(report, report.baseline))
    if report.has_intervals:
        for table in _coverage_tables(report):
            print_table(table)
    if report.few_shot:
        for table in _shots_tables(report):
            print_table(table)
    _print_novelty(report)
    console.print(NOTE)
    if report.few_shot:
        console.print(SHOTS_NOTE)


def _score_table(report: "EvaluationReport", summary: Sequence[Mapping[str, Any]]) -> TextTable:
    from costmodel.evaluation._judge import KS

    rows = []
    for entry in summary:
        scores = [entry[f"score_at_{k}"] for k in KS]
        cells = (f"{score['median']:.3f} ({score['p10']:.3f})" for score in scores)
        rows.append((entry["learner"], *cells))
    title = f"{report.split}: median (10th percentile) over {summary[0]['tasks']} tasks"
    return TextTable(title, ("learner", *(f"Score@{k}" for k in KS)), rows)


def _budget_table(report: "EvaluationReport", summary: Sequence[Mapping[str, Any]]) -> TextTable:
    wide = report.by_budget().pivot_table(
        index="learner", columns="sms_granted", values="gap_recovered", dropna=False, sort=False
    )
    budgets = report.partial_budgets
    rows = []
    for entry in summary:
        gaps = [_gap(gap) for gap in wide.loc[entry["learner"], budgets]]
        rows.append((entry["learner"], *gaps, _with_ends(entry, "gap_recovered", _gap)))
    header = ("learner", *map(str, budgets), "pooled [95 %]")
    return TextTable("Budget gap recovered, by SMs granted", header, rows)


def _cost_table(report: "EvaluationReport", summary: Sequence[Mapping[str, Any]]) -> TextTable:
    header = ("learner", "Score@1 [95 %]", "runs", "N_eps", "latency error", "bias", "learning s")
    rows = []
    for entry in summary:
        name, score = entry["learner"], entry["score_at_1"]
        low, high = score["mean_ci95"]
        cells = (
            f"{score['mean']:.3f} [{low:.2f}, {high:.2f}]",
            _spread(entry["runs"]["score_at_1"]),
            _number(entry["n_eps"], ".1f"),
            _number(entry["latency_error"], ".1%"),
            _number(entry["latency_bias"], ".2f"),
            _number(report.seconds.get(name, math.nan), ".1f"),
        )
        rows.append((name, *cells))
    return TextTable("Means and costs", header, rows)


def _comparison_table(report: "EvaluationReport", baseline: str) -> TextTable:
    from costmodel.evaluation._judge import KS

    header = [f"Score@{k} {what}" for k in KS[:3] for what in ("gain [95 %]", "wins")]
    rows = []
    for entry in report.against():
        cells = []
        for found in (entry[f"score_at_{k}"] for k in KS[:3]):
            low, high = found["ci95"]
            cells += [
                f"{found['mean_difference']:+.3f} [{low:+.3f}, {high:+.3f}]",
                f"{found['win_rate']:.0%}",
            ]
        rows.append((entry["learner"], *cells))
    title = f"Against {baseline} on the same tasks: mean difference, and win rate"
    return TextTable(title, ("learner", *header), rows)


def _coverage_tables(report: "EvaluationReport") -> list[TextTable]:
    """Coverage and width: over all tasks and by device, then by SM budget; a row a number of measurements."""
    found = report.by_coverage()
    devices, budgets = (
        sorted(found.loc[found["by"] == by, "of"].unique()) for by in ("device", "sms_granted")
    )
    overall, by_budget = [], []
    for learner, rows in found.groupby("learner", sort=False):
        for shots, group in rows.groupby("shots"):
            of = {(row["by"], row["of"]): row for row in group.to_dict("records")}
            start, every = (str(learner), str(shots)), of["all", ""]
            cells = (_with_ends(every, "coverage", "{:.1%}".format), _number(every["interval_width"], ".2f"))
            overall.append((*start, *cells, *(_cover(of.get(("device", device))) for device in devices)))
            by_budget.append((*start, *(_cover(of.get(("sms_granted", sms))) for sms in budgets)))
    header = ("learner", "n", "all [95 %]", "width", *devices)
    return [
        TextTable("Coverage of intervals after n measurements (width: high / low)", header, overall),
        TextTable(
            "Coverage of intervals (width), by SMs granted", ("learner", "n", *map(str, budgets)), by_budget
        ),
    ]


def _cover(found: Mapping[Any, Any] | None) -> str:
    """Coverage and width of one group, as in ``90% (3.1)``."""
    return "-" if found is None else f"{found['coverage']:.0%} ({found['interval_width']:.1f})"


def _shots_tables(report: "EvaluationReport") -> list[TextTable]:
    assert report.few_shot
    found, first = report.by_shots(), report.few_shot.first
    shots = [str(number) for number in report.few_shot.shots]
    scores, gaps = [], []
    for name, rows in found.groupby("learner", sort=False):
        ends = [_number(rows[column].iloc[-1], ".1f") for column in ("n_eps", "n_eps_1")]
        pairs = zip(rows["score_after"], rows["score_at_1"], strict=True)
        cells = (f"{_number(after, '.3f')} ({more:.3f})" for after, more in pairs)
        scores.append((str(name), *cells, *ends))
        recovered = (_with_ends(row, "gap_recovered", _gap) for row in rows.to_dict("records"))
        gaps.append((str(name), *recovered))
    title = f"Score after measurements, {first} first: best measured (+1)"
    tables = [TextTable(title, ("learner", *shots, "N 5 %", "N 1 %"), scores)]
    if report.partial_budgets:
        title = f"Budget gap recovered after measurements, {first} first [95 %]"
        tables.append(TextTable(title, ("learner", *shots), gaps))
    return tables


def _print_novelty(report: "EvaluationReport") -> None:
    tasks = report.tasks.drop_duplicates("task")
    kinds = zip(tasks["workload_is"], tasks["device_is"], tasks["budget_is"], strict=True)
    parts = [
        f"{count} of a {workload} workload on a {device} device at a {budget} SM budget"
        for (workload, device, budget), count in sorted(Counter(kinds).items())
    ]
    print_line(f"Tasks: {'; '.join(parts)}.")
    of_twins = tasks[(tasks["workload_is"] == "seen") & (tasks["device_is"] == "twin")]
    if len(of_twins):
        print_line(
            f"Of {len(of_twins)} tasks the workload was learned on a near-twin of the device: what they show "
            "is not worth more than a repeated measurement.",
            style="yellow",
        )


def _with_ends(entry: "Mapping[Any, Any] | pd.Series[Any]", name: str, form: Any) -> str:
    value, low, high = (entry[key] for key in (name, f"{name}_low", f"{name}_high"))
    return "-" if math.isnan(value) else f"{form(value)} [{form(low)}, {form(high)}]"


def _gap(value: float) -> str:
    return "< -10" if value < -10 else _number(value, ".2f")


def _spread(runs: Sequence[float]) -> str:
    """The least and the largest of several runs."""
    return "-" if len(runs) < 2 else f"{min(runs):.3f} to {max(runs):.3f}"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
