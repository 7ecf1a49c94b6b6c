"""Other ways into the plug-in, live: ``install``, training, PyTorch's CUDA graphs, MPS, beside NCCL; 8 bits.

Each is tried in a process of its own on one block of BERT (of LLaMA in 8 bits), checked against PyTorch
eager, and timed beside what PyTorch compiles by itself; results go to ``OUT/doors.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from graphs import GpuGraphs
from networks import bert
from run import shared_assembler
from torch.nn import functional

from costmodel.collector.runners._mps import MpsDaemon
from costmodel.files import write_json
from costmodel.integrations.inductor import compile as compile_for
from costmodel.integrations.inductor import install, report

PART, WHOLE, BESIDE_NCCL = 32, 132, 116
STOCK = "max-autotune-no-cudagraphs"
ROUNDS = 9
MPS_PERCENT = 25.0
NCCL = {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29655",
    "NCCL_MAX_CTAS": "16",
    "NCCL_NVLS_ENABLE": "0",
}
_NCCL_BYTES, _NCCL_CALLS = 256 << 20, 12

Ways = Mapping[str, Callable[..., Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--door", action="append", choices=DOORS, help="again for more; all by default")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        print(json.dumps({"found": DOORS[args.inside](), "counts": report()}))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    path, found = args.out / "doors.json", {}
    for door in args.door or DOORS:
        found[door] = enter(door, args)
        write_json(path, found)
        print(door, json.dumps(found[door])[:400], flush=True)


def enter(door: str, args: argparse.Namespace) -> Any:
    """Run a door in a process of its own (or two, one a GPU), and return what the first prints last."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        kept = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        kept |= {"COSTMODEL_INDUCTOR_STORE": "timings.jsonl"}
        environment = (
            os.environ | shared_assembler() | {name: str(folder / each) for name, each in kept.items()}
        )
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
        of_ranks = [{"CUDA_VISIBLE_DEVICES": gpus[0]}]
        if door == "mps":
            of_ranks[0] |= stack.enter_context(MpsDaemon()).environment(MPS_PERCENT)
        elif door == "nccl":
            of_ranks = [
                NCCL | {"CUDA_VISIBLE_DEVICES": gpu, "RANK": str(i)} for i, gpu in enumerate(gpus[:2])
            ]
        log = stack.enter_context((args.out / f"{door}.log").open("w"))
        command = [sys.executable, __file__, "--out", str(args.out), "--inside", door]
        processes = [
            subprocess.Popen(
                command,
                env=environment | of_rank,
                stdout=log if i else subprocess.PIPE,
                stderr=log,
                text=True,
            )
            for i, of_rank in enumerate(of_ranks)
        ]
        try:
            printed, _ = processes[0].communicate(timeout=args.seconds)
        except subprocess.TimeoutExpired:
            return {"error": f"ended after {args.seconds:.0f} s"}
        finally:
            for each in processes:
                each.kill()
                each.wait()
    lines = printed.splitlines()
    return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"error": "see the log"}


def installed() -> Any:
    """Code that calls torch.compile itself, on a part."""
    graphs, (model, inputs) = GpuGraphs([PART]), _block()
    (part,) = graphs.granted
    with graphs.enter(part), torch.no_grad(), install(keep=6):
        served = torch.compile(model, mode=STOCK, dynamic=False)
        served(*inputs)
    return _timed(graphs, part, {"eager": model, "install": served}, inputs)


def with_cuda_graphs() -> Any:
    """PyTorch's own CUDA graphs on a part: calls by the clock, for they cannot be captured again."""
    graphs, (model, inputs) = GpuGraphs([PART]), _block(rows=8)
    (part,) = graphs.granted
    mode, found = "max-autotune", {}
    ours, stock = compile_for(model, sms=PART, mode=mode), torch.compile(model, mode=mode)
    with graphs.enter(part), torch.no_grad():
        expected = model(*inputs)
        for name, way in {"max-autotune, part": stock, "ours": ours}.items():
            made = [way(*inputs).clone() for _ in range(4)]
            graphs.wait()
            start = time.perf_counter()
            for _ in range(100):
                way(*inputs)
            graphs.wait()
            found[name] = {
                "seconds of a call": (time.perf_counter() - start) / 100,
                "largest error": max(_error(each, expected) for each in made),
            }
            torch._dynamo.reset()
    return found


def training() -> Any:
    """A step forward and backward on a part, in a CUDA graph."""
    graphs, (model, inputs) = GpuGraphs([PART]), _block(rows=8)
    (part,) = graphs.granted
    model.requires_grad_(True)
    ours = compile_for(model, sms=PART, mode="default", dynamic=False)
    ways = {"eager": model, "default": torch.compile(model, dynamic=False), "ours": ours.for_sms(part)}
    gradients, replays, compile_s = {}, {}, {}
    for name, way in ways.items():
        with graphs.enter(part):
            start = time.monotonic()
            model.zero_grad()
            way(*inputs).float().square().mean().backward()
            graphs.wait()
            compile_s[name] = round(time.monotonic() - start, 2)
        gradients[name] = torch.cat([each.grad.flatten().float() for each in model.parameters()])

        def step(way: Callable[..., Any] = way) -> None:
            for each in model.parameters():
                each.grad = None
            way(*inputs).float().square().mean().backward()

        replays[name] = graphs.capture(part, step)
    return {
        "latency_s": graphs.time(part, replays, ROUNDS),
        "compile_s": compile_s,
        "largest error": {name: _error(each, gradients["eager"]) for name, each in gradients.items()},
    }


def mps() -> Any:
    """A client that MPS limits to a quarter of the SMs."""
    from costmodel.integrations.inductor._sms import platform_here

    model, inputs = _block()
    granted = platform_here().sms_granted
    stock, ours = torch.compile(model, dynamic=False), compile_for(model, dynamic=False)
    with torch.no_grad():
        stock(*inputs)
        torch._dynamo.reset()
        ours(*inputs)
    graphs = GpuGraphs([WHOLE])  # of what MPS grants
    ways = {"eager": model, "default": stock, "ours": ours}
    return {"SMs": granted} | _timed(graphs, graphs.granted[-1], ways, inputs)


def nccl() -> Any:
    """A model beside all-reduces of two GPUs that hold up to 16 SMs."""
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    model, inputs = _block(rows=8)
    ways: dict[str, Any] = {"default": torch.compile(model, dynamic=False)}
    ours = compile_for(model, sms=[BESIDE_NCCL, WHOLE], keep=0, dynamic=False)
    ways |= {f"ours for {sms}": ours.for_sms(sms) for sms in (BESIDE_NCCL, WHOLE)}
    graphs = GpuGraphs([WHOLE])
    replays = {}
    for name, way in ways.items():
        with torch.no_grad():
            replays[name] = graphs.capture(WHOLE, lambda way=way: way(*inputs))
    dist.init_process_group("nccl", rank=rank, world_size=2)
    carried = torch.zeros(_NCCL_BYTES // 4, device="cuda")
    beside = torch.cuda.Stream()
    found = {"alone": graphs.time(WHOLE, replays, ROUNDS)}
    medians: dict[str, list[float]] = {name: [] for name in replays}
    for _ in range(ROUNDS):
        for name, replay in replays.items():
            dist.barrier()
            graphs.wait()
            with torch.cuda.stream(beside):
                for _call in range(_NCCL_CALLS):
                    dist.all_reduce(carried)
            medians[name].append(graphs.time(WHOLE, {name: replay}, 1)[name])
            graphs.wait()
    found["beside NCCL"] = {name: sorted(each)[len(each) // 2] for name, each in medians.items()}
    return found


class EightBits(torch.nn.Module):
    """The gated network of a layer of LLaMA in 8 bits, with a scale for each row as it comes."""

    largest = 448.0  # of float8_e4m3

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.gate_up = torch.randn(2 * hidden, size).to(torch.float8_e4m3fn)
        self.down = torch.randn(size, hidden).to(torch.float8_e4m3fn)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self._product(x, self.gate_up).chunk(2, -1)
        return self._product(functional.silu(gate) * up, self.down)

    def _product(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        n, k = weight.shape
        scale = x.abs().amax(-1, keepdim=True).float() / self.largest
        of_weight = torch.full((1, n), k**-0.5, device=x.device)
        rounded = (x / scale).to(torch.float8_e4m3fn)
        return torch._scaled_mm(rounded, weight.t(), scale, of_weight, out_dtype=torch.bfloat16)


def in_8_bits() -> Any:
    """Scaled products, compiled on a part and on the whole GPU."""
    graphs, found = GpuGraphs([PART, WHOLE]), {}
    with torch.device("cuda"):
        model, inputs = EightBits(4096, 14336), [torch.randn(64, 4096, dtype=torch.bfloat16)]
    for sms in graphs.granted:
        torch._dynamo.reset()
        ways: dict[str, Any] = {
            "eager": model,
            "max-autotune": torch.compile(model, mode=STOCK, dynamic=False),
        }
        for keep in (6, 0):
            ways[f"ours, {keep} timed"] = compile_for(model, sms=sms, keep=keep, dynamic=False).for_sms(sms)
        with graphs.enter(sms):
            found[str(sms)] = _timed(graphs, sms, ways, inputs)
    return found


def _block(rows: int = 1) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    network = bert(128, 768, batch=rows)
    return network.module("cuda"), network.inputs("cuda")


def _timed(graphs: GpuGraphs, sms: int, ways: Ways, inputs: list[torch.Tensor]) -> dict[str, Any]:
    with torch.no_grad():
        expected = ways["eager"](*inputs)
        errors = {name: _error(way(*inputs), expected) for name, way in ways.items()}
        replays = {name: graphs.capture(sms, lambda way=way: way(*inputs)) for name, way in ways.items()}
    return {"latency_s": graphs.time(sms, replays, ROUNDS), "largest error": errors}


def _error(made: torch.Tensor, expected: torch.Tensor) -> float:
    return float((made.float() - expected.float()).norm() / expected.float().norm())


DOORS: dict[str, Callable[[], Any]] = {
    "install": installed,
    "training": training,
    "cuda-graphs": with_cuda_graphs,
    "mps": mps,
    "nccl": nccl,
    "8-bits": in_8_bits,
}

if __name__ == "__main__":
    main()
