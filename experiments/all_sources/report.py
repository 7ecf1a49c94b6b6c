"""What the answers over all sources are worth beside the library and the best of TVM. See README.md here."""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.files import write_json

PEERS = ("library", "library_all", "metaschedule", "cuda", "triton")


def main() -> None:
    args = parse()
    rows = [json.loads(line) for line in args.measured.read_text(encoding="utf-8").splitlines()]
    found = report(rows)
    if args.json:
        write_json(args.json, found)
    print(table(found))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    beside = Path(__file__).with_name("measured.jsonl")
    parser.add_argument("--measured", type=Path, default=beside, help="what run.py wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    return parser.parse_args(argv)


def report(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures by SM budget, and over all of them."""
    budgets = [budget for row in rows for budget in row["budgets"]]
    by_sms = {sms: [b for b in budgets if b["sms"] == sms] for sms in sorted({b["sms"] for b in budgets})}
    few = [b for b in budgets if b["sms"] <= 32]
    parts = {**{f"{sms} SMs": each for sms, each in by_sms.items()}, "8 to 32 SMs": few, "all": budgets}
    return {
        "devices": sorted({row["device"] for row in rows}),
        "workloads": len(rows),
        "parts": {name: summary(each) for name, each in parts.items() if each},
    }


def summary(budgets: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How the answers at some budgets compare."""
    ratio = np.array([b["us"]["answer"] / min(b["us"]["library"], b["us"]["metaschedule"]) for b in budgets])
    chosen = [b["source"] for b in budgets]
    return {
        "pairs": len(budgets),
        "over_better": {"median": float(np.median(ratio)), "worst": float(ratio.max())},
        "within_3_percent": float((ratio <= 1.03).mean()),
        "speedup": {peer: speedup(budgets, peer) for peer in PEERS},
        "chosen": {source: chosen.count(source) for source in sorted(set(chosen))},
    }


def speedup(budgets: Sequence[dict[str, Any]], peer: str) -> dict[str, float] | None:
    """Latency of a peer over that of the answer; None where the peer has no kernel."""
    ratio = np.array([b["us"][peer] / b["us"]["answer"] for b in budgets if peer in b["us"]])
    if not ratio.size:
        return None
    mean, tenth = float(np.exp(np.log(ratio).mean())), float(np.quantile(ratio, 0.1))
    return {"geometric_mean": mean, "median": float(np.median(ratio)), "p10": tenth, "pairs": int(ratio.size)}


def table(found: dict[str, Any]) -> str:
    """The figures as a Markdown table."""
    return "\n".join(lines(found))


def lines(found: dict[str, Any]) -> Iterable[str]:
    yield f"{found['workloads']} workloads on {', '.join(found['devices'])}"
    yield ""
    yield (
        "| SMs | pairs | answer / better of both, median | worst | within 3 % | library / answer | "
        "TVM / answer | chosen |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for name, part in found["parts"].items():
        over, speed = part["over_better"], part["speedup"]
        chosen = ", ".join(f"{source} {count}" for source, count in part["chosen"].items())
        yield (
            f"| {name} | {part['pairs']} | {over['median']:.3f} | {over['worst']:.3f} | "
            f"{100 * part['within_3_percent']:.0f} % | {speed['library']['geometric_mean']:.2f} | "
            f"{speed['metaschedule']['geometric_mean']:.2f} | {chosen} |"
        )


if __name__ == "__main__":
    main()
