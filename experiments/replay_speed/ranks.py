"""How long does it take to read and replay traces of several ranks with a million kernels? See README.md."""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costmodel.files import write_json
from costmodel.planner import plan

# Microseconds, of a call, a launch, a kernel and a collective; kernels between two collectives.
_CALL, _LAUNCH, _KERNEL, _COLLECTIVE, _BUCKET = 8.0, 4.0, 12.0, 60.0, 100
_COMPUTE, _COMMUNICATE = 7, 23


def main() -> None:
    """Write made-up traces, plan them, and say what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--kernels", type=int, default=1_000_000, help="of all ranks")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(args.ranks):
            write_rank(Path(folder) / f"rank{rank}.json", rank, args.ranks, args.kernels // args.ranks)
        began, cpu_began = time.perf_counter(), time.process_time()
        found = plan(folder, "scale:nccl=1.05")
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    ranks = found.ranks
    result = {
        "ranks": args.ranks,
        "kernels": int(found.summary()["before"]["kernels"]),
        "tasks": len(found.before.graph),
        "seconds": seconds,
        "cpu_s": cpu_s,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "replay_error": found.before.makespan_s / found.recorded_s - 1,
        "waited_s": float(ranks["waited_s"].sum()),
    }
    print(json.dumps(result, indent=2))
    if args.json:
        write_json(args.json, result)


def write_rank(path: Path, rank: int, ranks: int, kernels: int) -> None:
    """Write a trace: operators that launch a kernel each, and collectives on a stream of their own."""
    with path.open("w") as file:
        file.write(f'{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": [\n')
        file.write(",\n".join(json.dumps(event) for event in events_of(rank, ranks, kernels)))
        file.write("]}")


def events_of(rank: int, ranks: int, kernels: int) -> Iterator[dict[str, Any]]:
    """Events of a rank: each computes a little longer than the one before, which waits in collectives."""
    host = {"ph": "X", "pid": 100 + rank, "tid": 1}
    device = {"ph": "X", "pid": rank, "cat": "kernel"}
    now, begun, correlation, launched = 0.0, 50.0, 0, 0
    own_s, slowest_s = (_KERNEL * (1 + 0.01 * each) for each in (rank, ranks - 1))
    for number in range(kernels):
        correlation += 1
        yield {**host, "cat": "cpu_op", "name": "aten::mm", "ts": now, "dur": _CALL}
        call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": now + 3, "dur": _LAUNCH}
        yield {**host, **call, "args": {"correlation": correlation}}
        known = {"correlation": correlation, "device": rank, "stream": _COMPUTE, "grid": [132, 1, 1]}
        start = begun + number % _BUCKET * (own_s + 1)
        kernel = {"tid": _COMPUTE, "name": f"gemm_{number % 50}", "ts": start, "dur": own_s}
        yield {**device, **kernel, "args": {**known, "block": [256, 1, 1]}}
        now += _CALL + 1
        if number % _BUCKET < _BUCKET - 1:
            continue
        for name in ("cudaStreamWaitEvent", "cudaLaunchKernelExC", "cudaStreamWaitEvent"):
            correlation += 1
            launched = correlation if "Launch" in name else launched
            call = {"cat": "cuda_runtime", "name": name, "ts": now, "dur": 2.0}
            yield {**host, **call, "args": {"correlation": correlation}}
            now += 3
        began, arrived = (begun + 1 + _BUCKET * (each + 1) for each in (own_s, slowest_s))
        begun = arrived + _COLLECTIVE + 2
        known = {"correlation": launched, "device": rank, "stream": _COMMUNICATE}
        group = {"Collective name": "allreduce", "Process Group Name": "0"}
        kernel = {"tid": _COMMUNICATE, "name": "ncclDevKernel_AllReduce_Sum_f32", "ts": began}
        yield {**device, **kernel, "dur": arrived - began + _COLLECTIVE, "args": {**known, **group}}


if __name__ == "__main__":
    sys.exit(main())
