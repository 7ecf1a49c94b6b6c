"""What does it help to have measured more operators? See README.md here."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd

from costmodel.dataset import Dataset, load_dataset
from costmodel.evaluation import EvaluationReport, evaluate_across
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE
from costmodel.files import write_json
from costmodel.records import Candidate, Workload
from costmodel.records._identity import content_id
from costmodel.report._figures import NotebookFigure, save_figure
from costmodel.transfer import make_model

sys.path.append(str(Path(__file__).parents[1]))
from budgets import on_budgets, with_rows
from kit.results import markdown_table
from options import parse_options

# What is learned from differs from what is held out by more than this factor in some size.
NEAR = 1.25
ALL = 1000  # kernels, more than any workload has
FIGURES = {
    "score_at_1": "Score@1",
    "score_at_5": "Score@5",
    "gap_recovered": "gap recovered",
    "latency_error": "latency error",
}


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    judged = of_workloads(on_budgets(load_dataset(args.judged), args.device, args.sms), args.held_out)
    if args.only_kernels:
        judged = of_kernels(judged, set(args.only_kernels.read_text(encoding="ascii").split()))
    pool = [on_budgets(load_dataset(name), args.device, args.sms) for name in args.learned]
    summaries, tasks = [], []
    for at, report in reports(args, judged, pool):
        summaries.append(report.summary().assign(**at))
        tasks.append(report.tasks.assign(**at))
    curve, by_family = averaged(pd.concat(summaries)), families(pd.concat(tasks))
    print(f"{markdown(curve)}\n\n{markdown_of_families(by_family)}")
    if args.json:
        write_json(args.json, {"curve": rounded(curve), "families": rounded(by_family)})
    if args.plot:
        save_figure(picture(curve), args.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judged", help="dataset of what is held out")
    parser.add_argument("--learned", nargs="+", help="datasets to learn from, without what is held out")
    parser.add_argument("--device", help="name of the GPU")
    parser.add_argument("--sms", nargs="+", type=int, help="SM budgets")
    parser.add_argument("--held-out", nargs="+", help="workloads that choices are judged by")
    parser.add_argument("--only-kernels", type=Path, metavar="FILE", help="ids of those that are judged")
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of workloads to learn from")
    parser.add_argument("--most-kernels", nargs="+", type=int, help="kernels of each that are learned from")
    parser.add_argument("--draws", type=int, help="orders in which workloads are added")
    parser.add_argument("--learner", nargs="+", help="what learns")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def reports(
    args: argparse.Namespace, judged: Dataset, pool: Sequence[Dataset]
) -> Iterator[tuple[dict[str, int], EvaluationReport]]:
    """What is found with each number of workloads and kernels, and each order of workloads."""
    names = learnable(pool, [Workload.parse(name) for name in args.held_out])
    models = {learner: partial(make_model, learner) for learner in args.learner}
    for draw in range(args.draws):
        order = sorted(names, key=lambda name: content_id("breadth", draw, name))
        for size in sorted({min(size, len(order)) for size in args.sizes}):
            for most in args.most_kernels:
                known = [few_of_each(of_workloads(data, order[:size]), most) for data in pool]
                train = [data for data in known if len(data.measurements)]
                at = {"workloads": size, "most_kernels": most, "draw": draw}
                yield at, evaluate_across(train, judged, models)


def learnable(pool: Sequence[Dataset], held_out: Sequence[Workload]) -> list[str]:
    """Names of the workloads that are no near-twins of what is held out, in any type."""
    every = {name: Workload.parse(name).shape for data in pool for name in data.workloads}
    shapes = [workload.shape for workload in held_out]
    return [name for name, shape in every.items() if not any(each.is_near(shape, NEAR) for each in shapes)]


def of_workloads(data: Dataset, names: Sequence[str]) -> Dataset:
    """The measurements of some workloads."""
    return with_rows(data, np.asarray(data.measured_workloads.isin(names)))


def of_kernels(data: Dataset, ids: Set[str]) -> Dataset:
    """The measurements of some kernels."""
    kept = [i for i, id_ in enumerate(data.columns.ids) if id_ in ids]
    return with_rows(data, data.measurements["candidate"].isin(kept).to_numpy())


def few_of_each(data: Dataset, most: int) -> Dataset:
    """The measurements of at most so many kernels of each workload, drawn by their ids."""
    taken = Counter[str]()

    def takes(candidate: Candidate) -> bool:
        taken[candidate.workload.name] += 1
        return taken[candidate.workload.name] <= most

    ids = list(data.columns.ids)
    measured = set(data.measurements["candidate"])
    order = sorted(measured, key=lambda i: content_id("breadth", ids[i]))
    kept = [i for i in order if takes(data.candidates[i])]
    return with_rows(data, data.measurements["candidate"].isin(kept).to_numpy())


def averaged(summaries: pd.DataFrame) -> pd.DataFrame:
    """Mean over the orders, with the least and the largest Score@1."""
    at = ["most_kernels", "workloads", "learner"]
    grouped = summaries.groupby(at, sort=False)
    means = grouped[list(FIGURES)].mean()
    spread = grouped["score_at_1"].agg(["min", "max"]).add_prefix("score_at_1_")
    return means.join(spread).reset_index().sort_values(["most_kernels", "workloads"], kind="stable")


def families(tasks: pd.DataFrame) -> pd.DataFrame:
    """Mean Score@1 of each family of operators, a column for each number of workloads."""
    family = tasks["task"].astype(str).map(lambda task: Workload.parse(task.partition("@")[0]).shape.family)
    learned = ~tasks["learner"].isin([RANDOM, WHOLE_DEVICE])
    every = tasks.assign(family=family)[learned]
    table = every.pivot_table(
        index=["most_kernels", "family", "learner"], columns="workloads", values="score_at_1", sort=False
    )
    table.columns = [str(size) for size in table.columns]
    return table.reset_index()


def markdown(curve: pd.DataFrame) -> str:
    """The table of the README; what learns nothing stands there once."""
    rows = []
    references = curve["learner"].isin([RANDOM, WHOLE_DEVICE])
    for row in curve[~(references & curve.duplicated("learner"))].to_dict("records"):
        spread = f" ({row['score_at_1_min']:.3f} to {row['score_at_1_max']:.3f})"
        error = "" if pd.isna(row["latency_error"]) else f"{100 * row['latency_error']:.1f} %"
        figures = (
            f"{row['score_at_1']:.3f}{spread}",
            f"{row['score_at_5']:.3f}",
            f"{row['gap_recovered']:.2f}",
            error,
        )
        rows.append((_kernels(row["most_kernels"]), str(row["workloads"]), row["learner"], *figures))
    return markdown_table(("kernels of each", "workloads", "learner", *FIGURES.values()), rows, texts=3)


def markdown_of_families(table: pd.DataFrame) -> str:
    """Mean Score@1 of each family over the number of workloads."""
    sizes = [name for name in table.columns if name.isdigit()]
    rows = [
        (
            _kernels(row["most_kernels"]),
            row["family"],
            row["learner"],
            *(f"{row[size]:.3f}" for size in sizes),
        )
        for row in table.to_dict("records")
    ]
    return markdown_table(("kernels of each", "family", "learner", *sizes), rows, texts=3)


def picture(curve: pd.DataFrame) -> NotebookFigure:
    """Score@1 over the number of workloads: a panel for each number of kernels, a line for each learner."""
    most, sizes = (sorted(set(curve[name])) for name in ("most_kernels", "workloads"))
    figure = NotebookFigure(figsize=(4.2 * len(most), 3.8), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(most), sharey=True))
    for axes, kernels in zip(panels, most, strict=True):
        lines = curve[(curve["most_kernels"] == kernels) & (curve["learner"] != RANDOM)]
        markers = cycle("os^v")
        for learner, line in lines.groupby("learner", sort=False):
            style = "--" if learner == WHOLE_DEVICE else next(markers) + "-"
            axes.plot(line["workloads"], line["score_at_1"], style, markersize=4, label=str(learner))
            axes.fill_between(
                line["workloads"], line["score_at_1_min"], line["score_at_1_max"], alpha=0.15, linewidth=0
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes], rotation=45)
        axes.set_title(f"{_kernels(kernels)} kernels of each", fontsize=10)
        axes.set_xlabel("workloads learned from", fontsize=9)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("Score@1, mean over tasks held out", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(most), frameon=False, fontsize=8)
    return figure


def _kernels(most: int) -> str:
    return "all" if most >= ALL else f"{most}"


def rounded(table: pd.DataFrame) -> list[dict[str, object]]:
    return table.round(4).astype(object).where(table.notna(), None).to_dict("records")


if __name__ == "__main__":
    main()
