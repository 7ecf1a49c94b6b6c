"""The tables that summarise a dataset, as text cells: the card and the terminal show the same ones."""

from collections.abc import Iterable

import numpy as np

from costmodel.dataset.publish._describe import DatasetDescription, Quantiles
from costmodel.dataset.publish._tasks import Coverage, Task
from costmodel.report._page import TextTable


def summary_tables(description: DatasetDescription) -> tuple[TextTable, ...]:
    """Return all tables, the most general first."""
    return (
        _count_table(description),
        _workload_table(description),
        _platform_table(description),
        _noise_table(description),
        _coverage_table(description),
        _pair_table(description),
        *(_gap_table(description, device) for device in description.devices),
    )


def _count_table(description: DatasetDescription) -> TextTable:
    best_only = sum(task.configs == 1 for task in description.tasks)
    rows = [
        ("workloads", description.workloads),
        ("candidates", description.candidates),
        ("distinct kernels", description.kernels),
        ("platforms", description.platforms),
        ("measurements", description.measurements),
        *((f"measurements: {outcome}", count) for outcome, count in description.outcomes.items()),
        *([("tasks of one config, which no score counts", best_only)] if best_only else []),
    ]
    cells = tuple((name, "not recorded" if count is None else f"{count:,}") for name, count in rows)
    return TextTable("Counts", ("what", "count"), cells)


def _workload_table(description: DatasetDescription) -> TextTable:
    tasks_of: dict[str, list[Task]] = {}
    for task in description.tasks:
        tasks_of.setdefault(task.workload, []).append(task)
    rows = (
        (
            workload,
            str(description.working_kernels[workload]),
            *_outcome_cells(description, tasks),
            f"{np.nanmedian([task.near_best_share for task in tasks]):.0%}" if _any_works(tasks) else "-",
            f"{np.nanmax([task.spread for task in tasks]):.1f}" if _any_works(tasks) else "-",
        )
        for workload, tasks in tasks_of.items()
    )
    header = ("workload", "kernels", *description.outcomes, "within 10 % of best", "log10 worst/best")
    return TextTable("Measurements by workload", header, tuple(rows))


def _platform_table(description: DatasetDescription) -> TextTable:
    rows = (
        (
            budget.platform,
            *_outcome_cells(description, (t for t in description.tasks if t.platform == budget.platform)),
            _percent(budget.mean_gap),
            _percent(budget.worst_gap),
            budget.worst_workload if budget.worst_gap > 0 else "-",
        )
        for budget in description.budgets
    )
    header = ("platform", *description.outcomes, "mean budget gap", "worst", "worst on")
    return TextTable("Measurements and budget gap by platform", header, tuple(rows))


def _noise_table(description: DatasetDescription) -> TextTable:
    noise = description.noise
    rows = (
        ("repeats of a measurement, (max - min) / median", noise.repeats),
        ("A/A visits, shift of the median", noise.visits),
        *((f"A/A visits, {decade}", quantiles) for decade, quantiles in noise.visits_by_latency.items()),
    )
    header = ("relative difference", "count", "median", "p90", "p99", "max")
    return TextTable("Noise", header, tuple((name, *_quantile_cells(q)) for name, q in rows))


def _pair_table(description: DatasetDescription) -> TextTable:
    rows = (
        (
            f"{pair.first}, {pair.second}",
            f"{pair.tasks:,}",
            f"{pair.rho:.3f}",
            f"{pair.deviation:.1%}",
            "yes" if pair.twins else "no",
        )
        for pair in description.pairs
    )
    header = ("devices", "shared tasks", "rank correlation", "off a factor", "near-twins")
    return TextTable("Similarity of devices", header, tuple(rows))


def _coverage_table(description: DatasetDescription) -> TextTable:
    cells_of: dict[str, list[Coverage]] = {cell.platform: [] for cell in description.coverage}
    for cell in description.coverage:
        if cell.measured:
            cells_of[cell.platform].append(cell)
    rows = (
        (platform, f"{len(cells)} of {description.workloads}", *_coverage_cells(cells))
        for platform, cells in cells_of.items()
        if cells
    )
    header = ("platform", "workloads", "of known candidates", "share", "within 10 % of best", "least", "most")
    return TextTable("Coverage and flatness by platform", header, tuple(rows))


def _coverage_cells(cells: list[Coverage]) -> tuple[str, ...]:
    """Return what was measured of the known candidates; median, least and most flatness."""
    measured, known = sum(cell.measured for cell in cells), sum(cell.known for cell in cells)
    flatness = [cell.near_best_share for cell in cells if not np.isnan(cell.near_best_share)]
    spread = (np.median(flatness), min(flatness), max(flatness)) if flatness else ()
    shares = [f"{share:.1%}" for share in spread] or ["-"] * 3
    return f"{measured:,} of {known:,}", f"{measured / known:.1%}", *shares


def _gap_table(description: DatasetDescription, device: str) -> TextTable:
    budgets = [budget for budget in description.budgets if budget.device == device]
    gaps = {(task.workload, task.platform): task.budget_gap for task in description.tasks}
    workloads = dict.fromkeys(task.workload for task in description.tasks)
    rows = ((w, *(_percent(gaps.get((w, b.platform), np.nan)) for b in budgets)) for w in workloads)
    header = ("workload \\ SMs", *(budget.label for budget in budgets))
    title = f"Budget gap on {device}: whole-device choice against the best kernel"
    return TextTable(title, header, tuple(rows))


def _outcome_cells(description: DatasetDescription, tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return measurements of these tasks, one cell for each outcome that the dataset has."""
    outcomes = [task.outcomes for task in tasks]
    return tuple(f"{sum(counts.get(name, 0) for counts in outcomes):,}" for name in description.outcomes)


def _any_works(tasks: Iterable[Task]) -> bool:
    return any(np.isfinite(task.spread) for task in tasks)


def _quantile_cells(quantiles: Quantiles) -> tuple[str, ...]:
    points = (quantiles.median, quantiles.p90, quantiles.p99, quantiles.max)
    return (f"{quantiles.count:,}", *("-" if np.isnan(point) else f"{point:.2%}" for point in points))


def _percent(gap: float) -> str:
    if np.isnan(gap):
        return "-"
    return "fails" if np.isinf(gap) else f"{gap:.0%}"
