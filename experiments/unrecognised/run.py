"""How good is the first choice among kernels of programs that nobody recognises? See README.md here."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from msgspec.structs import replace

from costmodel.dataset import Dataset, Split, load_dataset, make_split
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.features import extract
from costmodel.metrics import score_at_k
from costmodel.metrics._expected import expected_score_at_k
from costmodel.records import Candidate, Config, Workload
from costmodel.records._identity import content_id
from costmodel.transfer import LearningRows, make_model

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

RANDOM, ANALYTIC = "random, as before", "analytic time"
NAMED, LAUNCHES = "{}, named", "{}, launches alone"
ANALYTIC_COLUMN = "log2_analytic_s"

Scores = dict[str, dict[str, float]]  # Score@1 by way of choosing and task


def main() -> None:
    args = parse()
    dataset = load_dataset(args.dataset)
    split = make_split(dataset, SplitRecipe("leave-one-workload-out", folds=args.folds))
    scores = measure(dataset, split, args.learner)
    means = {way: float(np.mean(list(tasks.values()))) for way, tasks in scores.items()}
    print("| first choice by | Score@1 | tasks |\n| --- | ---: | ---: |")
    print("\n".join(f"| {way} | {mean:.3f} | {len(scores[way])} |" for way, mean in means.items()))
    if args.json:
        document = {"score_at_1": means, "by_workload": by_workload(scores)}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    if args.plot:
        draw(by_workload(scores), args.learner[0], args.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--folds", type=int, help="groups of workloads, each left out in turn")
    parser.add_argument("--learner", action="append", help="again for more")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    return parse_options(parser, __file__, argv)


def measure(dataset: Dataset, split: Split, learners: Sequence[str]) -> Scores:
    """Score@1 on workloads left out, with their names and without."""
    data = LearningRows.of(dataset)
    nameless = without_names(dataset, data)
    columns = data.table.columns
    analytic = [column.name for column in columns].index(ANALYTIC_COLUMN)
    scores: Scores = {RANDOM: {}, ANALYTIC: {}}
    for fold in split.folds:
        test = fold.test
        ways = {RANDOM: None, ANALYTIC: -nameless[test, analytic]}
        for learner in learners:
            model = data.fit(make_model(learner, columns), fold.train)
            ways[NAMED.format(learner)] = model.predict(data.table.values[test]).score
            ways[LAUNCHES.format(learner)] = model.predict(nameless[test]).score
        for way, predicted in ways.items():
            scores.setdefault(way, {}).update(score_tasks(predicted, data, test))
    return scores


def without_names(dataset: Dataset, data: LearningRows) -> np.ndarray:
    """``(n, d)`` features of the same kernels as they come from a database of programs that nobody knows.

    Workload and decisions are gone; what the lowered programs launch is there, as it was recorded.
    """
    candidates = [nameless(candidate) for candidate in dataset.candidates]
    platforms = [dataset.platforms[i] for i in data.rows["platform"]]
    table = extract([candidates[i] for i in data.rows["candidate"]], platforms)
    return table.values[:, : len(data.table.columns)]


def nameless(candidate: Candidate) -> Candidate:
    workload = Workload(f"metaschedule.p{content_id(candidate.workload.name)}", {}, "")
    return replace(candidate, workload=workload, space="metaschedule-trace", config=Config({}))


def score_tasks(predicted: np.ndarray | None, data: LearningRows, test: np.ndarray) -> dict[str, float]:
    """Score@1 by task; without predictions that of a choice at random."""
    found = {}
    for task, positions in data.rows.iloc[test].groupby("task").indices.items():
        latency_s = data.latency_s[test][positions]
        found[str(task)] = (
            expected_score_at_k(latency_s, 1)
            if predicted is None
            else score_at_k(np.nan_to_num(predicted[positions], nan=-np.inf), latency_s, 1)
        )
    return found


def by_workload(scores: Scores) -> Mapping[str, Mapping[str, float]]:
    """Mean Score@1 by way and workload; a task's name begins with that of its workload."""
    found: dict[str, dict[str, list[float]]] = {way: {} for way in scores}
    for way, tasks in scores.items():
        for task, score in tasks.items():
            found[way].setdefault(task.partition("@")[0], []).append(score)
    return {way: {name: float(np.mean(each)) for name, each in names.items()} for way, names in found.items()}


def draw(found: Mapping[str, Mapping[str, float]], learner: str, path: Path) -> None:
    """A row a workload, a marker a way of choosing."""
    ways: dict[str, dict[str, Any]] = {
        RANDOM: {"marker": "|", "color": "0.5"},
        LAUNCHES.format(learner): {"marker": "o", "color": "tab:orange"},
        NAMED.format(learner): {"marker": "D", "color": "tab:blue", "markerfacecolor": "none"},
    }
    workloads = sorted(found[RANDOM], key=lambda name: found[LAUNCHES.format(learner)][name])
    figure, axes = plt.subplots(figsize=(7, 0.26 * len(workloads) + 1.2), layout="constrained")
    for way, style in ways.items():
        scores = [found[way][name] for name in workloads]
        axes.plot(scores, range(len(workloads)), linestyle="none", label=way, **style)
    axes.set_yticks(range(len(workloads)), workloads, fontsize=7)
    axes.set(xlim=(0, 1.02), xlabel="Score@1 (best latency / latency of the first choice)")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
