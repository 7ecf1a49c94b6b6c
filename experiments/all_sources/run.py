"""Tunes workloads over all kernel sources, and measures answers beside the library and the best of TVM."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import costmodel
from costmodel.collector import CampaignConfig, CpuRunner, CudaRunner, Runner, find_campaign
from costmodel.dataset import Dataset, load_dataset
from costmodel.kernels import open_sources
from costmodel.records import Candidate, Workload

SOURCES = ("metaschedule", "cuda", "library")
PYTORCH = ("eager", "addmm", "cudnn_benchmark")  # what a user of PyTorch calls
TRIALS, SCREENED = 10, 3000


def main() -> None:
    arguments = parse()
    done = {row["workload"] for row in read_rows(arguments.out)}
    campaign = find_campaign(CampaignConfig.load(arguments.campaign))
    names = [name for name in arguments.workload or campaign.workloads if name not in done]
    history = load_dataset(arguments.data) if arguments.data else None
    model = costmodel.load_model(arguments.model) if arguments.model else None
    runner_of = {"cuda": CudaRunner, "cpu": CpuRunner}[arguments.runner]
    sources = open_sources([name for name in SOURCES if arguments.runner == "cuda" or name != "cuda"])
    started = time.monotonic()
    with runner_of(sources=sources) as runner, arguments.out.open("a") as out:
        for name in names:
            if time.monotonic() - started > arguments.time_limit:
                break
            row = compared(runner, Workload.parse(name), arguments.sms, model, history)
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(f"{time.monotonic() - started:4.0f} s {name} {row['seconds']:.1f} s", flush=True)


def compared(
    runner: Runner,
    workload: Workload,
    sms: Sequence[int],
    model: costmodel.Model | None,
    history: Dataset | None,
) -> dict[str, object]:
    """Tune a workload for several SM budgets, then measure the answers again beside what they must beat.

    The second measurement is what counts: the first one chose.
    """
    started = time.monotonic()
    settings = {"model": model} if model else {"learn_from": "nothing"}
    result = costmodel.tune(
        workload,
        sms=list(sms),
        portfolio=len(sms),
        source="all",
        trials=TRIALS,
        screened=SCREENED,
        start_from=history,
        runner=runner,
        **settings,
    )
    seconds = time.monotonic() - started
    trials = [trial for trial in result.search.trials if np.isfinite(trial.latency_s).any()]
    table = result.dispatch_table
    budgets = []
    for i, granted in enumerate(result.search.sms):
        ranked = sorted(trials, key=lambda trial: trial.latency_s[i])
        chosen: dict[str, Candidate] = {
            "answer": table.kernel_for(granted),
            "library": first(ranked, lambda c: c.config.decisions.get("call") in PYTORCH),
            "library_all": first(ranked, lambda c: c.source == "library"),
            "metaschedule": first(ranked, lambda c: c.source == "metaschedule"),
            "cuda": first(ranked, lambda c: c.source == "cuda"),
        }
        chosen = {label: candidate for label, candidate in chosen.items() if candidate}
        platform = runner.platform(granted)
        distinct = list({c.candidate_id: c for c in chosen.values()}.values())
        again = {m.candidate.candidate_id: m for m in runner.measure(distinct, platform, visit=1)}
        budgets.append(
            {
                "sms": granted,
                "source": chosen["answer"].source,
                "config": chosen["answer"].config.decisions,
                "us": {label: 1e6 * again[c.candidate_id].latency_s for label, c in chosen.items()},
            }
        )
    device = result.search.platforms[0].device.name
    return {"workload": workload.name, "device": device, "seconds": seconds, "budgets": budgets}


def first(ranked, is_of) -> Candidate | None:
    """The fastest candidate of a kind."""
    return next((trial.candidate for trial in ranked if is_of(trial.candidate)), None)


def read_rows(path: Path) -> list[dict]:
    """The workloads that are done."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON lines, one a workload; goes on with them"
    )
    parser.add_argument("--campaign", type=Path, default=Path("sm-budgets"), help="whose workloads are tuned")
    parser.add_argument("--workload", action="append", help="another workload than the campaign's")
    parser.add_argument(
        "--data", default="sm-budgets", help="whose best kernels are measured first; '' for none"
    )
    parser.add_argument("--model", type=Path, help="trained model; none learns from nothing")
    parser.add_argument("--sms", type=int, nargs="+", default=[8, 32, 132])
    parser.add_argument("--runner", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--time-limit", type=float, default=1e9, help="seconds after which none is begun")
    return parser.parse_args()


if __name__ == "__main__":
    main()
