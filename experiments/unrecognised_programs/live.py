"""Live search for kernels of unrecognised programs beside TVM's stock tuner. See README.md here."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.files import write_json

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "live_search")]
from kit.results import markdown_table
from limited import ProcessFailedError, messages
from searches import BATCH, BUILD_TIMEOUT_S, EARLY_WARM_UP, Log

OURS, STOCK = "costmodel", "stock, early model"
_USUAL = ("dense_tanh_gelu", "conv2d_bias_relu", "layer_norm")


@dataclass(frozen=True)
class Plan:
    """Searches to make, both for each program, one after the other.

    Attributes:
        programs: Names of the programs.
        sms: SMs, or threads.
        kind: Kind of device.
        model: Path of the pretrained model; None to learn from nothing.
        seconds: That each search has; the batch in flight is measured all the same.
        trials: Most candidates.
        seed: Of the searches.
    """

    programs: tuple[str, ...]
    sms: int
    kind: str
    model: str | None
    seconds: float
    trials: int
    seed: int


class TimeUpError(Exception):
    """A search has had its time."""


def main() -> None:
    args = parse()
    programs = tuple(args.program or _USUAL)
    plan = Plan(programs, args.sms, args.runner, args.model, args.seconds, args.trials, args.seed)
    found = {key: [] for key in ((program, name) for program in programs for name in (OURS, STOCK))}
    try:
        for program, name, batch in messages(search_all, plan, limit_s=args.time_limit):
            found[program, name].append(without_traces(batch))
            write_json(args.json, rows(found))
    except ProcessFailedError as error:
        print(error, file=sys.stderr, flush=True)
    print(table(rows(found)))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--model", help="file that has not seen the programs (default: none)")
    parser.add_argument("--program", action="append", help="again for more (default: three)")
    parser.add_argument("--runner", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--sms", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0, help="that each search has")
    parser.add_argument("--time-limit", type=float, default=385.0, help="for all searches, opening left out")
    parser.add_argument("--trials", type=int, default=512, help="that each search has at most")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


def rows(found: dict[tuple[str, str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What was found, as the file has it."""
    return [
        {"program": program, "search": name, "batches": batches} for (program, name), batches in found.items()
    ]


def without_traces(batch: dict[str, Any]) -> dict[str, Any]:
    kept = [{key: step[key] for key in ("elapsed_s", "trial", "run_s")} for step in batch["improvements"]]
    return {**batch, "improvements": kept}


def search_all(send: Callable[[Any], None], plan: Plan) -> None:
    """Make the searches, and send program, search and what was found after each batch.

    All share the device and the build processes, which are open before the first begins. On the clock of each
    is the rest: TVM's rules, the space, the model's first choice or the evolution, builds and measurements.
    """
    from programs import PROGRAMS
    from tvm.s_tir import meta_schedule as ms

    from costmodel.integrations import tvm as ours
    from costmodel.kernels import make_target
    from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics

    threads, target = len(os.sched_getaffinity(0)), make_target(plan.kind)
    modules = {program: PROGRAMS[program]() for program in plan.programs}
    builder = ours.Builder(max_workers=threads, timeout_s=BUILD_TIMEOUT_S)
    # What is not scheduled may not compile for a GPU, but its outcomes come from processes that are open.
    some = [ms.builder.BuilderInput(modules[plan.programs[0]], target)] * (2 * threads)
    with ThreadPoolExecutor(1) as opening:
        built = opening.submit(builder.build, some)
        register_tensor_intrinsics()  # as TuneContext would, but quickly
        runner = ours.Runner(plan.sms, kind=plan.kind, build_workers=1)
        built.result()
    for program, module in modules.items():
        for name, parts in ((OURS, ours_parts), (STOCK, stock_parts)):
            log = Log(partial(_send_until, send, program, name, plan.seconds))
            try:
                tune(module, target, plan, log, builder, runner, parts(ms, plan, runner, threads))
            except Exception as error:  # noqa: BLE001 (TVM passes on what a callback raises as it likes)
                if "TimeUpError" not in f"{type(error).__name__}: {error}":
                    print(f"{program}, {name}: {error}", file=sys.stderr, flush=True)


def _send_until(
    send: Callable[[Any], None], program: str, name: str, seconds: float, batch: dict[str, Any]
) -> None:
    send((program, name, batch))
    if batch["elapsed_s"] > seconds:
        raise TimeUpError("TimeUpError")


def ours_parts(ms: Any, plan: Plan, runner: Any, threads: int) -> dict[str, Any]:
    from costmodel.integrations import tvm as ours

    return {
        "cost_model": ours.CostModel(plan.model, platform=runner.platform),
        "strategy": ours.SearchStrategy(plan.model, platform=runner.platform, seed=plan.seed),
    }


def stock_parts(ms: Any, plan: Plan, runner: Any, threads: int) -> dict[str, Any]:
    return {
        "cost_model": ms.cost_model.XGBModel(num_warmup_samples=EARLY_WARM_UP, num_tuning_cores=threads),
        "strategy": ms.search_strategy.EvolutionarySearch(population_size=512, genetic_num_iters=4),
    }


def tune(  # noqa: PLR0913, PLR0917 (what both searches share, and what differs)
    module: Any, target: Any, plan: Plan, log: Log, builder: Any, runner: Any, parts: dict[str, Any]
) -> None:
    """One search, until the log raises."""
    from tvm.s_tir import meta_schedule as ms

    rules = "cuda" if plan.kind == "cuda" else "llvm"
    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            module,
            target,
            folder,
            plan.trials,
            space=ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules),
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), log.callback()],
            builder=builder,
            runner=runner,
            num_trials_per_iter=BATCH,
            num_tuning_cores=len(os.sched_getaffinity(0)),
            seed=plan.seed,
            **parts,
        )


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: what each search found, and when ours was as fast as stock's last kernel."""
    header = ["program", "stock: us", "after s", "trials", "costmodel: us", "trials", "as fast after s"]
    lines: list[tuple[Any, ...]] = []
    by_program: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for one in found:
        by_program.setdefault(one["program"], {})[one["search"]] = one["batches"]
    for program, searches in by_program.items():
        stock, ours = improvements(searches[STOCK]), improvements(searches[OURS])
        if not stock or not ours:
            lines.append((program, "nothing was found", *[""] * 6))
            continue
        after_s = stock[-1]["elapsed_s"]
        reached = next((s["elapsed_s"] for s in ours if s["run_s"] <= stock[-1]["run_s"]), None)
        when, cut = ("never", "") if reached is None else (f"{reached:.0f}", f"{1 - reached / after_s:.0%}")
        trials = {name: batches[-1]["measured"] for name, batches in searches.items()}
        theirs = (f"{1e6 * stock[-1]['run_s']:.1f}", f"{after_s:.0f}", trials[STOCK])
        lines.append((program, *theirs, f"{1e6 * ours[-1]['run_s']:.1f}", trials[OURS], when, cut))
    return markdown_table([*header, "time cut by"], lines)


def improvements(batches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for batch in batches for step in batch["improvements"]]


if __name__ == "__main__":
    main()
