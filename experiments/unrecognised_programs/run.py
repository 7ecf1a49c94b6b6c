"""How good is the first choice of a model that knows other programs alone? See README.md here."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from costmodel.dataset import load_dataset
from costmodel.features._extract import COLUMNS
from costmodel.files import write_json
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.learners import score_at_k
from costmodel.learners._metrics import expected_score_at_k
from costmodel.records import Measurement, Outcome, Platform
from costmodel.search import KernelSpace
from costmodel.transfer import LearningRows, TransferModel, make_model

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table
from options import parse_options

RANDOM, ANALYTIC = "random", "analytic time"
ANALYTIC_COLUMN = "log2_analytic_s"

Scores = dict[str, dict[str, float]]  # Score@1 by way of choosing and task


def main() -> None:
    args = parse()
    records = load_dataset(args.measured).to_measurements()
    rows = LearningRows.of(load_dataset(args.dataset))
    everything = np.arange(len(rows.latency_s))
    models = {name: rows.fit(make_model(name, rows.table.columns), everything) for name in args.learner}
    scores = measure(records, models)
    print(table(scores))
    if args.json:
        write_json(args.json, {"score_at_1": scores, "noise": noise(records)})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path, help="dataset of what collect.py wrote")
    parser.add_argument("--dataset", type=Path, help="what models learn from; none of the programs is in it")
    parser.add_argument("--learner", action="append", help="again for more")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def measure(records: Sequence[Measurement], models: Mapping[str, TransferModel]) -> Scores:
    """Score@1 of each program on each number of SMs."""
    from programs import PROGRAMS  # loads TVM

    scores: Scores = {way: {} for way in (RANDOM, ANALYTIC, *models)}
    for name, make in PROGRAMS.items():
        source = ProgramSource.of(make())
        (workload,) = source.workloads
        own = [r for r in records if r.candidate.workload == workload and r.visit == 0]
        for platform in {r.platform.platform_id: r.platform for r in own}.values():
            here = [r for r in own if r.platform == platform and r.outcome is Outcome.OK]
            task = f"{name}@{platform.sms_granted}"
            for way, score in score_task(source, platform, here, models).items():
                scores[way][task] = score
    return scores


def score_task(
    source: ProgramSource,
    platform: Platform,
    records: Sequence[Measurement],
    models: Mapping[str, TransferModel],
) -> dict[str, float]:
    """Score@1 of each way to choose among the kernels of a task; nothing of it was lowered to choose."""
    (workload,) = source.workloads
    space = KernelSpace(source.space(workload, platform.device.kind), platform)
    features = space.features([record.candidate.config for record in records])[:, 0]
    latency_s = np.array([record.latency_s for record in records])
    analytic = [column.name for column in COLUMNS].index(ANALYTIC_COLUMN)
    predicted = {ANALYTIC: -features[:, analytic]}
    predicted |= {name: model.predict(features).score for name, model in models.items()}
    return {RANDOM: expected_score_at_k(latency_s, 1)} | {
        way: score_at_k(np.nan_to_num(score, nan=-np.inf), latency_s, 1) for way, score in predicted.items()
    }


def noise(records: Sequence[Measurement]) -> dict[str, float]:
    """How far the second visits are from the first: median and 99th percentile of the ratio, less 1."""
    latencies: dict[tuple[str, str], dict[int, float]] = {}
    for record in records:
        if record.outcome is Outcome.OK:
            key = record.candidate.candidate_id, record.platform.platform_id
            latencies.setdefault(key, {})[record.visit] = record.latency_s
    pairs = np.array([(visits[0], visits[1]) for visits in latencies.values() if len(visits) == 2])
    if not len(pairs):
        return {}
    apart = pairs.max(axis=1) / pairs.min(axis=1) - 1.0
    return {"median": float(np.median(apart)), "p99": float(np.quantile(apart, 0.99)), "pairs": len(pairs)}


def table(scores: Scores) -> str:
    """Markdown: a row a program, the mean over its tasks for each way; the last row is the mean over all."""
    ways = list(scores)
    names = list(dict.fromkeys(task.partition("@")[0] for task in scores[RANDOM]))
    rows = [[name, *(f"{mean_score(scores[way], name):.3f}" for way in ways)] for name in [*names, "mean"]]
    return markdown_table(["program", *ways], rows)


def mean_score(scores: Mapping[str, float], name: str) -> float:
    return float(np.mean([s for task, s in scores.items() if name in (task.partition("@")[0], "mean")]))


if __name__ == "__main__":
    main()
