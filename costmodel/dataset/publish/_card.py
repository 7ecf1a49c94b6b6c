"""The card: what a dataset is, how it was made, what it contains, what it is not suitable for.

The terminal shows the same tables.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from costmodel.dataset.publish._describe import DatasetDescription, Quantiles
from costmodel.dataset.publish._plots import COVERAGE_PLOT, GAP_PLOT, NOISE_PLOT
from costmodel.dataset.publish._tasks import Coverage, Task
from costmodel.dataset.table._files import SUMS_NAME
from costmodel.dataset.table._schema import FILE_NAME, PARTS_NAME, SCHEMA
from costmodel.files import find_config, write_whole
from costmodel.reading import read_json, read_toml
from costmodel.report._page import TextTable

HEADER_NAME = "card.json"

_TEMPLATE = """\
# {title}

{summary}

- Devices: {devices}
- Measured: {first_day} to {last_day}
- Licence: {licence}
- Files: `{data_file}` (the data), `{sums_file}` (check with `sha256sum -c {sums_file}`)

## How it was measured

{method}

Software:

{software}

## What it holds

{counts}

{workloads}

"Kernels" are the different ones that work wherever they were measured; the outcomes count measurements, A/A
repeats included. "Within 10 % of best" is the share of the working kernels of a task (a workload on a
platform) that are that fast, median over the platforms; "log10 worst/best" is the widest on any platform.

## Coverage and flatness

Candidates of a workload are known if any platform here measured them. The table shows how many of them each
platform measured, over the workloads that it has, and the share of a task's working kernels that is within
10 % of the best: median, least and most of these workloads. Where it is large, a random choice is good.

![Coverage]({coverage_plot})

{coverage}

## Budget gap

What it costs to run the kernel that is fastest with the most SMs on fewer of them: its latency / the latency
of the best kernel for that number of SMs, minus 1. The mean over workloads is geometric.

![Budget gap]({gap_plot})

{platforms}

{gap}

## Noise

![Noise]({noise_plot})

{noise}

An A/A visit measures the same kernel on the same platform again, later. The latency of a measurement is the
median of its repeats.

## Similarity of devices

{pairs}

Over the tasks (a workload on a part of a device) that both measured: the median of Spearman's rank
correlation of latencies, and of how far these are from a constant factor. Near-twins count as one device
where devices are held out.

## Columns

{columns}

## Read it

```python
import costmodel
dataset = costmodel.load_dataset(".")  # or pandas.read_parquet("{data_file}")
```

## Known limits

{limits}

## Citation

{citation}
"""


class CardHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Description of a dataset that only its author can give. Each text is Markdown.

    Attributes:
        title: Name of the dataset.
        summary: What the dataset contains and what it is for.
        method: How the measurements were made.
        limits: What the dataset is not suitable for.
        licence: Terms of use, such as ``CC-BY-4.0``.
        citation: How to cite the dataset.
    """

    title: str
    summary: str
    method: str
    limits: str
    licence: str
    citation: str


def read_card_header(path: Path) -> CardHeader:
    """Read the author's part of a card from a TOML file with the keys of ``CardHeader``.

    Raises:
        CostModelError: If the file is missing, is not TOML, or has other keys.
    """
    keys = ", ".join(CardHeader.__struct_fields__)
    remedy = f'A card has a line for each of {keys}, such as title = "My kernels".'
    return read_toml(find_config(path), CardHeader, f"a card in TOML with the texts {keys}", remedy=remedy)


def write_held_header(header: CardHeader, folder: Path) -> None:
    """Keep the author's part of a card in the dataset's folder, so that the card can be made again."""
    write_whole(folder / HEADER_NAME, msgspec.json.format(msgspec.json.encode(header), indent=2) + b"\n")


def read_held_header(folder: Path) -> CardHeader:
    """Return the author's part of the card of a dataset in parts.

    Raises:
        CostModelError: It is not in its folder, or damaged.
    """
    return read_json(folder / HEADER_NAME, CardHeader, "the texts of a dataset's card")


def render_card(header: CardHeader, description: DatasetDescription, *, in_parts: bool = False) -> str:
    """Return the card in Markdown.

    Args:
        header: The author's part.
        description: What the dataset holds.
        in_parts: Whether the measurements lie in a folder of parts.
    """
    counts, workloads, platforms, noise, coverage, pairs, *gaps = summary_tables(description)
    software = "\n".join(f"- {name}: {versions}" for name, versions in description.software.items())
    return _TEMPLATE.format(
        **{name: text.strip() for name, text in msgspec.structs.asdict(header).items()},
        devices=", ".join(description.devices),
        first_day=description.measured_from,
        last_day=description.measured_to,
        software=software or "- not recorded",
        counts=counts.to_markdown(),
        workloads=workloads.to_markdown(),
        platforms=platforms.to_markdown(),
        noise=noise.to_markdown(),
        coverage=coverage.to_markdown(),
        pairs=pairs.to_markdown() if pairs.rows else "No two devices share tasks.",
        gap="\n\n".join(f"### {gap.title}\n\n{gap.to_markdown()}" for gap in gaps),
        columns=_columns(),
        data_file=PARTS_NAME if in_parts else FILE_NAME,
        sums_file=SUMS_NAME,
        gap_plot=GAP_PLOT,
        noise_plot=NOISE_PLOT,
        coverage_plot=COVERAGE_PLOT,
    )


def _columns() -> str:
    rows = tuple(
        (
            f"`{column.name}`",
            column.metadata[b"unit"].decode() or "-",
            column.metadata[b"description"].decode(),
        )
        for column in SCHEMA
    )
    return TextTable("Columns", ("column", "unit", "meaning"), rows, "lll").to_markdown()


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
