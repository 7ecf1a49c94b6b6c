"""Judge the choice of a kernel where the most promising ones are compiled and looked at before.

The shortlist is of the model of experiments/sampled_pool, which knows decisions alone; what chooses from it
has learned from machine code, too. See README.md here.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset._machine_code import load_machine_code
from costmodel.dataset.splits._folds import select_whole_device
from costmodel.evaluation import EvaluationReport
from costmodel.evaluation._cross_validate import Results, table_of
from costmodel.evaluation._judge import (
    RANDOM,
    WHOLE_DEVICE,
    FewShot,
    judge_tasks,
    measure_in_turn,
    tested_tasks,
    whole_device_latency,
)
from costmodel.evaluation._sides import join
from costmodel.files import write_json
from costmodel.kernels._machine_code import MachineCode
from costmodel.learners._base import Prediction
from costmodel.records._identity import content_id
from costmodel.records._platform import Device
from costmodel.transfer import LearningRows, load_model, make_model
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.prediction._model import Model

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "sampled_pool"))
from budgets import with_rows
from judge import FRESH, POOL, Recipe, as_markdown, described, part_of_pool, shots_as_markdown
from kit.results import rounded

DECIDED = Recipe("committee", ("wide-sm-budgets", "sampled-sm-budgets"))
LEARNER = "committee"  # that knows machine code, too
# What it learns from: the pool's parts but the one that is judged.
LEARNED = {"choose": ("learn", "report"), "fresh": ("learn", "choose", "report")}
SHORTLISTS = (4, 8, 16)
# Of all kernels, by what knows decisions alone and by what knows machine code.
MEASURED = FewShot((0, 1, 2, 4))
STACK_BYTES = 64.0  # of a thread, above which the simplest rule takes no kernel


def main(argv: Sequence[str] | None = None) -> None:
    """Judge the shortlists on a part, and print how good they are beside the whole-device choice."""
    args = parse(argv)
    report = judge(args.part, args.seeds, args.models)
    found = {"part": args.part, "learned_from": LEARNED[args.part], **described(report)}
    print(as_markdown(found), shots_as_markdown(found), sep="\n\n")
    if args.json:
        write_json(args.json, rounded(found, 4))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=list(LEARNED), help="part of the pool, or pool, to judge on")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each model")
    parser.add_argument("--models", type=Path, help="folder of fitted models of experiments/sampled_pool")
    parser.add_argument("--json", type=Path, help="file to write")
    return parser.parse_args(argv)


def compiled(part: str) -> tuple[Dataset, dict[str, MachineCode]]:
    """The kernels of a part whose machine code was counted, with the counts."""
    code = load_machine_code(load_dataset(FRESH if part == FRESH.name else POOL))
    pool = part_of_pool(part)
    known = np.array([each in code for each in pool.columns.ids])
    return with_rows(pool, known[pool.measurements["candidate"].to_numpy()]), code


def judge(part: str, seeds: int, kept: Path | None) -> EvaluationReport:
    """Judge each way to choose, with all fits, beside a random choice and that of the whole device."""
    judged, code = compiled(part)
    data = LearningRows.of(judged, compiled=code)
    decided = LearningRows.of(judged)
    rows = data.rows.assign(whole_device=select_whole_device(data.rows))
    everything, tasks = np.arange(len(rows)), list(tested_tasks(rows))
    results, draws = Results(), np.zeros(len(rows))
    results.add_references(tasks, whole_device_latency(rows), MEASURED, draws)
    seconds: dict[str, float] = {}
    stack_bytes = _stack_bytes(judged, code)
    for seed in range(seeds):
        start = time.perf_counter()
        models = {
            "nothing compiled": (decided, DECIDED.fitted(seed, kept).model),
            "all compiled": (data, fitted(part, seed, kept).model),
        }
        before, after = (of.predict(model, everything) for of, model in models.values())
        for name, prediction in _choices(before, after, rows, stack_bytes).items():
            results.tasks.extend({**task, "run": seed} for task in judge_tasks(name, prediction, rows))
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
        for name, (of, model) in models.items():
            for task in tasks:
                X, latency_s = of.features[task.at], task.latency_s
                turns = measure_in_turn(model, model.adapt, X, latency_s, plan=MEASURED, draws=draws[task.at])
                results.add_shots(name, seed, task, turns)
        print(f"seed {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    names = [RANDOM, WHOLE_DEVICE, *seconds]
    return EvaluationReport(
        table_of(results.tasks, names),
        "sampled pool, compiled",
        seconds,
        baseline=next(iter(seconds)),
        shots=table_of(results.shots, names),
        few_shot=MEASURED,
    )


def fitted(part: str, seed: int, kept: Path | None) -> Model:
    """The model of compiled kernels that a part is judged with; out of the folder of those kept, if there."""
    name = content_id(LEARNER, "compiled", list(LEARNED[part]), seed)
    file = kept / f"{name}.costmodel" if kept else None
    if file is not None and file.exists():
        return load_model(file)
    history, devices = history_of(part)
    columns = history.features.columns
    model = history.fit(make_model(LEARNER, columns, seed), np.arange(len(history.rows)))
    found = Model(model, ModelMetadata(columns=tuple(column.name for column in columns), devices=devices))
    if file is not None:
        found.save(file)
    return found


@lru_cache(maxsize=1)
def history_of(part: str) -> tuple[LearningRows, tuple[Device, ...]]:
    """What the model of compiled kernels learns from, and the GPUs."""
    learned = [compiled(each) for each in LEARNED[part]]
    data = join([each for each, _ in learned])
    code = {k: v for _, found in learned for k, v in found.items()}
    devices = {platform.device.name: platform.device for platform in data.platforms}
    return LearningRows.of(data, compiled=code), tuple(devices.values())


def _choices(
    before: Prediction, after: Prediction, rows: pd.DataFrame, stack_bytes: FloatArray
) -> dict[str, Prediction]:
    """What each way to choose says, the way that compiles nothing first."""
    found = {
        "nothing compiled": before,
        "no kernel with more than 64 B of stack": Prediction(
            np.where(stack_bytes > STACK_BYTES, -np.inf, before.score), before.latency_s
        ),
    }
    place = _places(before.score, rows)
    for size in SHORTLISTS:
        chosen = np.where(place < size, after.score, -np.inf)
        found[f"the first {size} compiled"] = Prediction(chosen, after.latency_s)
    return found | {"all compiled": after}


def _places(score: FloatArray, rows: pd.DataFrame) -> FloatArray:
    """``(n,)`` place of each kernel in the order of its task, from 0 on."""
    ranks = pd.Series(-score).groupby(rows["task"].to_numpy()).rank(method="first")
    return np.asarray(ranks.to_numpy(dtype=np.float64) - 1.0)


def _stack_bytes(judged: Dataset, code: dict[str, MachineCode]) -> FloatArray:
    """``(n,)`` local memory of a thread, of each row's kernel."""
    of_kernel = {id_: each.stack_bytes for id_, each in code.items()}
    bytes_ = np.array([of_kernel.get(each, np.nan) for each in judged.columns.ids])
    return np.asarray(bytes_[judged.rows["candidate"].to_numpy()])


if __name__ == "__main__":
    main()
