"""Live search for kernels of unrecognised programs beside TVM's stock tuner. See README.md here."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "live_search"))
from limited import ProcessFailedError, messages
from searches import BATCH, BUILD_TIMEOUT_S, EARLY_WARM_UP, Log

OURS, STOCK = "costmodel", "stock, early model"
_USUAL = ("dense_tanh_gelu", "conv2d_bias_relu", "layer_norm", "int8_dense")


@dataclass(frozen=True)
class Search:
    """One search.

    Attributes:
        name: ``OURS`` or ``STOCK``: both have our builders, our runner and batches of 16.
        program: Name of the program.
        sms: SMs, or threads.
        kind: Kind of device.
        model: Path of the pretrained model; None to learn from nothing.
        trials: Most candidates.
        seed: Of the search.
    """

    name: str
    program: str
    sms: int
    kind: str
    model: str | None
    trials: int
    seed: int


def main() -> None:
    args = parse()
    found = []
    for program in args.program or _USUAL:
        for name in (OURS, STOCK):
            search = Search(name, program, args.sms, args.runner, args.model, args.trials, args.seed)
            found.append({"program": program, "search": name, "batches": run(search, args.seconds)})
            args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--model", help="file that has not seen the programs (default: none)")
    parser.add_argument("--program", action="append", help="again for more (default: four)")
    parser.add_argument("--runner", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sms", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=33.0, help="that each search has")
    parser.add_argument("--trials", type=int, default=256, help="that each search has at most")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


def run(search: Search, limit_s: float) -> list[dict[str, Any]]:
    """What the batches of a search found until its time was up."""
    batches: list[dict[str, Any]] = []
    try:
        batches.extend(messages(tune, search, limit_s=limit_s))
    except ProcessFailedError as error:
        print(f"{search.program}, {search.name}: {error}", file=sys.stderr, flush=True)
    return [without_traces(batch) for batch in batches]


def without_traces(batch: dict[str, Any]) -> dict[str, Any]:
    kept = [{key: step[key] for key in ("elapsed_s", "trial", "run_s")} for step in batch["improvements"]]
    return {**batch, "improvements": kept}


def tune(send: Callable[[Any], None], search: Search) -> None:
    """Tune, and send what each batch found; importing TVM and making the program are off the clock."""
    from programs import PROGRAMS
    from tvm.s_tir import meta_schedule as ms

    from costmodel.integrations import tvm as ours
    from costmodel.kernels.metaschedule import make_target, register_tensor_intrinsics

    register_tensor_intrinsics()  # as TuneContext would, but quickly
    module, threads = PROGRAMS[search.program](), len(os.sched_getaffinity(0))
    rules = "cuda" if search.kind == "cuda" else "llvm"
    log = Log(send)
    runner = ours.Runner(search.sms, kind=search.kind, build_workers=1)
    model: dict[str, Any] = {
        "cost_model": ms.cost_model.XGBModel(num_warmup_samples=EARLY_WARM_UP, num_tuning_cores=threads),
        "strategy": ms.search_strategy.EvolutionarySearch(population_size=512, genetic_num_iters=4),
    }
    if search.name == OURS:
        model = {
            "cost_model": ours.CostModel(search.model, platform=runner.platform),
            "strategy": ours.SearchStrategy(search.model, platform=runner.platform, seed=search.seed),
        }
    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            module,
            make_target(search.kind),
            folder,
            search.trials,
            space=ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules),
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), log.callback()],
            builder=ours.Builder(max_workers=threads, timeout_s=BUILD_TIMEOUT_S),
            runner=runner,
            num_trials_per_iter=BATCH,
            num_tuning_cores=threads,
            seed=search.seed,
            **model,
        )


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: what each search found, and when ours was as fast as stock's last kernel."""
    lines = [
        "| program | stock: us | after s | trials | costmodel: us | trials | as fast after s | time cut by |",
        "| --- |" + " ---: |" * 7,
    ]
    by_program: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for one in found:
        by_program.setdefault(one["program"], {})[one["search"]] = one["batches"]
    for program, searches in by_program.items():
        stock, ours = improvements(searches[STOCK]), improvements(searches[OURS])
        if not stock or not ours:
            lines.append(f"| {program} | nothing was found |" + " |" * 6)
            continue
        after_s = stock[-1]["elapsed_s"]
        reached = next((s["elapsed_s"] for s in ours if s["run_s"] <= stock[-1]["run_s"]), None)
        when, cut = ("never", "") if reached is None else (f"{reached:.0f}", f"{1 - reached / after_s:.0%}")
        trials = {name: batches[-1]["measured"] for name, batches in searches.items()}
        lines.append(
            f"| {program} | {1e6 * stock[-1]['run_s']:.1f} | {after_s:.0f} | {trials[STOCK]} | "
            f"{1e6 * ours[-1]['run_s']:.1f} | {trials[OURS]} | {when} | {cut} |"
        )
    return "\n".join(lines)


def improvements(batches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for batch in batches for step in batch["improvements"]]


if __name__ == "__main__":
    main()
