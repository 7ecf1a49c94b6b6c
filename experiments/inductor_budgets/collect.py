"""Times all of Inductor's candidates for products of many networks on parts of a GPU: see README.md.

``--shard I/N`` takes every N-th product. Some processes compile; one times what is compiled, on the GPU by
itself. Rows go to ``OUT/products-I.jsonl`` as they are found; a product that is begun there, or ends or hangs
its process, is left out, and the rest goes on.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.append(str(Path(__file__).parent))
from networks import JUDGED, MORE
from products import Call, distinct_calls, scaled_calls
from run import shared_assembler
from sweep import CpuTimer, GpuTimer, Precompile, Sweep, describe

SMS = (8, 16, 32, 64, 96, 132)
COLD_ON, COLD_EVERY = (32, 132), 24  # parts on which every so-many-th product is timed with a cold L2 too
PROGRAMS = (16, 32)  # grids of a persistent kernel, beside that of the whole GPU
MOST_PERSISTENT = 4
SCALED_EVERY = 3  # of products by weights in bfloat16, one is measured in 8 bits too
SLOWEST_S = 90.0  # of a product; then its process is taken to hang
COMPILERS = 3  # processes that compile ahead of the one that times, each every so-many-th product
LATEST_S = 30.0  # that a product is waited for; then one that is not compiled is timed, which compiles it
THREADS = {"ahead": 4, "time": 4}  # that compile for each process, of 16 cores a GPU
PERSISTENT, PLAIN = "_tma", ("triton::mm", "triton::bmm")  # in, and as, ids of templates


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    end = time.monotonic() + args.seconds
    args.out.mkdir(parents=True, exist_ok=True)
    if args.role == "time":
        time_products(args, end)
    elif args.role == "ahead":
        compile_ahead(args, end)
    else:
        ahead = [_start("ahead", args, end, part) for part in range(COMPILERS)]
        try:
            while time.monotonic() < end and unbegun(args):
                _watch(_start("time", args, end), args.out, end)
        finally:
            for each in ahead:
                each.kill()
        print(summary(args.out))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for results")
    parser.add_argument("--seconds", type=float, default=420.0, help="time limit")
    parser.add_argument("--shard", default="0/1", metavar="I/N")
    parser.add_argument("--most", type=int, help="products of the shard")
    parser.add_argument("--candidates", type=int, default=40, help="of a product, at most")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="a CPU for a rehearsal")
    parser.add_argument("--role", choices=("time", "ahead"), help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def calls_of(args: argparse.Namespace) -> list[Call]:
    """The products of the shard: those of the judged networks first, the others in disorder, float32 last."""
    shard, shards = map(int, args.shard.split("/"))
    calls = distinct_calls(JUDGED.values())
    others = [each for each in distinct_calls(MORE.values()) if each not in calls]
    others += scaled_calls([*calls, *others])[::SCALED_EVERY]
    random.Random(0).shuffle(others)
    calls += others
    calls.sort(key=lambda call: call.dtype == "float32")  # which take long to compile
    if args.device == "cpu":  # where Inductor has several candidates for these alone
        calls = [each for each in calls if each.operator == "bmm" and each.dtype == "float32"]
    return calls[shard::shards][: args.most]


def rows_file(args: argparse.Namespace) -> Path:
    return args.out / f"products-{args.shard.split('/')[0]}.jsonl"


def begun(args: argparse.Namespace) -> set[str]:
    """Products that were begun, whether or not they ended well."""
    path = rows_file(args)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {json.loads(each)["begun"] for each in lines if each.startswith('{"begun"')}


def unbegun(args: argparse.Namespace) -> dict[str, Call]:
    """Products of the shard that were not begun, in order."""
    done = begun(args)
    return {_key(each): each for each in calls_of(args) if _key(each) not in done}


def compile_ahead(args: argparse.Namespace, end: float) -> None:
    """Compile all candidates of a part of the products, and tell of each product that it is compiled."""
    for key, call in list(unbegun(args).items())[args.part :: COMPILERS]:
        if time.monotonic() > end:
            break
        _try_to_compile(call, Precompile(), args)
        with _compiled_file(args, args.part).open("a", encoding="utf-8") as file:
            file.write(key + "\n")


def time_products(args: argparse.Namespace, end: float) -> None:
    """Time the candidates of one product after another."""
    places = GpuTimer(SMS) if args.device == "cuda" else CpuTimer()
    left = unbegun(args)
    for i in range(len(left)):
        key = next_compiled(args, left, end)
        if time.monotonic() > end:
            break
        call, sweep = left.pop(key), Sweep(places, COLD_ON if i % COLD_EVERY == 0 else ())
        _append(args, {"begun": key})
        start = time.monotonic()
        if _try_to_compile(call, sweep, args):
            _append(args, row(call, sweep, time.monotonic() - start))
        else:
            places.wait()


def next_compiled(args: argparse.Namespace, left: Collection[str], end: float) -> str:
    """Wait for a product that is compiled; return the first one if that takes long."""
    latest = min(end, time.monotonic() + LATEST_S)
    while time.monotonic() < latest:
        files = [_compiled_file(args, part) for part in range(COMPILERS)]
        compiled = {key for file in files if file.exists() for key in file.read_text("utf-8").splitlines()}
        for key in left:
            if key in compiled:
                return key
        time.sleep(0.1)
    return next(iter(left))


def _try_to_compile(call: Call, sweep: Sweep, args: argparse.Namespace) -> bool:
    """Compile a product; say that it fails if it does, as the next one follows."""
    try:
        compile_call(call, sweep, args.device, args.candidates)
    except Exception as error:  # noqa: BLE001 (whatever it fails with)
        print(f"{call.name}: {type(error).__name__}: {error}"[:300], flush=True)
        return False
    return True


def compile_call(call: Call, sweep: Sweep, device: str, most: int) -> None:
    """Compile a product with all candidates that Inductor or we can think of."""
    from torch._inductor import config

    names = {"max_autotune_gemm": True, "autotune_local_cache": False, "fx_graph_cache": False}
    if device == "cuda":
        names |= {"triton.enable_persistent_tma_matmul": True, "shape_padding": False}
    function, sweep.product = call.function, call.product
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(names), sweep.installed(), all_candidates(sweep, most):
        compiled = torch.compile(lambda *x: function(*x), dynamic=False)  # noqa: PLW0108 (Dynamo traces no C)
        compiled(*call.inputs(device))


def compiles_soon(choice: Any, dtype: str) -> bool:
    """Whether a kernel is made in seconds: large blocks on CUDA cores take a minute, and are slow."""
    options = choice.params.to_kwargs()
    if dtype != "float32" or "BLOCK_M" not in options:
        return True
    sums = options["BLOCK_M"] * options["BLOCK_N"] / (32 * options["num_warps"])
    return bool(sums <= 64 and options["BLOCK_K"] <= 64)


@contextmanager
def all_candidates(sweep: Sweep, most: int) -> Iterator[None]:
    """Let Inductor see more configs of its templates, and persistent kernels with fewer programs.

    Args:
        sweep: Is told the product.
        most: Candidates; of more, Triton's are drawn at random.
    """
    from torch._inductor.choices import InductorChoices
    from torch._inductor.virtualized import V

    from costmodel.integrations.inductor._candidates import more_choices, with_options
    from costmodel.integrations.inductor._describe import read_product

    class All(InductorChoices):
        def _finalize_template_configs(
            self, candidates: Any, inputs: Any, templates: Any, operator: str, overrides: Any = None
        ) -> Any:
            choices = super()._finalize_template_configs(candidates, inputs, templates, operator, overrides)
            sweep.product = product = sweep.product or read_product(inputs, operator)
            if product is None:
                return choices
            plain = [each for each in choices if PERSISTENT not in each.template.uid]
            plain += more_choices(plain, product.m, product.n, product.k)
            persistent = [each for each in choices if PERSISTENT in each.template.uid]
            persistent = random.Random(most).sample(persistent, min(MOST_PERSISTENT, len(persistent)))
            fewer = [
                with_options(each, {"NUM_SMS": programs}) for each in persistent[:1] for programs in PROGRAMS
            ]
            made = [each for each in (*plain, *persistent, *fewer) if compiles_soon(each, product.dtype)]
            return drawn(made, most)

    with V.set_choices_handler(All()):
        yield


def drawn(choices: Sequence[Any], most: int) -> list[Any]:
    """Leave some of Triton's plain kernels at random where there are too many; all else stays, in order."""
    plain = [i for i, each in enumerate(choices) if each.template.uid in PLAIN]
    left_out = random.Random(len(choices)).sample(plain, min(len(plain), max(0, len(choices) - most)))
    return [each for i, each in enumerate(choices) if i not in left_out]


def row(call: Call, sweep: Sweep, seconds: float) -> dict[str, Any]:
    """What was found of a product."""
    return {
        "call": call._asdict(),
        "product": {} if sweep.product is None else sweep.product._asdict(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "seconds": round(seconds, 2),
        "candidates": [describe(each) for each in sweep.found],
    }


def _key(call: Call) -> str:
    return f"{call.name}-{call.strides}"


def _append(args: argparse.Namespace, value: dict[str, Any]) -> None:
    with rows_file(args).open("a", encoding="utf-8") as file:
        file.write(json.dumps(value, default=float) + "\n")


def _compiled_file(args: argparse.Namespace, part: int) -> Path:
    return _caches(args) / f"compiled-{part}.txt"


def _caches(args: argparse.Namespace) -> Path:
    folder: Path = args.out / f"caches-{args.shard.split('/')[0]}"
    folder.mkdir(exist_ok=True)
    return folder


def _start(role: str, args: argparse.Namespace, end: float, part: int = 0) -> "subprocess.Popen[bytes]":
    shard, caches = args.shard.split("/")[0], _caches(args)
    environment = os.environ | shared_assembler()
    environment |= {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "TORCHINDUCTOR_COMPILE_THREADS": str(THREADS[role]),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    most = [] if args.most is None else ["--most", str(args.most)]
    left = max(1.0, end - time.monotonic())
    given = ["--out", str(args.out), "--shard", args.shard, "--device", args.device, *most]
    given += ["--candidates", str(args.candidates), "--role", role, "--part", str(part)]
    command = [sys.executable, __file__, *given, "--seconds", f"{left:.0f}"]
    log = (args.out / f"{role}-{shard}.log").open("ab")
    return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def _watch(process: "subprocess.Popen[bytes]", out: Path, end: float) -> None:
    """Wait for a process; end it where it hangs, or when the time is over."""
    size, changed = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(0.5)
        now, sizes = time.monotonic(), sum(each.stat().st_size for each in out.glob("*.jsonl"))
        if sizes != size:
            size, changed = sizes, now
        if now > end or now - changed > SLOWEST_S:
            process.kill()
            process.wait()


def summary(out: Path) -> str:
    """A short table: products, candidates, and what choosing on the whole GPU costs on each part."""
    losses: dict[int, list[float]] = {}
    products = candidates = failed = 0
    for path in sorted(out.glob("products-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            if "candidates" not in found:
                continue
            products += 1
            candidates += len(found["candidates"])
            failed += sum(bool(each["error"]) for each in found["candidates"])
            times = [
                {int(sms): min(each) for sms, each in one["warm_s"].items() if each}
                for one in found["candidates"]
                if not one["error"]
            ]
            whole = min((each for each in times if each), key=lambda each: each[max(each)], default={})
            for sms, latency in whole.items():
                losses.setdefault(sms, []).append(latency / min(each[sms] for each in times if sms in each))
    lines = [f"{products} products, {candidates} candidates, {failed} failed"]
    for sms, ratios in sorted(losses.items()):
        loss = f"median {median(ratios):.2f}, worst {max(ratios):.2f}"
        lines.append(f"{sms:4d} SMs: choice of the whole GPU / best: {loss}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
