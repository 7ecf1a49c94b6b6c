"""Whether a network that is tuned for a part of the device runs faster there: see README.md here."""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from device_parts import PARTS
from running import AGAIN, load, run_side_by_side
from transformer_block import Block
from tuning import tune
from tuning_tasks import Tasks
from tuning_ways import Phase, Settings, plug_in_phase, stock_phase

from costmodel.files import write_json
from costmodel.kernels import make_target
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from options import parse_options

TUNED = ("matmul", "softmax", "layer_norm")
MOST_ERROR = 1e-3  # of outputs of order 1; sums of 2,048 products in float32 stay well below


def main() -> None:
    """Tune in each way, then run side by side what was found."""
    args = parse()
    end = time.monotonic() + args.time_limit
    os.environ["TVM_NUM_THREADS"] = str(args.threads)  # with which stock's processes measure on a CPU
    register_tensor_intrinsics()  # as TuneContext would, but quickly
    parts, target = PARTS[args.runner](), make_target(args.runner)
    block = Block(args.tokens, args.size, args.heads)
    tasks = Tasks(block.module(), target, args.tune or TUNED)
    say(str(tasks))
    phases = make_phases(args.sms, parts.whole)
    if args.only:
        tune_all([phase for phase in phases if phase.name == args.only], tasks, args, end)
        return
    report = {"tasks": tasks.rows, "phases": tune_all(phases, tasks, args, end)}
    databases = {phase.name: phase.database(folder_of(args) / phase.name) for phase in phases}
    inputs = block.inputs()
    launches = load(databases, tasks.network, target, parts.device, list(inputs.values()))
    budgets = {"part": args.sms, "whole": parts.whole}
    report |= run_side_by_side(launches, block.reference(inputs), parts, budgets, args.visits)
    write_json(args.json, report)
    print(f"{tasks}\n\n{table(report)}\n\n{summary(report['latency_s'])}")
    check(report["largest_error"])


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json",
        type=Path,
        required=True,
        metavar="FILE",
        help="where results go; databases go into the folder of that name, and a run goes on with them",
    )
    parser.add_argument("--runner", choices=PARTS)
    parser.add_argument("--time-limit", type=float, help="s after which tuning is cut short")
    parser.add_argument("--trials", type=int, help="of each task, in each way of tuning")
    parser.add_argument(
        "--tune",
        action="append",
        metavar="NAME",
        help="in a kernel's name; again for more (default: those that compute)",
    )
    parser.add_argument("--batch", type=int, help="trials that stock builds and measures at once")
    parser.add_argument("--population", type=int, help="of stock's evolution")
    parser.add_argument("--generations", type=int, help="of stock's evolution")
    parser.add_argument("--model", type=Path, help="of `costmodel train` (default: learn from nothing)")
    parser.add_argument(
        "--keep-builders", action="store_true", help="give stock a builder whose processes stay"
    )
    parser.add_argument(
        "--only",
        choices=[phase.name for phase in make_phases(1, 2)],
        help="tune in this way and stop: several may run at once, on a GPU each; a run without it goes on",
    )
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cores, help="of stock: XGBoost and builds")
    parser.add_argument("--sms", type=int, help="of the part; threads on a CPU")
    parser.add_argument("--tokens", type=int, help="of the sequence")
    parser.add_argument("--size", type=int, help="of the hidden states")
    parser.add_argument("--heads", type=int, help="of attention")
    parser.add_argument("--visits", type=int, help="repeats of each network on each part")
    return parse_options(parser, __file__, argv)


def make_phases(part: int, whole: int) -> list[Phase]:
    """The ways of tuning."""
    return [
        stock_phase("stock-whole", whole),
        plug_in_phase("ours-part", part),
        plug_in_phase("ours-whole", whole),
    ]


def folder_of(args: argparse.Namespace) -> Path:
    """Where databases are kept."""
    return Path(args.json.with_suffix(""))


def tune_all(
    phases: Sequence[Phase], tasks: Tasks, args: argparse.Namespace, end: float
) -> dict[str, dict[str, Any]]:
    """What each way of tuning tried; each gets an equal share of the time that is left."""
    settings = Settings(
        kind=args.runner,
        trials=args.trials,
        batch=min(args.batch, args.trials),
        population=args.population,
        generations=args.generations,
        threads=args.threads,
        model=args.model,
        keep_builders=args.keep_builders,
    )
    found = {}
    for i, phase in enumerate(phases):
        now = time.monotonic()
        share = now + (end - now) / (len(phases) - i)
        found[phase.name] = tune(phase, tasks, settings, folder_of(args), share)
        say(f"{phase.name}: {found[phase.name]}")
    return found


def table(report: Mapping[str, Any]) -> str:
    """Markdown: a row for each way of tuning."""
    granted = report["granted"]
    lines = [
        f"| tuned | trials | failed | tuning, s | at {granted['part']} SMs, us "
        f"| at {granted['whole']} SMs, us | largest error |",
        "| --- |" + " ---: |" * 6,
    ]
    for name, latency_s in report["latency_s"].items():
        phase = report["phases"].get(name)
        tuning = (
            f"{phase['trials']}{' (cut)' * phase['cut']} | {phase['failed']} | {phase['seconds']:.0f}"
            if phase
            else " | |"
        )
        lines.append(
            f"| {name} | {tuning} | {latency_s['part'] * 1e6:.1f} | {latency_s['whole'] * 1e6:.1f} "
            f"| {report['largest_error'][name]:.0e} |"
        )
    return "\n".join(lines)


def summary(latency_s: Mapping[str, Mapping[str, float]]) -> str:
    """Ours against stock where each was tuned for, and the noise."""
    stock, part, whole = (latency_s[name] for name in ("stock-whole", "ours-part", "ours-whole"))
    noise = max(abs(latency_s["ours-whole" + AGAIN][on] / whole[on] - 1.0) for on in whole)
    return (
        f"Ours / stock: {part['part'] / stock['part']:.3f} on the part, "
        f"{whole['whole'] / stock['whole']:.3f} on the whole device. "
        f"On the part, tuned for it / for the whole device: {part['part'] / whole['part']:.3f}. "
        f"A/A: within {noise:.1%}."
    )


def check(largest_error: Mapping[str, float]) -> None:
    """Exit where the outputs of a network are wrong."""
    wrong = [name for name, error in largest_error.items() if not error <= MOST_ERROR]
    if wrong:
        sys.exit(f"Outputs must be within {MOST_ERROR} of NumPy's, but those of {', '.join(wrong)} are not.")


if __name__ == "__main__":
    main()
