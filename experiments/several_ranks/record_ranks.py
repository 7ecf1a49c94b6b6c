"""Traces steps of several ranks, with what they take without a profiler: see README.md.

Runs on one host with two or more GPUs and PyTorch, without a network, or on a CPU as a rehearsal.
"""

import argparse
import gc
import json
import os
import socket
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function

sys.path.append(str(Path(__file__).parents[1] / "real_traces"))
from record import about, slim

RUNS = 20
Step = Callable[[], None]


@dataclass(frozen=True)
class Variant:
    """What ranks do together.

    Attributes:
        network: ``data-parallel`` (training, gradients summed in buckets), ``tensor-parallel`` (inference,
            activations summed after each layer) or ``attention-parallel`` (the same, heads of attention too).
        name: What is changed.
        half: bfloat16 instead of float32.
        bucket_mb: Size of buckets of gradients.
        channels: Most thread blocks of a collective, which is what it takes of the SMs; 0: NCCL's choice.
        late_rank: Rank that works for longer, by one more layer; -1: none.
        tokens: Rows of each rank's input.
        sms: SMs for all but collectives; 0: all. The driver grants multiples of 8.
    """

    network: str
    name: str = "plain"
    half: bool = False
    bucket_mb: float = 25.0
    channels: int = 0
    late_rank: int = -1
    tokens: int = 2048
    sms: int = 0


VARIANTS = [
    Variant("data-parallel"),
    Variant("data-parallel", "half", half=True),
    Variant("data-parallel", "buckets", bucket_mb=5.0),
    Variant("data-parallel", "late", late_rank=1),
    Variant("data-parallel", "channels", channels=2),
    Variant("data-parallel", "channels8", channels=8),
    Variant("data-parallel", "channels16", channels=16),
    Variant("data-parallel", "sms112", sms=112),
    Variant("data-parallel", "again"),
    Variant("tensor-parallel"),
    Variant("tensor-parallel", "half", half=True),
    Variant("tensor-parallel", "late", late_rank=1),
    Variant("tensor-parallel", "channels", channels=2),
    Variant("tensor-parallel", "channels8", channels=8),
    Variant("tensor-parallel", "channels16", channels=16),
    Variant("tensor-parallel", "sms112", sms=112),
    Variant("tensor-parallel", "again"),
    Variant("tensor-parallel", "long", tokens=4096),
    Variant("attention-parallel"),
    Variant("attention-parallel", "half", half=True),
    Variant("attention-parallel", "channels8", channels=8),
    Variant("attention-parallel", "channels16", channels=16),
]


class Layer(nn.Module):
    """Two products with an activation between; if tensor-parallel, each rank has a part of the width."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width // parts)
        self.down = nn.Linear(4 * width // parts, width)
        self.parts = parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(nn.functional.gelu(self.up(x)))
        if self.parts > 1:
            dist.all_reduce(y)
        return nn.functional.layer_norm(x + y, x.shape[-1:])


class Attention(nn.Module):
    """Attention of sequences of 512 tokens, of which each rank has a part of the heads."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.heads = max(width // 128 // parts, 1)
        self.inputs, self.output = nn.Linear(width, 3 * width // parts), nn.Linear(width // parts, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.inputs(x).unflatten(0, (-1, min(len(x), 512))).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = self.output(mixed.transpose(1, 2).flatten(2).flatten(0, 1))
        dist.all_reduce(y)
        return nn.functional.layer_norm(x + y, x.shape[-1:])


def built(network: str, width: int, layers: int) -> nn.Sequential:
    """A rank's part of a network."""
    world = dist.get_world_size()
    parts = 1 if network == "data-parallel" else world
    with_attention = network == "attention-parallel"
    kinds = (Attention, Layer) if with_attention else (Layer,)
    return nn.Sequential(*(kind(width, parts) for _ in range(layers) for kind in kinds))


def steps(variant: Variant, device: torch.device, width: int, layers: int) -> Step:
    """What a rank does in a step."""
    torch.manual_seed(0)
    rank, is_data = dist.get_rank(), variant.network == "data-parallel"
    dtype = torch.bfloat16 if variant.half else torch.float32
    network = built(variant.network, width, layers).to(device, dtype)
    alone = Layer(width, 1).to(device, dtype)
    tokens = variant.tokens if width > 64 else 16
    x = torch.randn(tokens, width, device=device, dtype=dtype)
    is_late = rank == variant.late_rank

    def infer() -> None:
        with torch.no_grad():
            network(alone(x) if is_late else x)

    if not is_data:
        return on_part(infer, variant.sms, device)
    model = DistributedDataParallel(
        network, device_ids=[device.index] if device.type == "cuda" else None, bucket_cap_mb=variant.bucket_mb
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        start = alone(x).detach() if is_late else x
        model(start).float().square().mean().backward()
        optimizer.step()

    return on_part(train, variant.sms, device)


def on_part(step: Step, sms: int, device: torch.device) -> Step:
    """The step with all but its collectives, which have streams of their own, on some of the SMs."""
    if not sms or device.type == "cpu":
        return step
    from torch.cuda.green_contexts import GreenContext

    part = GreenContext.create(num_sms=sms, device_id=device.index)  # gone with it, its stream would be too
    stream = part.Stream()

    def run() -> None:
        with torch.cuda.stream(stream):
            step()
        assert part is not None

    return run


def work(rank: int, args: argparse.Namespace, world: int, channels: int, port: int) -> None:
    """Be one of the ranks: time each variant, then trace each."""
    is_gpu = args.device == "cuda"
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if channels:
        os.environ |= {"NCCL_MAX_CTAS": str(channels), "NCCL_MIN_CTAS": "1"}
    device = torch.device("cuda", rank) if is_gpu else torch.device("cpu")
    if is_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if is_gpu else "gloo", rank=rank, world_size=world)
    gc.disable()
    width, layers = (2048, 6) if is_gpu else (64, 2)
    chosen = [each for each in args.variants if each.channels == channels]
    made = {each: steps(each, device, width, layers) for each in chosen}
    rows: list[dict[str, Any]] = [{**asdict(each), "world": world, "rank": rank} for each in made]
    for times in ("step_s", "again_s"):
        for row, step in zip(rows, made.values(), strict=True):
            row[times] = timed(step, device, args.runs)
    for row, (variant, step) in zip(rows, made.items(), strict=True):
        name = f"{world}/{variant.network}/{variant.name}/rank{rank}.json"
        row["traced_step_s"] = trace(step, device, args.out / name.replace("/", "~"))
        row["trace"] = name
    found = {"about": about(args.device), "rows": rows}
    (args.out / f"rows-{world}-{channels}-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def timed(step: Step, device: torch.device, runs: int) -> list[float]:
    """Seconds of each step, from a common start until this rank's GPU is done."""
    taken = []
    for _ in range(runs + 3):
        taken.append(once(step, device))
    return taken[3:]


def once(step: Step, device: torch.device) -> float:
    wait(device)
    dist.barrier()
    wait(device)
    start = time.perf_counter()
    step()
    wait(device)
    return time.perf_counter() - start


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def trace(step: Step, device: torch.device, path: Path) -> float:
    """Trace the second of two steps; seconds that it took."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    with profile(activities=activities, record_shapes=True) as recorded:
        once(step, device)
        wait(device)
        dist.barrier()
        wait(device)
        start = time.perf_counter()
        with record_function("iteration"):
            step()
            wait(device)
        taken = time.perf_counter() - start
    recorded.export_chrome_trace(str(path))
    return taken


def main() -> None:
    args = parse()
    args.out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + args.seconds
    for world in args.worlds:
        for channels in sorted({each.channels for each in args.variants}):
            if time.monotonic() > until:
                break
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            # Forked, as an import of PyTorch takes longer than what is timed: no GPU is touched here before.
            torch.multiprocessing.start_processes(
                work, (args, world, channels, port), nprocs=world, start_method="fork"
            )
            pack(args.out)
    for row in json.loads((args.out / "measurements.json").read_text())["rows"]:
        if row["rank"] == 0:
            shown = (row["world"], row["network"], row["name"])
            print(*shown, f"{1e3 * median(row['step_s']):.3f} ms, traced {1e3 * row['traced_step_s']:.3f} ms")


def pack(folder: Path) -> None:
    """Move what the ranks wrote into ``measurements.json`` and ``traces.zip``, and only then delete it."""
    file = folder / "measurements.json"
    parts = sorted(folder.glob("rows-*.json"))
    found = [json.loads(path.read_text()) for path in ([file] if file.exists() else []) + parts]
    rows = [row for each in found for row in each["rows"]]
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"about": found[-1]["about"], "rows": rows}, indent=1) + "\n")
    part.replace(file)
    traces = sorted(folder.glob("*~*.json"))
    with zipfile.ZipFile(folder / "traces.zip", "a", zipfile.ZIP_BZIP2) as archive:
        for path in traces:
            archive.writestr(path.name.replace("~", "/"), json.dumps(kept(json.loads(path.read_text()))))
    for path in (*parts, *traces):
        path.unlink()


def kept(found: dict[str, Any]) -> dict[str, Any]:
    """A trace without what nobody asks for, but with what it says of collectives and ranks."""
    of_collectives = dict(_of_collectives(found["traceEvents"]))
    slimmed = slim(found)
    for event in slimmed["traceEvents"]:
        args = of_collectives.get((event.get("name"), event.get("ts")))
        if args:
            event["args"] = {**event.get("args", {}), **args}
    return {**slimmed, "distributedInfo": found.get("distributedInfo", {})}


def _of_collectives(events: list[dict[str, Any]]) -> Iterator[tuple[tuple[Any, Any], dict[str, Any]]]:
    for event in events:
        args = event.get("args") or {}
        if "Collective name" in args or "Process Group Name" in args:
            named = {name: value for name, value in args.items() if name not in ("Input Strides", "stack")}
            yield (event.get("name"), event.get("ts")), named


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: tiny sizes")
    parser.add_argument("--worlds", type=int, nargs="+", default=[2, 4], metavar="RANKS")
    parser.add_argument("--runs", type=int, default=RUNS, help="timed runs of a variant")
    parser.add_argument("--seconds", type=float, default=150.0, help="start no further world after so long")
    names = sorted({each.name for each in VARIANTS})
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="variants")
    args = parser.parse_args()
    args.variants = [each for each in VARIANTS if each.name in args.only]
    return args


if __name__ == "__main__":
    main()
