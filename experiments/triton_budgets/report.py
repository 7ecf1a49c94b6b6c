"""Tables of what was found, as rows of numbers and as Markdown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from kit.results import markdown_table
from pyarrow import Array, array

from costmodel.dataset import Dataset
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE
from costmodel.learners._statistics import cluster_bootstrap_interval

Rows = list[dict[str, Any]]

AUTOTUNE = "triton.autotune on the whole GPU"
ALL = "all"
# What `triton.testing.do_bench` spends on a config unless told otherwise, without compiling.
BENCH_S = 0.125


def budget_gaps(tasks: pd.DataFrame) -> Rows:
    """How far the whole GPU's best config is from the best on each part, by family."""
    part = tasks[(tasks["learner"] == WHOLE_DEVICE) & ~tasks["whole_device"].astype(bool)]
    found = []
    for family, group in [*part.groupby("family"), (ALL, part)]:
        for sms, here in [*group.groupby("sms_granted"), (ALL, group)]:
            excess = np.expm1(here["log_excess"])
            found.append({"family": family, "sms": sms, "tasks": len(here), **_quantiles(excess, 0.9)})
    return found


def first_choices(tasks: pd.DataFrame) -> Rows:
    """Score@1 of each way over tasks: median, 10th percentile, mean with its interval by workload."""
    found = []
    for way, group in tasks.groupby("learner", sort=False):
        score = group["score_at_1"]
        low, high = cluster_bootstrap_interval(score.to_numpy(), group["workload"].astype(str).to_numpy())
        found.append(
            {
                **{"way": _named(str(way)), "tasks": len(group), "median": float(score.median())},
                **{"p10": float(score.quantile(0.1)), "mean": float(score.mean()), "ci95": [low, high]},
            }
        )
    return found


def by_group(tasks: pd.DataFrame, column: str) -> Rows:
    """Median Score@1 of each way on each kernel, or whatever a column tells."""
    medians = tasks.groupby(["learner", column], sort=False, observed=True)["score_at_1"].median()
    return [
        {"way": _named(str(way)), column: of, "median": float(value)} for (way, of), value in medians.items()
    ]


def timed(shots: pd.DataFrame, count: int) -> Rows:
    """How far the best of so many timed configs is from the best: median and 95th percentile, by SMs."""
    found = []
    for way, group in shots[shots["shots"] == count].groupby("learner", sort=False):
        for sms, here in [*group.groupby("sms_granted"), (ALL, group)]:
            excess = np.expm1(here["log_excess"])
            place = {"way": _named(str(way)), "sms": sms, "timed": count, "tasks": len(here)}
            found.append({**place, **_quantiles(excess, 0.95)})
    return found


def exhaustive(data: Dataset) -> Rows:
    """What timing every config costs, by SMs: how many there are, and seconds without compiling."""
    frame = data.measurements[data.measurements["visit"] == 0]
    measured_s = [sum(repeats) for repeats in _lists(frame["latencies_s"])]
    frame = frame.assign(
        spent_s=np.array(measured_s) * frame["runs_per_repeat"].to_numpy(),
        workload=data.columns.workload_of[frame["candidate"]],
        sms=np.array([each.sms_granted for each in data.platforms])[frame["platform"]],
    )
    tasks = frame.groupby(["workload", "platform", "sms"])["spent_s"].agg(["size", "sum"]).reset_index()
    return [
        {
            **{"sms": int(sms), "configs": float(here["size"].median())},
            "measured_s": float(here["sum"].median()),
            "autotune_s": float(here["size"].median() * BENCH_S),
        }
        for sms, here in tasks.groupby("sms")
    ]


def shares_of_sweep(shots: pd.DataFrame, kernel: str) -> Rows:
    """Share of the configs of a kernel that are timed until within 5 % of the best."""
    swept = shots["learner"] == WHOLE_DEVICE  # has timed all of them
    last = shots[(shots["shots"] == shots["shots"].max()) & (shots["kernel"] == kernel) & ~swept]
    found = []
    for way, group in last.groupby("learner", sort=False):
        share = group["n_eps"] / group["configs"]
        needed = {"configs": float(group["n_eps"].median()), "of": float(group["configs"].median())}
        found.append({"way": _named(str(way)), "tasks": len(group), **needed, **_quantiles(share, 0.9)})
    return found


def ways_of_products(
    judged: pd.DataFrame, tasks: pd.DataFrame, shots: pd.DataFrame, learner: str
) -> pd.DataFrame:
    """What a learner, with and without timings, and the references choose beside what was judged.

    Args:
        judged: ``task``, ``sms``, ``way`` and ``excess`` of others.
        tasks: ``EvaluationReport.tasks``.
        shots: ``EvaluationReport.shots`` after one number of measurements.
        learner: Whose choices to add.
    """
    count = int(shots["shots"].max())
    added = {
        f"{learner}, nothing timed": tasks[tasks["learner"] == learner],
        f"{learner}, {count} timed": shots[shots["learner"] == learner],
        AUTOTUNE: tasks[tasks["learner"] == WHOLE_DEVICE],
        RANDOM: tasks[tasks["learner"] == RANDOM],
    }
    frames = [judged]
    for way, rows in added.items():
        names = rows["task"].astype(str)
        own = pd.DataFrame({"task": names, "sms": rows["sms_granted"], "way": way})
        frames.append(own.assign(excess=np.expm1(rows["log_excess"]))[names.isin(judged["task"])])
    return pd.concat(frames, ignore_index=True)


def excesses(ways: pd.DataFrame, column: str = "way") -> Rows:
    """The excess of each way, or of what another column tells, on each number of SMs."""
    rows = []
    for way, group in ways.groupby(column, sort=False):
        for sms, here in [*group.groupby("sms"), (ALL, group)]:
            place = {column: way, "sms": sms, "tasks": len(here)}
            rows.append({**place, **_quantiles(here["excess"], 0.9)})
    return rows


def markdown(rows: Rows, *columns: str) -> str:
    """A table of some columns."""
    cells = [[_text(row[column]) for column in columns] for row in rows]
    return markdown_table(columns, cells, texts=len(columns))


def wide(rows: Rows, index: str, columns: str, value: Callable[[Mapping[str, Any]], str]) -> str:
    """A table with a row for each value of one column and a column for each of another."""
    names, across = (list(dict.fromkeys(row[name] for row in rows)) for name in (index, columns))
    across = sorted((each for each in across if each != ALL), key=_number) + [ALL] * (ALL in across)
    cells = {(row[index], row[columns]): value(row) for row in rows}
    lines = [[name, *(cells.get((name, each), "-") for each in across)] for name in names]
    return markdown_table([index, *across], lines)


def percents(*names: str) -> Callable[[Mapping[str, Any]], str]:
    """These numbers of a row in percent."""
    return lambda row: ", ".join(f"{100 * row[name]:.1f}" for name in names)


def _number(value: Any) -> Any:
    return (0, float(value), "") if isinstance(value, int | float | np.number) else (1, 0.0, str(value))


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(map(_text, value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _quantiles(values: Any, upper: float) -> dict[str, float]:
    """Median and an upper quantile."""
    return {"median": float(np.median(values)), f"p{upper * 100:.0f}": float(np.quantile(values, upper))}


def _named(way: str) -> str:
    return AUTOTUNE if way == WHOLE_DEVICE else way


def _lists(column: "pd.Series[Any]") -> Sequence[Sequence[float]]:
    arrow: Array = array(column)
    found: Sequence[Sequence[float]] = arrow.to_pylist()
    return found
