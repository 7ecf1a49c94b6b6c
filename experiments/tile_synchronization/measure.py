"""Times chains of two and of four products, in a stream and with synchronised tiles: see README.md.

Runs on a machine with a GPU, PyTorch and Triton, without a network; or as a rehearsal on a CPU, in small, by
Triton's interpreter (``TRITON_INTERPRET=1``), whose times mean nothing.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
import triton
from chain import POLICIES, Chain, Tile

# Shared memory for one block on an SM: beside a block that waits another would be slower.
TILES = (Tile(128, 256, 64, 8, 3), Tile(128, 128, 64, 8, 4))
TOKENS = (256, 384, 512, 768, 1024, 1280, 1536, 2048)
# Columns of the input and of what the first product makes of it.
WIDTHS = ((1024, 4096), (2048, 2048), (4096, 1024), (1024, 3072), (2048, 5632), (1536, 3072))
LENGTHS = (2, 4)
ROUNDS, REPEATS = 8, 8
Run = Callable[[], object]


def main() -> None:
    args = parse()
    end = time.monotonic() + args.time_limit
    is_cuda = args.device == "cuda"
    tiles = TILES if is_cuda else (Tile(16, 16, 16, 4, 2),)
    compiled = compile_all(tiles, args.device)
    result: dict[str, Any] = {"about": about(is_cuda), "kernels": compiled, "rows": []}
    for tokens, widths, tile in sizes(tiles, is_cuda):
        if time.monotonic() > end:
            break
        result["rows"].append(measured(Chain(tokens, widths, tile, args.device), is_cuda))
        part = args.out.with_name(f"{args.out.name}.part")  # one that is killed leaves the file before
        part.write_text(json.dumps(result) + "\n")
        part.replace(args.out)
    print(table(result["rows"]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: a rehearsal")
    return parser.parse_args()


def sizes(tiles: Sequence[Tile], is_cuda: bool) -> Iterator[tuple[int, list[int], Tile]]:
    """Tokens, widths and tile of each chain, in random order, in case time is short."""
    pairs = list(product(TOKENS, WIDTHS)) if is_cuda else [(32, (32, 64))]
    found = [
        (tokens, [*(LENGTHS[i] // 2 * widths), widths[0]], tiles[(number + i) % len(tiles)])
        for i in range(len(LENGTHS))
        for number, (tokens, widths) in enumerate(pairs)
    ]
    random.Random(0).shuffle(found)
    yield from found


def about(is_cuda: bool) -> dict[str, Any]:
    """What is measured on, with which versions."""
    found: dict[str, Any] = {"device": "cpu", "torch": torch.__version__, "triton": triton.__version__}
    if is_cuda:
        properties = torch.cuda.get_device_properties(0)
        found |= {"device": properties.name, "sms": properties.multi_processor_count}
    return found


def ways_of(chain: Chain) -> dict[str, Run]:
    """How a chain is launched, by name."""
    synchronised = {policy: lambda policy=policy: chain.synchronised(policy) for policy in POLICIES}
    return {"stream": chain.in_stream, **synchronised}


def compile_all(tiles: Sequence[Tile], device: str) -> list[dict[str, Any]]:
    """Compile each kernel, several at once; what each holds of an SM."""

    def one(tile: Tile, way: str) -> dict[str, Any]:
        chain = Chain(tile.rows, [2 * tile.columns, 2 * tile.columns, 2 * tile.columns], tile, device)
        kernel: Any = ways_of(chain)[way]()
        found = {"tile": vars(tile), "way": way, "registers": getattr(kernel, "n_regs", None)}
        return found | {"shared": getattr(getattr(kernel, "metadata", None), "shared", None)}

    cases = list(product(tiles, ("stream", *POLICIES)))
    with ThreadPoolExecutor(8 if device == "cuda" else 1) as pool:
        return list(pool.map(lambda case: one(*case), cases))


def measured(chain: Chain, is_cuda: bool) -> dict[str, Any]:
    """Seconds of a chain by each way, and of each of its products alone, in two halves of the rounds."""
    runs = {**ways_of(chain), "again": chain.in_stream}
    runs |= {f"alone {i}": lambda i=i: chain.alone(i) for i in range(2)}
    expected = chain.expected().float()
    off = {way: error(run, chain, expected) for way, run in list(runs.items())[:4]}
    taken = interleaved_s(runs, is_cuda)
    return {
        "tokens": chain.tokens,
        "widths": chain.widths,
        "tile": vars(chain.tile),
        "grids": chain.grids,
        "off": off,
        "seconds": {
            way: [median(each[: ROUNDS // 2]), median(each[ROUNDS // 2 :])] for way, each in taken.items()
        },
    }


def error(run: Run, chain: Chain, expected: torch.Tensor) -> float:
    """How far a result is off, as a part of the largest value."""
    chain.output().zero_()
    run()
    return float((chain.output().float() - expected).abs().max() / expected.abs().max())


def interleaved_s(runs: Mapping[str, Run], is_cuda: bool) -> dict[str, list[float]]:
    """Seconds of each run in each round; on a GPU those of CUDA graphs of some runs one after the other."""
    timers = {way: in_graph(run) if is_cuda else by_clock(run) for way, run in runs.items()}
    taken: dict[str, list[float]] = {way: [] for way in runs}
    for _ in range(ROUNDS):
        for way, timer in timers.items():
            taken[way].append(timer())
    return taken


def in_graph(run: Run) -> Callable[[], float]:
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            run()
    graph.replay()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def seconds() -> float:
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        return 1e-3 * first.elapsed_time(last) / REPEATS

    return seconds


def by_clock(run: Run) -> Callable[[], float]:
    def seconds() -> float:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    return seconds


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """What policies saved, in points, of chains of each length: quartiles; and the repeat of the stream."""
    lines = [f"{len(rows)} chains; worst error {max(max(row['off'].values()) for row in rows):.1e}"]
    for length in LENGTHS:
        of = [row["seconds"] for row in rows if len(row["widths"]) == length + 1]
        for way in (*POLICIES, "again") if of else ():
            saved = sorted(100 * (1 - sum(each[way]) / sum(each["stream"])) for each in of)
            quartiles = ", ".join(f"{saved[i * (len(saved) - 1) // 4]:+.1f}" for i in range(5))
            lines.append(f"{length} products, {way}: {quartiles}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
