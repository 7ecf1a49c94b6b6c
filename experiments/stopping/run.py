"""What searches cost and find that end where little gain is expected: see README.md here."""

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas as pd
from optuna.trial import TrialState
from rich.progress import track

from costmodel.dataset import SplitRecipe, load_dataset, make_split
from costmodel.files import write_json
from costmodel.search import ModelSampler, StopGain
from costmodel.transfer import load_model

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parent / "search_on_replay")]
from options import parse_options  # noqa: E402
from tasks import Task, model_file, tasks_of  # noqa: E402

# Edges of the classes of expected gain, as shares of the best latency.
EDGES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0)
# Measurements that gained nothing, of the rule that asks no model.
PATIENCE = 8
GAIN, FIXED, PATIENT = "--stop-gain", "fixed number", f"{PATIENCE} without gain"


def main() -> None:
    options = parse()
    dataset = load_dataset(options.dataset)
    split = make_split(dataset, SplitRecipe("leave-one-workload-out", folds=options.folds))
    tasks = list(tasks_of(dataset, split))[:: options.every]
    cases = [
        (task, learner, model_file(dataset, split, task, learner, options.out))
        for task in track(tasks, "learning")
        for learner in options.learner
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        search = partial(search_to_the_cap, gains=options.gain, cap=options.cap)
        paths = list(track(pool.map(search, *zip(*cases, strict=True)), "searching", total=len(cases)))
    table = summary(pd.DataFrame([end for path in paths for end in ends(path, options.gain, options.fixed)]))
    honesty = expected_and_gained(paths)
    print(table.to_string(index=False), honesty.to_string(index=False), sep="\n\n")
    if options.json:
        result = {"ends": table.to_dict("records"), "expected": honesty.to_dict("records")}
        write_json(options.json, result)
    if options.plot:
        draw(table, honesty, options.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--folds", type=int)
    parser.add_argument("--learner", action="append", help="again for more (default: those of config.toml)")
    parser.add_argument("--every", type=int, help="every how many tasks one is searched")
    parser.add_argument("--gain", action="append", type=float, help="of --stop-gain; again for more")
    parser.add_argument("--fixed", action="append", type=int, help="measurements to compare with")
    parser.add_argument("--cap", type=int, help="measurements after which every search ends")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--out", type=Path, required=True, help="folder of the models, which are kept")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--plot", type=Path, help="where to draw them")
    return parse_options(parser, __file__, argv)


def search_to_the_cap(
    task: Task, learner: str, model: Path, *, gains: Sequence[float], cap: int
) -> dict[str, Any]:
    """Search a task to the cap, and note at each measurement what a search that may end would see.

    Returns:
        After each measurement ``score``, best recorded over best so far, and ``expected``, the gain of the
        next one or None; ``ended``: measurements after which each ``--stop-gain`` would have ended it.
    """
    logging.getLogger("optuna").setLevel(logging.WARNING)
    pool = task.pool
    sampler = ModelSampler(pool, load_model(model).model)
    study = optuna.create_study(sampler=sampler)
    rules = {gain: StopGain(sampler, gain) for gain in gains}
    order, expected, ended = list[float](), list[float | None](), dict[float, int]()
    while len(order) < min(cap, len(pool)):
        trial = study.ask(pool.distributions)
        order.append(float(task.latency_s[pool.position(trial.params)]))
        failed = np.isinf(order[-1])
        study.tell(trial, None if failed else order[-1], state=TrialState.FAIL if failed else None)
        expected.append(sampler.expected_gain(study))
        for gain, rule in rules.items():
            if gain not in ended and rule.is_reached(study):
                ended[gain] = len(order)
    score = task.latency_s.min() / np.minimum.accumulate(order)
    ended = {gain: ended.get(gain, len(order)) for gain in gains}
    return {"learner": learner, "score": score, "expected": expected, "ended": ended}


def ends(path: dict[str, Any], gains: Sequence[float], fixed: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Where each rule ends a search."""
    score = path["score"]
    by_rule: dict[tuple[str, float], int] = {(GAIN, gain): path["ended"][gain] for gain in gains}
    by_rule |= {(PATIENT, gain): without_gain(score, gain) for gain in gains}
    by_rule |= {(FIXED, count): min(count, len(score)) for count in fixed}
    for (rule, of), count in by_rule.items():
        about = {"learner": path["learner"], "rule": rule, "of": of}
        yield {**about, "measurements": count, "score": score[count - 1]}


def without_gain(score: np.ndarray, gain: float) -> int:
    """Measurements after which the last ``PATIENCE`` gained less than a share of the best latency."""
    before, after = score[:-PATIENCE], score[PATIENCE:]
    still = np.flatnonzero((before > 0.0) & (1.0 - before / np.maximum(after, 1e-12) < gain))
    return int(still[0]) + PATIENCE + 1 if still.size else len(score)


def summary(stops: pd.DataFrame) -> pd.DataFrame:
    """What each rule costs and finds."""
    groups = stops.groupby(["learner", "rule", "of"], sort=False)
    return (
        groups.agg(
            searches=("score", "size"),
            measurements_mean=("measurements", "mean"),
            measurements_median=("measurements", "median"),
            measurements_p90=("measurements", lambda n: n.quantile(0.9)),
            score_mean=("score", "mean"),
            score_p10=("score", lambda s: s.quantile(0.1)),
            within_5=("score", lambda s: (s * 1.05 >= 1.0).mean()),
        )
        .round(4)
        .reset_index()
    )


def expected_and_gained(paths: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Means of what was expected of a next measurement and of what it gained, by class of the former."""
    rows = pd.DataFrame(
        [
            {"learner": path["learner"], "expected": expected, "gained": 1.0 - now / then}
            for path in paths
            for expected, now, then in zip(path["expected"], path["score"], path["score"][1:], strict=False)
            if expected is not None
        ]
    )
    rows["from"] = pd.cut(rows["expected"], EDGES, labels=EDGES[:-1], include_lowest=True).astype(float)
    means = rows.groupby(["learner", "from"]).agg(
        measurements=("gained", "size"), expected=("expected", "mean"), gained=("gained", "mean")
    )
    return means.round(5).reset_index()


def draw(table: pd.DataFrame, honesty: pd.DataFrame, path: Path) -> None:
    """Expected against true gain, and score over measurements of all rules, of the first learner."""
    learner = table["learner"].iloc[0]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    shown = honesty[(honesty["expected"] > 0.0) & (honesty["gained"] > 0.0)]  # the scales are logarithms
    for name, rows in shown.groupby("learner"):
        left.loglog(100 * rows["expected"], 100 * rows["gained"], "o-", label=name)
    left.plot([0.01, 30.0], [0.01, 30.0], color="grey", linestyle=":", label="equal")
    left.set(xlabel="expected gain of the next measurement, %", ylabel="mean of what it gained, %")
    for rule, rows in table[table["learner"] == learner].groupby("rule", sort=False):
        shown = rows.sort_values("measurements_mean")
        right.plot(shown["measurements_mean"], shown["score_mean"], "o-", label=rule)
    right.set(
        xlabel="measurements, mean", ylabel="best recorded latency over best found, mean", title=learner
    )
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
