"""Judge first choices of kernels that take no table, on problems left out: attention, weights, routing."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from judge import Results, is_whole
from model import predict_unseen
from numpy.typing import NDArray
from timings import Task, list_other_tasks

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded

from costmodel.arrays import FloatArray
from costmodel.dataset.table._read import load_dataset
from costmodel.files import write_json
from costmodel.kernels.triton._source import TritonSource

GROUPS = {
    "decode attention": ("triton.paged_attention", "triton.latent_attention"),
    "packed weights": ("triton.int4_weights", "triton.int8_weights"),
    "routing": ("triton.expert_routing", "triton.expert_routing_renormalised"),
    "norm and codes": ("triton.rms_norm_to_int8",),
}


def main() -> None:
    """Read, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--json", type=Path, help="the figures")
    options = parser.parse_args()
    measurements = list(load_dataset(options.dataset).to_measurements())
    found: Results = {}
    for name, kinds in GROUPS.items():
        tasks = [task for task in list_other_tasks(measurements, kinds) if _ran(task).sum() > 1]
        if len({task.problem for task in tasks}) > 1:
            found |= dict(_judge(name, tasks, predict_unseen(tasks)))
    if options.json:
        write_json(
            options.json, {name: {k: rounded(v) for k, v in row.items()} for name, row in found.items()}
        )
    rows = [[name, ", ".join(f"{k} {rounded(v)}" for k, v in row.items())] for name, row in found.items()]
    print(markdown_table(["what", "figures"], rows))


def _judge(
    name: str, tasks: Sequence[Task], unseen: Sequence[FloatArray]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield what a first choice, the framework's default and a random config reach of the best."""
    pairs = list(zip(tasks, unseen, strict=True))
    for where, kept in (("all SMs", is_whole), ("parts", lambda task: not is_whole(task))):
        chosen = [(task, log_s) for task, log_s in pairs if kept(task)]
        if not chosen:
            continue
        orders = [np.argsort(np.where(_ran(task), log_s, np.inf), kind="stable") for task, log_s in chosen]
        first, best = (_scores(chosen, orders, count) for count in (1, 16))
        default = np.array([_score(task, _default(task)) for task, _ in chosen])
        random = np.array([np.mean(task.seconds.min() / task.seconds[_ran(task)]) for task, _ in chosen])
        yield (
            f"{name}, {where}",
            {
                "tasks": len(chosen),
                "first choice, median": float(np.median(first)),
                "10th percentile": float(np.quantile(first, 0.1)),
                "5th percentile": float(np.quantile(first, 0.05)),
                "best of 16, 5th percentile": float(np.quantile(best, 0.05)),
                "default, median": float(np.nanmedian(default)),
                "random, median": float(np.median(random)),
                "default over first choice, geometric mean": float(
                    np.exp(np.nanmean(np.log(first / default)))
                ),
                "slower than the default by over 1 %": int((first < default / 1.01).sum()),
            },
        )


def _ran(task: Task) -> NDArray[np.bool_]:
    return np.isfinite(task.seconds)


def _scores(
    chosen: Sequence[tuple[Task, FloatArray]], orders: Sequence[NDArray[np.int64]], count: int
) -> FloatArray:
    """Return what the best of the first so many configs of each task reaches."""
    return np.array(
        [
            task.seconds.min() / task.seconds[order[:count]].min()
            for (task, _), order in zip(chosen, orders, strict=True)
        ]
    )


def _score(task: Task, place: int | None) -> float:
    return float("nan") if place is None else float(task.seconds.min() / task.seconds[place])


def _default(task: Task) -> int | None:
    """Return where the config is that a framework runs, if it was timed."""
    space = TritonSource().space(task.workload, "cuda")
    decisions = space.starts[0].decisions
    wanted = [int(str(decisions[name])) for name in sorted(decisions)]
    there = np.flatnonzero((task.rows == wanted).all(axis=1))
    return int(there[0]) if len(there) and np.isfinite(task.seconds[there[0]]) else None


if __name__ == "__main__":
    main()
