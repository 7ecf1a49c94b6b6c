"""How good are choices on SM budgets, devices and workloads never measured? See README.md here."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.cli._app import app
from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

HERE = Path(__file__).parent


def main() -> None:
    options = parse()
    rows = [
        row
        for name in options.evaluations
        for row in summary(name, evaluated(name, options.seed, options.out / f"{name}.json"))
    ]
    print(markdown(rows))
    if options.json:
        write_json(options.json, rows)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--evaluations", nargs="+", metavar="NAME", help="files beside this one, without .toml"
    )
    parser.add_argument("--seed", type=int, help="of the learners")
    parser.add_argument("--out", type=Path, required=True, help="folder for the whole reports")
    parser.add_argument("--json", type=Path, help="where to write the table")
    return parse_options(parser, __file__, argv)


def evaluated(name: str, seed: int, report: Path) -> dict[str, Any]:
    """What ``costmodel evaluate`` makes of one config."""
    arguments = ["--config", HERE / f"{name}.toml", "--seed", seed, "--json", report]
    app(["evaluate", *map(str, arguments)], standalone_mode=False)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def summary(name: str, report: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a learner, references included."""
    against = {entry["learner"]: entry["score_at_1"] for entry in report["against"]}
    return [
        {
            "held_out": name,
            "learner": entry["learner"],
            "tasks": entry["tasks"],
            "score_at_1": entry["score_at_1"]["mean"],
            "score_at_1_ci95": entry["score_at_1"]["mean_ci95"],
            "median": entry["score_at_1"]["median"],
            "p10": entry["score_at_1"]["p10"],
            "score_at_5": entry["score_at_5"]["mean"],
            "latency_error": entry["latency_error"],
            "gap_recovered": entry["gap_recovered"],
            "gap_recovered_ci95": [entry["gap_recovered_low"], entry["gap_recovered_high"]],
            "over_baseline": against.get(entry["learner"]),
            "seconds": report["seconds"].get(entry["learner"]),
        }
        for entry in report["summary"]
    ]


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table of the README."""
    heads = (
        "| held out | learner | Score@1, mean [95 %] | median (p10) | Score@5, mean | latency error "
        "| gap recovered [95 %] | over consensus [95 %] |"
    )
    return "\n".join([heads, "| --- | --- |" + " ---: |" * 6, *map(line, rows)])


def line(row: dict[str, Any]) -> str:
    paired = row["over_baseline"]
    cells = (
        row["held_out"],
        row["learner"],
        f"{row['score_at_1']:.3f} {ends(row['score_at_1_ci95'], '.2f')}",
        f"{row['median']:.3f} ({row['p10']:.3f})",
        f"{row['score_at_5']:.3f}",
        "" if row["latency_error"] is None else f"{row['latency_error']:.1%}".replace("%", " %"),
        f"{row['gap_recovered']:.2f} {ends(row['gap_recovered_ci95'], '.2f')}",
        f"{paired['mean_difference']:+.3f} {ends(paired['ci95'], '+.3f')}" if paired else "",
    )
    return f"| {' | '.join(cells)} |"


def ends(interval: Sequence[float], form: str) -> str:
    low, high = interval
    return f"[{low:{form}}, {high:{form}}]"


if __name__ == "__main__":
    main()
