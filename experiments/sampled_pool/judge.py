"""Judge recipes, what learns from which data, on a part of the sampled pool. See README.md here."""

import argparse
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import costmodel
from costmodel.collector import find_campaign
from costmodel.dataset import Dataset
from costmodel.dataset.splits._folds import select_whole_device
from costmodel.evaluation import EvaluationReport
from costmodel.evaluation._cross_validate import Results, table_of
from costmodel.evaluation._judge import (
    RANDOM,
    WHOLE_DEVICE,
    FewShot,
    measure_in_turn,
    tested_tasks,
    whole_device_latency,
)
from costmodel.evaluation._judge import judge as judge_prediction
from costmodel.evaluation._sides import join
from costmodel.evaluation._statistics import table_by_coverage, table_by_shots
from costmodel.files import write_json
from costmodel.records import Workload
from costmodel.records._identity import content_id
from costmodel.transfer import LearningRows, load_model, make_model
from costmodel.transfer._base import TransferModel
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.models._known_on_whole import KnownOnWhole
from costmodel.transfer.models._residual import Residual
from costmodel.transfer.prediction._model import Model

sys.path.append(str(Path(__file__).parents[1]))
from budgets import with_rows
from kit.results import markdown_table, rounded

POOL = "sampled-sm-budgets"
# Of the list of the campaign. What learns from the pool learns from the first part, whatever it is judged on.
PARTS = {"learn": slice(0, 64), "choose": slice(64, 112), "report": slice(112, 160)}
# Another pool, on which nothing was decided: measured after the report part had been looked at.
FRESH = Path(__file__).parent / "fresh"
SMALL = 32  # SMs up to which a part of a device is called small


@dataclass(frozen=True)
class Recipe:
    """What learns, and from what.

    Attributes:
        learner: As in ``make_model``.
        data: Names of datasets; of the pool, the part to learn from.
        seeds: Fits that differ by seed.
        folds: Of a learner with intervals, folds to calibrate on; None for as many as it has by default.
        rows: Of such a learner, rows that a fold learns from, likewise.
        large_rehearsals: Of such a learner, large tasks that measurements are rehearsed on, likewise.
        parts: Parts of the pool to learn from.
    """

    learner: str
    data: Sequence[str]
    seeds: int = 1
    folds: int | None = None
    rows: int | None = None
    large_rehearsals: int | None = None
    parts: Sequence[str] = ("learn",)

    def fitted(self, seed: int, kept: Path | None) -> Model:
        """The fitted model; out of the folder of those kept if it is there."""
        file = kept / f"{self._id(seed)}.costmodel" if kept else None
        if file is not None and file.exists():
            return load_model(file)
        history = rows_of(tuple(self.data), tuple(self.parts))
        columns = history.features.columns
        unfitted: Any = make_model(self.learner, columns, seed)
        for setting, value in self._settings.items():
            setattr(unfitted, setting, value)
        fitted = history.fit(unfitted, np.arange(len(history.rows)))
        model = Model(fitted, ModelMetadata(columns=tuple(column.name for column in columns)))
        if file is not None:
            model.save(file)
        return model

    @property
    def _settings(self) -> dict[str, int]:
        """Settings of intervals that are not the default."""
        names = ("folds", "rows", "large_rehearsals")
        asked = {name: getattr(self, name) for name in names}
        return {name: value for name, value in asked.items() if value is not None}

    def _id(self, seed: int) -> str:
        parts = [] if tuple(self.parts) == ("learn",) else [list(self.parts)]
        return content_id(self.learner, list(self.data), seed, *self._settings.values(), *parts)


def main(argv: Sequence[str] | None = None) -> None:
    """Judge the recipes on a part, and print how good they are beside the whole-device choice."""
    args = parse(argv)
    told = tomllib.loads(args.recipes.read_text(encoding="utf-8"))
    recipes = {name: Recipe(**fields) for name, fields in told.items()}
    few_shot = FewShot(tuple(args.shots)) if args.shots else None
    report = judge(recipes, part_of_pool(args.part), args.models, few_shot, whole=args.whole)
    found = {"part": args.part, "recipes": told, **described(report)}
    print(shots_as_markdown(found) if few_shot else as_markdown(found))
    if args.json:
        write_json(args.json, rounded(found, 4))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=[*PARTS, FRESH.name], help="part of the pool, or pool, to judge on")
    parser.add_argument("recipes", type=Path, help="TOML with a table for each; the first is the baseline")
    parser.add_argument("--shots", type=int, nargs="*", help="judge the best of so many measurements, too")
    parser.add_argument("--whole", action="store_true", help="tell models what kernels take on the whole GPU")
    parser.add_argument("--models", type=Path, help="folder to keep fitted models in, and to take them from")
    parser.add_argument("--json", type=Path, help="file to write")
    return parser.parse_args(argv)


def part_of_pool(part: str) -> Dataset:
    """The measurements of one part of the pool, or of the fresh one."""
    if part == FRESH.name:
        return costmodel.load_dataset(FRESH)
    pool = costmodel.load_dataset(POOL)
    names = find_campaign(POOL).workloads[PARTS[part]]
    return with_rows(pool, np.isin(pool.measured_workloads, names))


@lru_cache(maxsize=1)
def rows_of(data: tuple[str, ...], parts: tuple[str, ...] = ("learn",)) -> LearningRows:
    """All that some datasets have to learn from; of the pool these parts."""
    learned = [part_of_pool(part) for part in parts if POOL in data]
    return LearningRows.of(join([*(costmodel.load_dataset(name) for name in data if name != POOL), *learned]))


def judge(
    recipes: Mapping[str, Recipe],
    judged: Dataset,
    kept: Path | None,
    few_shot: FewShot | None = None,
    *,
    whole: bool = False,
) -> EvaluationReport:
    """Judge each fit of each recipe on all tasks, beside a random choice and that of the whole device."""
    data, results, seconds = LearningRows.of(judged), Results(), dict.fromkeys(recipes, 0.0)
    rows = data.rows.assign(whole_device=select_whole_device(data.rows))
    whole_s = whole_device_latency(rows)
    # What is measured first of equals follows from the ids of the candidates, which are hashes.
    ids, place = np.unique(judged.columns.ids, return_inverse=True)
    draws = place[rows["candidate"]] / len(ids)
    results.add_references(list(tested_tasks(rows)), whole_s, few_shot, draws)
    for name, recipe in recipes.items():
        for seed in range(recipe.seeds):
            start = time.perf_counter()
            model = recipe.fitted(seed, kept)
            seconds[name] += time.perf_counter() - start
            assert model.metadata.columns == tuple(column.name for column in data.features.columns)
            for task in tested_tasks(rows):
                X, latency_s = data.features[task.at], task.latency_s
                start = told_of_whole(model.model, data, rows, task.at) if whole else model.model
                found = judge_prediction(start.predict(X), latency_s)
                results.tasks.append({"learner": name, **task.facts, **found, "run": seed})
                if few_shot:
                    by = draws[task.at]
                    turns = measure_in_turn(start, start.adapt, X, latency_s, plan=few_shot, draws=by)
                    results.add_shots(name, seed, task, turns)
            print(f"{name}, seed {seed}: {seconds[name]:.0f} s", file=sys.stderr)
    names = [RANDOM, WHOLE_DEVICE, *recipes]
    tasks, shots = table_of(results.tasks, names), table_of(results.shots, names)
    return EvaluationReport(
        tasks, "sampled pool", seconds, baseline=next(iter(recipes)), shots=shots, few_shot=few_shot
    )


def told_of_whole(
    model: TransferModel, data: LearningRows, rows: pd.DataFrame, at: NDArray[np.intp]
) -> TransferModel:
    """The model, told what the kernels of a task take on the whole device; itself for a task of that."""
    task = rows.iloc[at]
    there = rows["whole_device"] & (rows["device"] == task["device"].iloc[0])
    refs = np.flatnonzero((there & rows["candidate"].isin(task["candidate"])).to_numpy())
    if task["whole_device"].all() or not np.isfinite(data.latency_s[refs]).any():
        return model
    assert isinstance(model, Residual)
    return KnownOnWhole(model, data.features.columns, data.features[refs], data.latency_s[refs])


def described(report: EvaluationReport) -> dict[str, Any]:
    """What a report says of each recipe: over all tasks, on small parts of a device, by SMs and by kind."""
    small = replace(report, tasks=report.tasks[report.tasks["sms_granted"] <= SMALL])
    family = report.tasks["workload"].map(lambda name: Workload.parse(name).shape.family)
    tasks = report.tasks.assign(family=family)
    covered = table_by_coverage(report).to_dict("records")
    return {
        "all": report.statistics(),
        "small": [_only(each, "learner", "gap_recovered") for each in small.statistics()],
        "against": [_only(each, "learner", "score_at_1") for each in report.against()],
        "by_sms": _by(tasks, "sms_granted"),
        "by_family": _by(tasks, "family"),
        "by_shots": table_by_shots(report).to_dict("records"),
        "by_coverage": [_only(each, "learner", "shots", "by", "of", "coverage") for each in covered],
        "seconds": dict(report.seconds),
    }


def _only(entry: Mapping[str, Any], *prefixes: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name.startswith(prefixes)}


def _by(tasks: pd.DataFrame, column: str) -> list[dict[str, Any]]:
    """Mean Score@1, and the share of kernels within their intervals, by recipe and a column."""
    grouped = tasks.groupby(["learner", column], sort=False)
    sums = grouped[["covered", "ran"]].sum(min_count=1)
    table = grouped[["score_at_1"]].mean().assign(coverage=sums["covered"] / sums["ran"])
    return table.reset_index().to_dict("records")


def as_markdown(found: Mapping[str, Any]) -> str:
    """The table of the README."""
    small = {entry["learner"]: entry["gap_recovered"] for entry in found["small"]}
    against = {entry["learner"]: entry["score_at_1"] for entry in found["against"]}
    rows = [[entry["learner"], *_cells(entry, small, against)] for entry in found["all"]]
    header = ["recipe", "Score@1", "of each seed", "median", "10th percentile", "gap", "gap on 8 to 32 SMs"]
    return markdown_table([*header, "latency error", "against the first"], rows)


def shots_as_markdown(found: Mapping[str, Any]) -> str:
    """Score of the best measured, gap recovered and latency error, by number of measurements."""
    rows = [
        [
            entry["learner"],
            f"{entry['shots']}",
            _number(entry["score_after"], ".3f"),
            _number(entry["gap_recovered"], ".2f"),
            _number(entry["latency_error"], ".1%"),
        ]
        for entry in found["by_shots"]
    ]
    return markdown_table(["recipe", "measured", "best of them", "gap", "latency error"], rows)


def _cells(entry: Mapping[str, Any], small: Mapping[str, float], against: Mapping[str, Any]) -> list[str]:
    score, name = entry["score_at_1"], entry["learner"]
    seeds = entry["runs"]["score_at_1"]
    paired = against.get(name)
    return [
        f"{score['mean']:.3f}",
        f"{min(seeds):.3f} to {max(seeds):.3f}" if len(seeds) > 1 else "",
        f"{score['median']:.3f}",
        f"{score['p10']:.3f}",
        _number(entry["gap_recovered"], ".2f"),
        _number(small[name], ".2f"),
        _number(entry["latency_error"], ".1%"),
        "{:+.3f} ({:+.3f} to {:+.3f})".format(paired["mean_difference"], *paired["ci95"]) if paired else "",
    ]


def _number(value: float, spec: str) -> str:
    return "" if pd.isna(value) else format(value, spec)


if __name__ == "__main__":
    main()
