"""Judge rows of tables on problems that the model did not see, beside defaults and tables of frameworks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from timings import OURS, Task

from costmodel.arrays import FloatArray
from costmodel.serving._choose import near_tables
from costmodel.serving._default_rule import Framework, default_row
from costmodel.serving._kernel import PARAMETERS, ExpertProducts, Kernel, Row, ScaledProduct
from costmodel.serving._row_model import kind_of_kernel

_GROUPS = (1, 8, 16, 32, 64)
_PRECISIONS = {"fused_moe_float8": "fp8_w8a8", "fused_moe_int8": "int8_w8a16", "fused_moe_int4": "int4_w4a16"}
Results = dict[str, dict[str, Any]]
Margins = Mapping[str, Mapping[str, float]]  # by problem, and by kind of kernel


def judge(tasks: Sequence[Task], unseen: Sequence[FloatArray], margins: Margins) -> Results:
    """Return all figures of tasks, each predicted by a model, and margins, that did not see its problem."""
    nothing_learned = [task.base for task in tasks]
    return {
        **judge_choices(tasks, unseen),
        **{f"nothing learned, {name}": row for name, row in judge_choices(tasks, nothing_learned).items()},
        **judge_defaults(tasks, unseen, margins),
        **judge_tables(tasks),
        **judge_parts(tasks, unseen),
    }


def judge_choices(tasks: Sequence[Task], unseen: Sequence[FloatArray]) -> Results:
    """How far the first choice, and the best of sixteen, are above the fastest of a task."""
    found: Results = {}
    for name, kept in (("all SMs", is_whole), ("parts", lambda task: not is_whole(task))):
        above: dict[int, list[float]] = {1: [], 16: []}
        for task, log_s in zip(tasks, unseen, strict=True):
            if kept(task) and np.isfinite(task.seconds).sum() > 1:
                order = np.argsort(np.where(np.isfinite(task.seconds), log_s, np.inf), kind="stable")
                for count, values in above.items():
                    values.append(float(task.seconds[order[:count]].min() / task.seconds.min() - 1))
        for count, values in above.items():
            if values:
                found[f"{name}, best of {count}"] = {
                    "tasks": len(values),
                    "median": float(np.median(values)),
                    "95th percentile": float(np.quantile(values, 0.95)),
                    "score, median": float(np.median(1 / (1 + np.array(values)))),
                }
    return found


def judge_defaults(tasks: Sequence[Task], unseen: Sequence[FloatArray], margins: Margins) -> Results:
    """What a row is worth that stays the framework's default unless the model is sure that it loses."""
    found: Results = {}
    for framework in ("vllm", "sglang"):
        gains, beside_own = [], []
        for task, log_s in zip(tasks, unseen, strict=True):
            default = place_of_default(task, framework)
            if default is not None:
                margin = margins[task.problem][kind_of(task)]
                place = chosen(task, log_s, default, margin)
                gains.append(task.seconds[default] / task.seconds[place])
                own = place_of_table(task, framework, is_own=True) if is_whole(task) else None
                if own is not None and np.isfinite(task.seconds[own]):
                    beside_own.append(gains[-1])
        if gains:
            found[f"{framework}, as tables have it"] = _gain(np.array(gains))
        if beside_own:
            name = f"{framework}, as tables have it, where there is a table for the same sizes and GPU"
            found[name] = _gain(np.array(beside_own))
    return found


def judge_tables(tasks: Sequence[Task]) -> Results:
    """What rows of tables are worth beside the default, on the whole GPU: its own, and the nearest other."""
    found: Results = {}
    for framework in ("vllm", "sglang"):
        for name, is_own in (("table for the same sizes and GPU", True), ("nearest other table", False)):
            gains = []
            for task in filter(is_whole, tasks):
                default, near = place_of_default(task, framework), place_of_table(task, framework, is_own)
                if default is not None and near is not None and np.isfinite(task.seconds[near]):
                    gains.append(task.seconds[default] / task.seconds[near])
            if gains:
                found[f"{framework}, {name}"] = _gain(np.array(gains))
    return found


def judge_parts(tasks: Sequence[Task], unseen: Sequence[FloatArray]) -> Results:
    """How much longer the best config of the whole GPU takes on a part than the first choice and the best."""
    whole = {(task.workload.name, task.device.name): task for task in tasks if is_whole(task)}
    ratios: dict[int, list[tuple[float, float]]] = {}
    for task, log_s in zip(tasks, unseen, strict=True):
        other = whole.get((task.workload.name, task.device.name))
        if is_whole(task) or other is None:
            continue
        best = other.rows[np.argmin(other.seconds)]
        there = np.flatnonzero((task.rows == best).all(axis=1))
        ran = np.isfinite(task.seconds)
        if len(there) and ran[there[0]]:
            first = int(np.argmin(np.where(ran, log_s, np.inf)))
            both = task.seconds[there[0]] / np.array([task.seconds[first], task.seconds.min()])
            ratios.setdefault(task.sms, []).append((float(both[0]), float(both[1])))
    means = {sms: np.exp(np.log(values).mean(axis=0)) for sms, values in sorted(ratios.items())}
    return {
        f"{sms} SMs, best of the whole GPU": {
            "tasks": len(ratios[sms]),
            "over the first choice, geometric mean": float(ours),
            "over the best": float(best),
        }
        for sms, (ours, best) in means.items()
    }


def chosen(task: Task, log_s: FloatArray, default: int, margin: float) -> int:
    """Return the place of the config that a table would have, by the rule of ``_choose.py``."""
    first = int(np.argmin(np.where(np.isfinite(task.seconds), log_s, np.inf)))
    return first if log_s[default] - log_s[first] > margin else default


def place_of_default(task: Task, framework: Framework) -> int | None:
    """Return where a framework's default is among the configs of a task; None if it was not timed."""
    kernel = kernel_of(task)
    place = kernel and _place(task, default_row(framework, kernel, _tokens(task)))
    return place if place is not None and np.isfinite(task.seconds[place]) else None


def place_of_table(task: Task, framework: Framework, is_own: bool | None = None) -> int | None:
    """Return where the row of the nearest table is that was timed.

    Args:
        task: The task.
        framework: What would read it.
        is_own: Whether the table must be for the same sizes and GPU, or must not. Default: either.
    """
    kernel = kernel_of(task)
    for near in near_tables(kernel, task.device, framework) if kernel else ():
        if is_own is not None and is_own != (near.apart == 0):
            continue
        if (place := _place(task, near.table.row(_tokens(task)))) is not None:
            return place
    return None


def kind_of(task: Task) -> str:
    """Return what the model of rows calls a task's kernel; products of matrices are like those of experts."""
    kernel = kernel_of(task)
    return kind_of_kernel(kernel) if kernel else ""


def kernel_of(task: Task) -> Kernel | None:
    """Return what a table of a task's problem is for."""
    dims, name = task.workload.dims, task.workload.kind.removeprefix("triton.")
    if name == "block_scaled_float8":
        return ScaledProduct(dims["n"], dims["k"])
    if not name.startswith("fused_moe"):
        return None
    precision: Any = _PRECISIONS.get(name, "")
    width = dims["d"] if name.endswith("weighted") else dims["n"] // 2
    block = None if not precision else (128, 128) if precision == "fp8_w8a8" else (0, dims["g"])
    return ExpertProducts(dims["e"], dims["k"], width, 0, precision, block)


def _place(task: Task, row: Row) -> int | None:
    """Place of a row; a group of more tiles than there are counts as one of all."""
    wanted = np.array([row[name] for name in PARAMETERS])
    for group in (each for each in reversed(_GROUPS) if each <= row["GROUP_SIZE_M"]):
        wanted[OURS.index("GROUP_M")] = group
        if len(there := np.flatnonzero((task.rows == wanted).all(axis=1))):
            return int(there[0])
    return None


def _tokens(task: Task) -> int:
    return task.workload.dims["m" if "scaled" in task.workload.kind else "t"]


def is_whole(task: Task) -> bool:
    return task.sms == task.device.sms


def _gain(gains: FloatArray) -> dict[str, Any]:
    return {
        "pairs": len(gains),
        "changed": int((gains != 1).sum()),
        "slower by over 1 %": int((gains < 1 / 1.01).sum()),
        "least": float(gains.min()),
        "geometric mean": float(np.exp(np.log(gains).mean())),
    }
