"""Tunes workloads over all kernel sources, and measures answers beside the library and the best of TVM."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import costmodel
from costmodel.collector import CpuRunner, CudaRunner, Runner, find_campaign
from costmodel.dataset import Dataset, load_dataset
from costmodel.kernels._sources import open_sources
from costmodel.records import Candidate, Workload
from costmodel.search import Trial

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

from costmodel.tuning import Goal, Prior, SearchSettings

SOURCES = ("metaschedule", "cuda", "triton", "library")
ON_GPUS = ("cuda", "triton")
PYTORCH = ("eager", "addmm", "cudnn_benchmark")  # what a user of PyTorch calls
RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}


def main() -> None:
    args = parse()
    done = {row["workload"] for row in read_rows(args.out)}
    names = [name for name in args.workload or find_campaign(args.campaign).workloads if name not in done]
    history = load_dataset(args.data) if args.data else None
    model = costmodel.load_model(args.model) if args.model else None
    sources = open_sources([name for name in SOURCES if args.runner == "cuda" or name not in ON_GPUS])
    started = time.monotonic()
    with RUNNERS[args.runner](sources=sources) as runner, args.out.open("a") as out:
        for name in names:
            if time.monotonic() - started > args.time_limit:
                break
            row = compared(runner, Workload.parse(name), model, history, args)
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(f"{time.monotonic() - started:4.0f} s {name} {row['seconds']:.1f} s", flush=True)


def compared(
    runner: Runner,
    workload: Workload,
    model: costmodel.Model | None,
    history: Dataset | None,
    args: argparse.Namespace,
) -> dict[str, object]:
    """Tune a workload for several SM budgets, then measure the answers again beside what they must beat.

    The second measurement is what counts: the first one chose.
    """
    started = time.monotonic()
    known = Prior(model, start_from=history) if model else Prior(learn_from="nothing", start_from=history)
    result = costmodel.tune(
        workload,
        sms=Goal(args.sms, portfolio=len(args.sms)),
        trials=args.trials,
        sources="all",
        on=runner,
        prior=known,
        search=SearchSettings(screened=args.screened),
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
            "triton": first(ranked, lambda c: c.source == "triton"),
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


def first(ranked: Sequence[Trial], is_of: Callable[[Candidate], bool]) -> Candidate | None:
    """The fastest candidate of a kind."""
    return next((trial.candidate for trial in ranked if is_of(trial.candidate)), None)


def read_rows(path: Path) -> list[dict[str, object]]:
    """The workloads that are done."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSON lines, one a workload; it goes on")
    parser.add_argument("--campaign", help="whose workloads are tuned")
    parser.add_argument("--workload", action="append", help="another workload than the campaign's")
    parser.add_argument("--data", help="whose best kernels come first; '' for none")
    parser.add_argument("--model", type=Path, help="trained model; none learns from nothing")
    parser.add_argument("--sms", type=int, nargs="+")
    parser.add_argument("--trials", type=int, help="candidates to measure of each source")
    parser.add_argument("--screened", type=int, help="configs that are scored at a time")
    parser.add_argument("--runner", choices=RUNNERS)
    parser.add_argument("--time-limit", type=float, help="seconds after which no workload is begun")
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
