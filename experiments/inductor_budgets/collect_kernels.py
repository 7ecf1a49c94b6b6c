"""Times block sizes of networks' elementwise and reduction kernels on parts of a GPU: see README.md.

``--shard I/N`` takes every N-th network. Rows go to ``OUT/kernels-I.jsonl`` as they are found.
"""

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.append(str(Path(__file__).parent))
from blocks import AHEAD, Candidate, candidates_of, compile_all, load_kernel
from networks import JUDGED, MORE, Network
from run import shared_assembler
from sweep import GpuTimer, Run

SMS = (8, 16, 32, 64, 96, 132)
KINDS = ("pointwise", "reduction", "persistent_reduction")
AGAIN = 4  # candidates that are timed twice: the best
WORKERS = 12  # that compile candidates, of 16 cores a GPU
CHUNK = 5  # candidates that a worker compiles at once
TOLERANCE = 0.02


class Step(NamedTuple):
    """A way to compile a network.

    Attributes:
        network: Its name.
        training: Whether its gradients are computed too.
        persistent: Whether reductions may keep a row in registers, as Inductor likes.
    """

    network: str
    training: bool = False
    persistent: bool = True


class Found(NamedTuple):
    """A kernel that was run while a network was compiled.

    Attributes:
        step: Where.
        path: File with its source.
        arguments: It was called with these: copies.
    """

    step: Step
    path: Path
    arguments: list[Any]


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    end = time.monotonic() + args.seconds
    args.out.mkdir(parents=True, exist_ok=True)
    shard = args.shard.split("/")[0]
    caches = args.out / f"caches-{shard}"
    os.environ |= shared_assembler() | {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "TORCHINDUCTOR_COMPILE_THREADS": "4",
    }
    rows = args.out / f"kernels-{shard}.jsonl"
    with ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
        try:
            collect(args, rows, pool, end)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for each in list((getattr(pool, "_processes", None) or {}).values()):
                each.terminate()
    print(summary(args.out))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for results")
    parser.add_argument("--seconds", type=float, default=200.0, help="time limit")
    parser.add_argument("--shard", default="0/1", metavar="I/N")
    parser.add_argument("--skip", type=int, default=0, help="networks of the list, whose kernels are known")
    parser.add_argument("--most", type=int, help="networks of the shard")
    parser.add_argument("--candidates", type=int, default=40, help="of a kernel, at most")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes that compile")
    return parser.parse_args(argv)


def steps(args: argparse.Namespace) -> list[Step]:
    """What is compiled, the judged networks first: as they are, with looped reductions, their gradients."""
    judged = [
        each
        for name in JUDGED
        for each in (Step(name), Step(name, persistent=False), Step(name, training=True))
    ]
    by_way = sorted(judged, key=lambda each: (each.training, not each.persistent))
    shard, shards = map(int, args.shard.split("/"))
    return [*by_way, *map(Step, MORE)][args.skip :][shard::shards][: args.most]


def collect(args: argparse.Namespace, rows: Path, pool: ProcessPoolExecutor, end: float) -> None:
    """Compile networks; time the kernels of each once their candidates are compiled."""
    timer, seen = GpuTimer(SMS), set[str]()
    waiting: deque[tuple[Found, list[Candidate], list[Future[Any]]]] = deque()
    for step in steps(args):
        if time.monotonic() > end - 20:
            break
        try:
            found = list(harvest(step, seen))
        except Exception as error:  # noqa: BLE001 (told, and the next network follows)
            print(f"{step}: {type(error).__name__}: {error}"[:300], flush=True)
            continue
        for each in found:
            candidates = candidates_of(each.path, args.candidates)
            chunks = [candidates[i : i + CHUNK] for i in range(0, len(candidates), CHUNK)]
            waiting.append((each, candidates, [pool.submit(compile_all, each.path, c) for c in chunks]))
        while waiting and time.monotonic() < end and all(job.done() for job in waiting[0][2]):
            time_next(waiting, timer, rows)
    while waiting and time.monotonic() < end:
        wait(waiting[0][2], timeout=max(0.0, end - time.monotonic()))
        time_next(waiting, timer, rows)


def time_next(waiting: deque[Any], timer: GpuTimer, rows: Path) -> None:
    found, candidates, jobs = waiting.popleft()
    if not all(job.done() for job in jobs):
        return
    try:
        made = row(found, candidates, timer)
    except Exception as error:  # noqa: BLE001 (told, and the next kernel follows)
        timer.wait()
        print(f"{found.path}: {type(error).__name__}: {error}"[:300], flush=True)
        return
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps(made, default=str) + "\n")


def harvest(step: Step, seen: set[str]) -> Iterator[Found]:
    """Compile a network and yield kernels that were not seen before."""
    from torch._inductor import config

    network = (JUDGED | MORE)[step.network]
    torch._dynamo.reset()
    names = {"autotune_local_cache": False, "triton.persistent_reductions": step.persistent}
    with config.patch(names), runs_recorded() as runs:
        run(network, training=step.training)
        torch.cuda.synchronize()
    for path, arguments in runs.items():
        source = path.read_text(encoding="utf-8")
        # The name tells a kernel's place in its graph.
        plain = source.replace(load_kernel(path).fn.__name__, "kernel") + str(
            [_described(x) for x in arguments]
        )
        if plain not in seen and all(isinstance(each, (int, torch.Tensor)) for each in arguments):
            seen.add(plain)
            yield Found(step, path, arguments)


def run(network: Network, *, training: bool) -> None:
    module, inputs = network.module("cuda"), network.inputs("cuda")
    compiled = torch.compile(module, dynamic=False)
    if not training:
        with torch.no_grad():
            compiled(*inputs)
        return
    module.requires_grad_(True)
    compiled(*inputs).float().square().mean().backward()


@contextmanager
def runs_recorded() -> Iterator[dict[Path, list[Any]]]:
    """Yield what becomes the arguments of each kernel's first run, by the file with its source."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    runs: dict[Path, list[Any]] = {}
    usual = CachingAutotuner.run

    def recorded(self: Any, *arguments: Any, **others: Any) -> Any:
        path = Path(self.filename or "")
        if self.heuristic_type.name.lower() in KINDS and path not in runs and path.exists():
            runs[path] = [_copied(each) for each in arguments]
        return usual(self, *arguments, **others)

    CachingAutotuner.run = recorded
    try:
        yield runs
    finally:
        CachingAutotuner.run = usual


def _copied(argument: Any) -> Any:
    """A tensor with the same bytes and strides, in memory of its own."""
    if not isinstance(argument, torch.Tensor):
        return argument
    made = torch.empty_strided(argument.size(), argument.stride(), dtype=argument.dtype, device="cuda")
    return made.copy_(argument)


def _described(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        return [str(argument.dtype), list(argument.shape), list(argument.stride())]
    return argument


def row(found: Found, candidates: Sequence[Candidate], timer: GpuTimer) -> dict[str, Any]:
    """Time candidates on all parts, and compare what each writes with what Inductor's first writes."""
    start = time.monotonic()
    kernel, runs, facts = load_kernel(found.path), {}, {}
    writes = [i for i, name in enumerate(kernel.fn.arg_names) if "out_ptr" in name]
    writes = [i for i in writes if i < len(found.arguments) and isinstance(found.arguments[i], torch.Tensor)]
    before = {i: found.arguments[i].clone() for i in writes}
    expected: dict[int, torch.Tensor] = {}
    for place, candidate in enumerate(candidates):
        try:
            launcher = kernel._precompile_config(candidate.triton()).make_launcher()
            runs[place] = _launch(launcher, found.arguments)
            for i in writes:
                found.arguments[i].copy_(before[i])
            runs[place]()
            torch.cuda.synchronize()
            made = {i: found.arguments[i].float() for i in writes}
            expected = expected or made
            facts[place] = {
                "registers": launcher.n_regs,
                "spills": launcher.n_spills,
                "shared": launcher.shared,
                "agrees": all(_alike(made[i], expected[i]) for i in writes),
            }
        except Exception as error:  # noqa: BLE001 (whatever a candidate fails with is its outcome)
            timer.wait()
            facts[place] = {"error": f"{type(error).__name__}: {error}"[:80]}
            runs.pop(place, None)
    warm = {sms: _on_part(timer, sms, runs) for sms in timer.granted}
    return {
        **found.step._asdict(),
        "name": kernel.fn.__name__,
        "kind": kernel.heuristic_type.name.lower(),
        "size_hints": kernel.size_hints,
        "arguments": [_described(each) for each in found.arguments],
        "source": found.path.read_text(encoding="utf-8"),
        "device": torch.cuda.get_device_name(),
        "seconds": round(time.monotonic() - start, 2),
        "candidates": [
            {
                **candidate._asdict(),
                **facts[place],
                "warm_s": {sms: times[place] for sms, times in warm.items() if place in times},
            }
            for place, candidate in enumerate(candidates)
        ],
    }


def _launch(launcher: Any, arguments: Sequence[Any]) -> Run:
    return lambda: launcher(*arguments, stream=torch.cuda.current_stream().cuda_stream)


def _on_part(timer: GpuTimer, sms: int, runs: dict[int, Run]) -> dict[int, list[float]]:
    with timer.enter(sms):
        times = {place: timer.time(run) for place, run in runs.items()}
        for place in sorted(times, key=lambda each: min(times[each]))[:AGAIN]:
            times[place] = times[place] + timer.time(runs[place])
    return {place: [float(f"{each:.4g}") for each in found] for place, found in times.items()}


def _alike(made: torch.Tensor, expected: torch.Tensor) -> bool:
    made, expected = made.nan_to_num(), expected.nan_to_num()
    return bool((made - expected).norm() <= TOLERANCE * expected.norm() + 1e-6)


def summary(out: Path) -> str:
    """Kernels by kind, and what Inductor's first config costs on few SMs."""
    counts: dict[str, int] = {}
    losses: dict[str, list[float]] = {}
    wrong = failed = 0
    for path in sorted(out.glob("kernels-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            counts[found["kind"]] = counts.get(found["kind"], 0) + 1
            known = [each for each in found["candidates"] if "error" not in each]
            failed += len(found["candidates"]) - len(known)
            wrong += sum(not each["agrees"] for each in known)
            for sms in map(str, SMS):
                first = [min(each["warm_s"][sms]) for each in known if each["origin"] == AHEAD]
                if first:
                    best = min(min(each["warm_s"][sms]) for each in known)
                    losses.setdefault(sms, []).append(first[0] / best)
    shown = ", ".join(f"{sms}: {sorted(each)[len(each) // 2]:.3f}" for sms, each in losses.items())
    return f"{counts}, {failed} candidates failed, {wrong} wrong\nInductor's first / best: {shown}"


if __name__ == "__main__":
    main()
