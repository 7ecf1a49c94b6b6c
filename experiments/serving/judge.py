"""Judge rows of tables on problems that the model did not see, beside defaults and tables of frameworks."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fit import doubt
from model import predict_unseen
from timings import OURS, Task, list_other_tasks, list_tasks

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded, say

from costmodel.arrays import FloatArray
from costmodel.dataset.table._read import load_dataset
from costmodel.files import write_json
from costmodel.serving._choose import near_tables
from costmodel.serving._default_rule import Framework, default_row
from costmodel.serving._kernel import PARAMETERS, ExpertProducts, Kernel, Row, ScaledProduct

ATTENTION = ("triton.paged_attention", "triton.latent_attention")
_GROUPS = (1, 8, 16, 32, 64)
_PRECISIONS = {"fused_moe_float8": "fp8_w8a8", "fused_moe_int8": "int8_w8a16", "fused_moe_int4": "int4_w4a16"}
Results = dict[str, dict[str, Any]]


def main() -> None:
    """Judge, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+", help="datasets with timings of tiled products")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    measurements = [each for name in options.datasets for each in load_dataset(name).to_measurements()]
    tasks = list_tasks(measurements)
    unseen = predict_unseen(tasks)
    served = [i for i, task in enumerate(tasks) if task.workload.kind.startswith("triton.")]
    tasks, unseen = [tasks[i] for i in served], [unseen[i] for i in served]
    margin, _ = doubt(tasks, unseen)
    found = {
        **judge_choices(tasks, unseen),
        **judge_defaults(tasks, unseen, margin),
        **judge_tables(tasks),
        **judge_parts(tasks, unseen, margin),
    }
    for kind in ATTENTION:
        if others := list_other_tasks(measurements, [kind]):
            found |= {f"{kind}, {k}": v for k, v in judge_choices(others, predict_unseen(others)).items()}
    for name, row in found.items():
        say(f"{name}: { ({k: rounded(v) for k, v in row.items()}) }")
    if options.out:
        write_json(
            options.out, {name: {k: rounded(v) for k, v in row.items()} for name, row in found.items()}
        )
    rows = [[name, ", ".join(f"{k} {rounded(v)}" for k, v in row.items())] for name, row in found.items()]
    print(markdown_table(["what", "figures"], rows))


def judge_choices(tasks: Sequence[Task], unseen: Sequence[FloatArray]) -> Results:
    """How far the first choice, and the best of sixteen, are above the fastest of a task."""
    found: Results = {}
    for name, kept in (("all SMs", _is_whole), ("parts", lambda task: not _is_whole(task))):
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


def judge_defaults(tasks: Sequence[Task], unseen: Sequence[FloatArray], margin: float) -> Results:
    """What a row is worth that stays the framework's default unless the model is sure that it loses."""
    found: Results = {}
    for framework in ("vllm", "sglang"):
        gains = []
        for task, log_s in zip(tasks, unseen, strict=True):
            default = place_of_default(task, framework)
            if default is not None:
                gains.append(task.seconds[default] / task.seconds[pinned(task, log_s, default, margin)])
        if gains:
            found[f"{framework}, pinned"] = _gain(np.array(gains))
    return found


def judge_tables(tasks: Sequence[Task]) -> Results:
    """What the row of the nearest table is worth beside the default, on the whole GPU."""
    found: Results = {}
    for framework in ("vllm", "sglang"):
        gains = []
        for task in filter(_is_whole, tasks):
            default, near = place_of_default(task, framework), place_of_table(task, framework)
            if default is not None and near is not None and np.isfinite(task.seconds[near]):
                gains.append(task.seconds[default] / task.seconds[near])
        if gains:
            found[f"{framework}, nearest table"] = _gain(np.array(gains))
    return found


def judge_parts(tasks: Sequence[Task], unseen: Sequence[FloatArray], margin: float) -> Results:
    """How much longer the best config of the whole GPU takes on a part than what is chosen for the part."""
    whole = {(task.workload.name, task.device.name): task for task in tasks if _is_whole(task)}
    ratios: dict[int, list[float]] = {}
    for task, log_s in zip(tasks, unseen, strict=True):
        other = whole.get((task.workload.name, task.device.name))
        if _is_whole(task) or other is None:
            continue
        best = other.rows[np.argmin(other.seconds)]
        there = np.flatnonzero((task.rows == best).all(axis=1))
        ran = np.isfinite(task.seconds)
        if len(there) and ran[there[0]]:
            first = int(np.argmin(np.where(ran, log_s, np.inf)))
            ratios.setdefault(task.sms, []).append(float(task.seconds[there[0]] / task.seconds[first]))
    return {
        f"{sms} SMs, best of the whole GPU over the first choice": {
            "tasks": len(values),
            "geometric mean": float(np.exp(np.mean(np.log(values)))),
        }
        for sms, values in sorted(ratios.items())
    }


def pinned(task: Task, log_s: FloatArray, default: int, margin: float) -> int:
    """Return the place of the config that a table would have."""
    first = int(np.argmin(np.where(np.isfinite(task.seconds), log_s, np.inf)))
    return first if log_s[default] - log_s[first] > margin else default


def place_of_default(task: Task, framework: Framework) -> int | None:
    """Return where a framework's default is among the configs of a task; None if it was not timed."""
    kernel = kernel_of(task)
    place = kernel and _place(task, default_row(framework, kernel, _tokens(task)))
    return place if place is not None and np.isfinite(task.seconds[place]) else None


def place_of_table(task: Task, framework: Framework) -> int | None:
    """Return where the row of the nearest table is that was timed."""
    kernel = kernel_of(task)
    for near in near_tables(kernel, task.device, framework) if kernel else ():
        if (place := _place(task, near.table.row(_tokens(task)))) is not None:
            return place
    return None


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


def _is_whole(task: Task) -> bool:
    return task.sms == task.device.sms


def _gain(gains: FloatArray) -> dict[str, Any]:
    return {
        "pairs": len(gains),
        "changed": int((gains != 1).sum()),
        "slower by over 1 %": int((gains < 1 / 1.01).sum()),
        "least": float(gains.min()),
        "geometric mean": float(np.exp(np.log(gains).mean())),
    }


if __name__ == "__main__":
    main()
