"""How should a search begin with what others measured, and when leave it? See README.md."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rules import PLAIN, RULES

sys.path.append(str(Path(__file__).parents[1]))
from kit.caches import find_kernels, leave_devices_out, name_kernel, read_kernel
from kit.replay import search_recorded
from kit.results import markdown_table, say
from options import parse_options

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset import load_dataset
from costmodel.files import write_json
from costmodel.transfer import LearningRows

NEAR = 1.05
OURS, MISLED, REPORTED = "our kernels on other SMs or sizes", "one other GPU", "all other GPUs"
MOST_SOURCES = 4
# A rule may need so many measurements more than the plain mean, in nine cases of ten.
BEHIND, CASES = 1, 0.9


class Case(NamedTuple):
    """A task to search, and the rows of the sources that are known."""

    kind: str
    kernel: str
    name: str
    data: LearningRows
    sources: Positions
    target: Positions


def main() -> None:
    """Search each case with each rule, choose a rule for each public kernel without it, and compare."""
    args = parse()
    found: list[dict[str, Any]] = []
    for number, each in enumerate(cases(args)):
        say(f"{number}: {each.kind}, {each.kernel}, {each.name}")
        found.append(
            {**about(each), "needed": {rule: needed(each, rule, args.most) for rule in args.rules or RULES}}
        )
    table = by_rule(found)
    document = {"choosing": choosing(table), "reported": reported(table), "cases": found}
    if args.json:
        write_json(args.json, document)
    for kind, rows in table.groupby("kind", sort=False):
        print(f"\n{kind}\n\n{shown(rows)}")
    print(f"\nchosen on the other kernels: {document['choosing']}\n{document['reported']}")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--datasets", nargs="*", help="ours, of which kernels are drawn")
    parser.add_argument("--each", type=int, help="cases of each family of kernels of ours")
    parser.add_argument("--share", type=float, help="of a public kernel's configs that a seed draws")
    parser.add_argument("--seeds", type=int, help="draws of configs")
    parser.add_argument("--most", type=int, help="measurements after which a search ends")
    parser.add_argument("--rules", nargs="*", choices=RULES, metavar="RULE")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def cases(args: argparse.Namespace) -> Iterator[Case]:
    """Yield kernels of ours, then public ones with one GPU known, then with all others."""
    for name in args.datasets:
        yield from cases_of_ours(name, args.each)
    for folder in find_kernels(args.data):
        data, kernel = LearningRows.of(read_kernel(folder)), name_kernel(folder)
        device = data.rows["device"].to_numpy(str)
        for seed in range(args.seeds):
            drawn = np.random.default_rng(seed).random(data.rows["candidate"].max() + 1) < args.share
            kept = drawn[data.rows["candidate"].to_numpy()]
            for fold in leave_devices_out(data.rows):
                target = fold.test[kept[fold.test]]
                yield Case(REPORTED, kernel, fold.held_out, data, fold.train, target)
                for one in sorted(set(device[fold.train])) if seed == 0 else ():
                    sources = fold.train[device[fold.train] == one]
                    yield Case(MISLED, kernel, f"{fold.held_out} by {one}", data, sources, target)


def cases_of_ours(name: str, each: int) -> Iterator[Case]:
    """Draw tasks of each family; sources are of half or double the SMs and beyond, of one size or others."""
    dataset = load_dataset(name)
    data, rng = LearningRows.of(dataset), np.random.default_rng(0)
    family = np.array([candidate.space for candidate in dataset.candidates])[data.rows["candidate"]]
    tasks = data.rows.assign(family=family).groupby(
        ["family", "workload", "sms_granted", "task"], observed=True
    )
    places = (
        pd.Series(tasks.indices).rename_axis(["family", "workload", "sms", "task"]).reset_index(name="at")
    )
    for of, rows in places.groupby("family"):
        for _ in range(each):
            target = rows.iloc[rng.integers(len(rows))]
            far = np.abs(np.log2(rows["sms"] / target["sms"])) >= 1
            far &= (rows["workload"] == target["workload"]) == bool(rng.integers(2))
            count = min(int(far.sum()), int(rng.integers(1, MOST_SOURCES + 1)))
            if count:
                sources = np.concatenate(rows["at"][far].sample(count, random_state=rng).to_list())
                yield Case(OURS, f"{name}/{of}", target["task"], data, np.sort(sources), target["at"])


def by_rule(found: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each case and rule."""
    return pd.DataFrame(
        {**case, "rule": rule, "needed": count} for case in found for rule, count in case["needed"].items()
    )


def about(case: Case) -> dict[str, str]:
    return {"kind": case.kind, "kernel": case.kernel, "case": case.name}


def needed(case: Case, rule: str, most: int) -> int:
    """Measurements until one is near the best; the most there are where none is."""
    X, y = case.data.table.values, case.data.latency_s
    model = RULES[rule](case.data.table.columns)
    model.fit(X[case.sources], y[case.sources], case.data.task_ids[case.sources])
    latency_s = y[case.target]
    found = search_recorded(model, X[case.target], latency_s, near=NEAR, most=min(most, len(latency_s)))
    near = np.flatnonzero(latency_s[found] <= NEAR * latency_s.min())
    return int(near[0]) + 1 if near.size else most


def choosing(table: pd.DataFrame) -> dict[str, str]:
    """Return the rule for each public kernel: chosen on ours, and on one GPU's misleading others, without it.

    Of the rules that are not behind the plain mean the one with the fewest measurements relative to it.
    """
    public = table.loc[table["kind"] == REPORTED, "kernel"].unique()
    known = table[table["kind"] != REPORTED]
    return {kernel: choose(known[known["kernel"] != kernel]) for kernel in public}


def choose(table: pd.DataFrame) -> str:
    worth: dict[str, float] = {}
    for rule in table["rule"].unique():
        parts = [wide(rows)[[PLAIN, rule]].to_numpy() for _, rows in table.groupby("kind")]
        if rule != PLAIN and all(
            np.quantile(part[:, 1] - part[:, 0], CASES, method="inverted_cdf") <= BEHIND for part in parts
        ):
            worth[rule] = float(np.mean([part[:, 1].mean() / part[:, 0].mean() for part in parts]))
    return min(worth, key=worth.__getitem__, default=PLAIN)


def reported(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Figures of each rule on the public kernels, and of those chosen without the kernel."""
    rows = table[table["kind"] == REPORTED]
    found = wide(rows)
    chosen = choosing(table)
    found["chosen on the other kernels"] = [found.loc[i, chosen[i[0]]] for i in found.index]
    return {rule: line(found[rule].to_numpy(), found[PLAIN].to_numpy()) for rule in found}


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Measurements, cases by rules."""
    numbered = rows.assign(draw=rows.groupby(["kernel", "case", "rule"]).cumcount())
    return numbered.pivot(index=["kernel", "case", "draw"], columns="rule", values="needed")


def line(found: FloatArray, plain: FloatArray) -> dict[str, float]:
    behind = found - plain
    quantiles = [np.quantile(each, CASES, method="inverted_cdf") for each in (found, behind)]
    return {
        "mean": round(float(found.mean()), 2),
        "p90": float(quantiles[0]),
        "behind: p90": float(quantiles[1]),
        "behind: most": float(behind.max()),
        "behind by more than 1": round(float((behind > BEHIND).mean()), 3),
    }


def shown(rows: pd.DataFrame) -> str:
    table = wide(rows)
    lines = {rule: line(table[rule].to_numpy(), table[PLAIN].to_numpy()) for rule in rows["rule"].unique()}
    return markdown_table(
        ["rule", *next(iter(lines.values()))], [[rule, *each.values()] for rule, each in lines.items()]
    )


if __name__ == "__main__":
    main()
