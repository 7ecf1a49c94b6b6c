"""What do multitask processes give with few measurements of few tasks? See README.md here."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

sys.path.append(str(Path(__file__).parents[1]))
from errors import COREGIONALISED, ONE, equal, unequal
from families import Family, families
from options import parse_options
from picture import draw
from searches import ALONE, CHOOSERS, RULES, Limits, searched

from costmodel.benchmark.entries._coregionalisation import Settings
from costmodel.files import write_json
from costmodel.learners._statistics import cluster_bootstrap_interval, cluster_bootstrap_ratio

RELATED = ("recorded", "analytic")
KINDS = {"related": RELATED, **{kind: (kind,) for kind in (*RELATED, "unrelated")}}


def main() -> None:
    """Compare errors and searches on all families."""
    options = parse()
    all_families = list(families(options.budgets, options.sizes, options.caches))
    found_errors, found_searches = [], []
    for family in track(all_families, "families"):
        found_errors += errors_of(family, options)
        found_searches += searches_of(family, options)
    document = summarise(found_errors, found_searches, options.most)
    print(pd.DataFrame(document["errors"]).to_string())
    print(pd.DataFrame(document["searches"]).to_string())
    if options.json:
        write_json(options.json, document)
    if options.plot:
        draw(pd.DataFrame(found_errors), options.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budgets", nargs="+", metavar="DATASET/WORKLOAD")
    parser.add_argument("--sizes", nargs="+", metavar="DATASET/KIND@SMS")
    parser.add_argument("--caches", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--rows", type=int, nargs="+", help="of each task")
    parser.add_argument("--few", type=int, help="rows of a new task, where the others have the most")
    parser.add_argument("--known", type=int, help="rows of each source of a search")
    parser.add_argument("--most", type=int, help="measurements of a search at most")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--latent", type=int, help="latent processes")
    parser.add_argument("--restarts", type=int, help="of the search for hyperparameters")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    return parse_options(parser, __file__, argv)


def errors_of(family: Family, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Error of each method, mean over tasks and seeds."""
    settings, most = Settings(options.latent, options.restarts), max(options.rows)
    found = {
        str(rows): [equal(family, rows, seed, settings) for seed in range(options.seeds)]
        for rows in options.rows
    }
    found[f"{options.few} of one, {most} of others"] = [
        unequal(family, options.few, most, seed, settings) for seed in range(options.seeds)
    ]
    return [
        {
            "family": family.name,
            "kind": family.kind,
            "rows": rows,
            "method": method,
            "error": round(float(np.mean([each[method] for each in of_seeds])), 5),
        }
        for rows, of_seeds in found.items()
        for method in of_seeds[0]
    ]


def searches_of(family: Family, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What each rule finds; nothing of unrelated tasks, which no search would learn from knowingly."""
    if family.kind not in RELATED:
        return []
    limits = Limits(options.known, options.most)
    return [
        {"family": family.name, "kind": family.kind, "rule": rule, "misled": misled, "seed": seed, **found}
        for misled, rules in ((False, tuple(RULES)), (True, CHOOSERS))
        for rule in rules
        for seed in range(options.seeds)
        for found in searched(family, rule, seed, limits, misled=misled)
    ]


def summarise(errors: list[dict[str, Any]], searches: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """Lines of the tables, and what they are made of."""
    by_rows = pd.DataFrame(errors).groupby("rows", sort=False)
    return {
        "errors": [
            {"families": name, "rows": rows, **line}
            for name, kinds in KINDS.items()
            for rows, of in by_rows
            for line in error_lines(of[of["kind"].isin(kinds)])
        ],
        "searches": [
            line for _, of in pd.DataFrame(searches).groupby("misled") for line in search_lines(of, most)
        ],
        "found errors": errors,
        "found by searches": searches,
    }


def error_lines(of: pd.DataFrame) -> list[dict[str, Any]]:
    """Errors of each method over those of one process a task, and those of coregionalised ones over its."""
    table = of.pivot_table(index="family", columns="method", values="error", sort=False)
    return [
        {
            "method": method,
            "number": int(table[method].notna().sum()),
            "error": round(float(table[method].median()), 3),
            **ratio("over one process", table[method] / table[ONE]),
            **ratio("coregionalised over it", table[COREGIONALISED] / table[method]),
        }
        for method in table.columns
    ]


def ratio(name: str, ratios: pd.Series) -> dict[str, float]:
    """Median, geometric mean with its interval over families, and the largest."""
    logs = np.log(ratios.dropna().to_numpy())
    low, high = cluster_bootstrap_interval(logs, np.arange(len(logs)))
    said = {"median": np.median(logs), "mean": logs.mean(), "from": low, "to": high, "worst": logs.max()}
    return {f"{name}: {key}": round(float(np.exp(value)), 3) for key, value in said.items()}


def search_lines(of: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    """Measurements of each rule until near the best, over those of a search that knows no other task."""
    of = of.assign(spent=of["needed"].fillna(most).astype(float))
    key = ["family", "seed", "target"]
    alone = of[of["rule"] == ALONE].set_index(key)["spent"]
    lines = []
    for rule, each in of.groupby("rule", sort=False):
        spent = each.set_index(key)["spent"]
        clusters = spent.index.get_level_values("family").to_numpy()
        bounds = cluster_bootstrap_ratio(spent.to_numpy(), alone[spent.index].to_numpy(), clusters)
        first = each["first_above_best"].dropna()
        lines.append(
            {
                "rule": rule,
                "misled": bool(each["misled"].iloc[0]),
                "searches": len(each),
                "median": float(spent.median()),
                "mean": round(float(spent.mean()), 2),
                "over alone": round(float(spent.sum() / alone.sum()), 3),
                "over alone: from": round(bounds[0], 3),
                "over alone: to": round(bounds[1], 3),
                "never": int(each["needed"].isna().sum()),
                "first above best: median": None if first.empty else round(float(first.median()), 3),
                "first above best: mean": None if first.empty else round(float(first.mean()), 3),
                "first within 15 %": None if first.empty else round(float((first <= 0.15).mean()), 3),
            }
        )
    return lines


if __name__ == "__main__":
    main()
